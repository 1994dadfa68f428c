"""The figures, from stored records only."""

from collections.abc import Iterator, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import LogLocator, NullLocator
from stairwise.paper import COLOURS, COLUMN, DASHES, all_seeds, count_axis, seeds_note

from in_context_regression import theory
from in_context_regression.config import Prompts


def training(records: Sequence[Any]):
    """Excess loss over the optimum and distance to the preconditioner G^-1, one colour a spectrum."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(2 * COLUMN, 2.5))
    for name, colour, dash, chosen in by_decay(records, [record.config.prompts for record in records]):
        for axes, metric in ((left, "excess"), (right, "distance")):
            all_seeds(axes, [record.series(metric) for record in chosen], name, colour, dash)
    prompts = records[0].config.prompts
    left.set(ylabel="loss / least loss - 1", title=f"d={prompts.width}, N={prompts.length}")
    right.set(ylabel=r"$|P - G^{-1}|_F\,/\,|G^{-1}|_F$", title=seeds_note(records))
    for axes in (left, right):
        axes.set(xlabel="step", yscale="log")
        axes.legend(loc="upper right", title="eigenvalues")
        count_axis(axes)
    return figure


def shift(records: Sequence[Any]):
    """Loss by the scale of the test covariance and by the length of test prompts; lines are closed forms."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(2 * COLUMN, 2.7))
    for name, colour, dash, chosen in by_decay(records, [record.config.training.prompts for record in records]):
        prompts = chosen[0].config.training.prompts
        l, N, noise = theory.spectrum(prompts.width, prompts.decay), prompts.length, prompts.noise
        P = np.diag(1 / theory.gamma(l, N, noise))
        scales, lengths = dots(left, chosen, "scale", colour, 100), dots(right, chosen, "length", colour)
        by_scale = [theory.loss(P, c * l, N, noise) for c in scales]
        by_length = [theory.loss(P, l, M, noise) for M in lengths]
        best = [theory.minimum(c * l, N, noise) for c in scales]
        left.plot(scales, by_scale, dash, color=colour, label=f"{name}: trained")
        left.plot(scales, best, ":", color=colour, label=f"{name}: best for this covariance")
        right.plot(lengths, by_length, dash, color=colour, label=f"{name}: trained")
        right.axhline(theory.longest(P, l), color=colour, linestyle=":", label=f"{name}: endless prompts")
    prompts, seeds = records[0].config.training.prompts, len({record.seed for record in records})
    left.set(xlabel="test covariance / training covariance", title=f"trained at d={prompts.width}, N={prompts.length}")
    right.set(xlabel="length M of test prompts", title=f"dots: {seeds} seeds; lines: closed forms")
    left.legend(loc="upper left")
    right.legend(loc="upper right")
    return figure


def dots(axes: Any, records: Sequence[Any], stage: str, colour: str, unit: float = 1.0) -> np.ndarray:
    """Every seed's losses by the steps of a stage, on logarithmic axes; gives a fine grid for lines beside them."""
    places = records[0].series("loss", stage)[0] / unit
    for record in records:
        axes.plot(places, record.series("loss", stage)[1], "o", color=colour, markersize=3, alpha=0.5)
    axes.set(xscale="log", yscale="log", ylabel="loss (1/2 convention)")
    axes.set_xticks(places, [f"{place:g}" for place in places])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_locator(NullLocator())
    return np.geomspace(places.min(), places.max(), 100)


def by_decay(records: Sequence[Any], prompts: Sequence[Prompts]) -> Iterator[tuple[str, str, str, list[Any]]]:
    """Label, colour, dash and records of each spectrum."""
    for number, decay in enumerate(sorted({each.decay for each in prompts})):
        chosen = [record for record, each in zip(records, prompts, strict=True) if each.decay == decay]
        name = "all equal" if decay == 0 else rf"$\sim i^{{-{decay:g}}}$"
        yield name, COLOURS[number % len(COLOURS)], DASHES[number % len(DASHES)], chosen
