"""What the figures share: dots for runs, hollow triangles for those that spent their budget, words for a config."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from stairwise.lab.contract.plots import COLOURS, lost_note
from stairwise.measure.complexity import Hits, kaplan_meier
from stairwise.papers.parity_cot.runs import shape, shape_text

COT, NO_COT = COLOURS[0], COLOURS[1]


def chain_text(cot: bool) -> str:
    return "with CoT" if cot else "without CoT"


def pool_text(samples: int) -> str:
    return f"{samples:,} sequences" if samples else "fresh sequences"


def model_text(config: Any) -> str:
    return f"{shape_text(shape(config))}, width {config.model.width}"


def setting(records: Sequence[Any]) -> str:
    """n, the model, and how many seeds."""
    config, seeds = records[0].config, len({record.seed for record in records})
    text = f"n={config.task.bits}; {model_text(config)}; {seeds} seed{'s' if seeds > 1 else ''}"
    return text + lost_note(records)


def run_dots(axes: Any, x: float, found: Hits, hue: str, spread: float = 0.0, label: str | None = None) -> None:
    """One mark a run at x (spread out so that none hides another): a dot for a hit, a triangle for a spent budget."""
    places = x + spread * np.linspace(-1, 1, len(found.times)) if len(found.times) > 1 else np.array([x])
    for censored, marker, face in ((False, "o", hue), (True, "^", "none")):
        chosen = found.censored == censored
        axes.plot(
            places[chosen],
            found.times[chosen],
            marker,
            color=hue,
            markerfacecolor=face,
            markersize=3.5,
            alpha=0.75,
            linestyle="none",
            label=label if not censored else None,
        )


def median_line(axes: Any, x: Sequence[float], found: Sequence[Hits], hue: str, **style: Any) -> None:
    """Kaplan-Meier medians, where half of the runs were seen to succeed."""
    medians = [kaplan_meier(one).median().value for one in found]
    shown = [(place, value) for place, value in zip(x, medians, strict=True) if math.isfinite(value)]
    if shown:
        axes.plot(*zip(*shown, strict=True), color=hue, **style)


def triangle_key(axes: Any) -> None:
    """A legend entry for runs that spent their budget."""
    axes.plot(
        [],
        [],
        "^",
        color="grey",
        markerfacecolor="none",
        markersize=3.5,
        linestyle="none",
        label="budget spent, not learnt",
    )


def success_curve(axes: Any, found: Hits, budget: int, hue: str, label: str) -> None:
    """Kaplan-Meier: the share of runs that have succeeded, with its limits, from the start to the budget."""
    curve = kaplan_meier(found)
    times = np.concatenate([curve.times[:1], curve.times, [budget]])
    share, low, high = (
        np.concatenate([[0.0], values, values[-1:]]) for values in (curve.success, curve.low, curve.high)
    )
    axes.step(times, share, where="post", color=hue, label=label)
    axes.fill_between(times, low, high, step="post", color=hue, alpha=0.12, linewidth=0)
