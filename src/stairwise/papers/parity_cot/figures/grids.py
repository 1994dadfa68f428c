"""Tables of layers against heads (Figures 2a and 4)."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stairwise.lab.contract.plots import COLUMN, subplots, titled
from stairwise.measure.complexity import kaplan_meier
from stairwise.papers.parity_cot.figures.run_dots import chain_text, pool_text
from stairwise.papers.parity_cot.runs import best_of_rates, grouped, shape, where


def table(
    axes: Any,
    records: Sequence[Any],
    value: Callable[[list[Any]], float],
    text: Callable[[list[Any]], str],
    **scale: Any,
) -> Any:
    """A cell for every (layers, heads), coloured by a value and labelled by a text; empty where nothing was run."""
    cells = grouped(records, shape)
    layers, heads = (sorted({pair[axis] for pair in cells}) for axis in (0, 1))
    values = np.full((len(layers), len(heads)), np.nan)
    for (layer, head), group in cells.items():
        place = layers.index(layer), heads.index(head)
        values[place] = value(group)
        axes.text(
            place[1],
            place[0],
            text(group),
            ha="center",
            va="center",
            fontsize=6,
            bbox={"facecolor": "white", "alpha": 0.7, "linewidth": 0, "pad": 1},
        )
    image = axes.imshow(values, origin="lower", aspect="auto", cmap="cividis", **scale)
    axes.set(xticks=range(len(heads)), yticks=range(len(layers)), xticklabels=heads, yticklabels=layers)
    axes.grid(False)
    return image


def median_samples(group: list[Any]) -> float:
    """The median at the best rate; the budget where fewer than half succeed."""
    return min(kaplan_meier(best_of_rates(group)).median().value, group[0].config.budget)


def samples_text(group: list[Any]) -> str:
    best = best_of_rates(group)
    middle = kaplan_meier(best).median().value
    words = f"{middle / 1000:.3g}k" if math.isfinite(middle) else f">{group[0].config.budget / 1000:.3g}k"
    return f"{words}\n{best.reached}/{len(best.times)}"


def complexity(records: Sequence[Any]):
    """Figure 2a: median samples for every shape, a row for each arm, a column for each k."""
    sizes = sorted({record.config.task.size for record in records})
    figure, panels = subplots(2, len(sizes), figsize=(max(1.4, 0.62 * len(sizes)) * COLUMN, 3.6), squeeze=False)
    from matplotlib.colors import LogNorm

    bounds = [
        median_samples(group) for group in grouped(records, lambda c: (shape(c), c.task.size, c.task.cot)).values()
    ]
    norm = LogNorm(min(bounds), max(bounds))
    for row, cot in enumerate((True, False)):
        for column, size in enumerate(sizes):
            chosen = where(records, lambda c, cot=cot, size=size: c.task.cot == cot and c.task.size == size)
            image = table(panels[row, column], chosen, median_samples, samples_text, norm=norm)
            panels[row, column].set_title(f"{chain_text(cot)}, k={size}")
    for axes in panels[:, 0]:
        axes.set_ylabel("layers")
    for axes in panels[-1]:
        axes.set_xlabel("heads")
    figure.colorbar(image, ax=panels, label="median samples (budget where unknown)", shrink=0.8)
    config = records[0].config
    largest, found = sizes[-1], []
    for cot in (True, False):
        chosen = where(records, lambda c, cot=cot: c.task.cot == cot and c.task.size == largest)
        best = [best_of_rates(group) for group in grouped(chosen, shape).values()]
        learnt, runs = sum(one.reached for one in best), sum(len(one.times) for one in best)
        found.append(f"{learnt} of {runs} {chain_text(cot)}")
    titled(
        figure,
        f"Seeds that learn k = {largest} at their best rate, over all shapes: {', '.join(found)}",
        f"n={config.task.bits}, width {config.model.width}; below: runs that succeed",
    )
    return figure


def mean_accuracy(group: list[Any]) -> float:
    return float(np.mean([record.final("exact match") for record in group]))


def accuracy_text(group: list[Any]) -> str:
    reached = sum(record.status == "reached" for record in group)
    return f"{mean_accuracy(group):.2f}\n{reached}/{len(group)}"


def accuracy(records: Sequence[Any]):
    """Figure 4: mean final accuracy without CoT by shape, and how often all was right; CoT as the reference."""
    without = where(records, lambda config: not config.task.cot)
    reference = where(records, lambda config: config.task.cot)
    figure, axes = subplots(figsize=(1.3 * COLUMN, 2.7))
    image = table(axes, without, mean_accuracy, accuracy_text, vmin=0, vmax=1)
    figure.colorbar(image, label="mean final exact match")
    config, seeds = without[0].config, len({record.seed for record in without})
    words = f"n={config.task.bits}, k={config.task.size}, {pool_text(config.samples)}, width {config.model.width}"
    words += f"; {seeds} seeds; below: runs that learn"
    if reference:
        epochs = kaplan_meier(best_of_rates(reference)).median().value / max(reference[0].config.samples, 1)
        words += f"\nwith CoT: {accuracy_text(reference).split()[1]} learn, median {epochs:.1f} epochs"
    axes.set(xlabel="heads", ylabel="layers")
    cells = {
        pair: sum(record.status == "reached" for record in group) for pair, group in grouped(without, shape).items()
    }
    (layers, heads), most = max(cells.items(), key=lambda item: item[1])
    titled(
        figure,
        f"Without CoT, {sum(cells.values())} of {len(without)} runs learn from few sequences,"
        f" most ({most}) at {layers} x {heads} layers and heads",
        words,
    )
    return figure
