"""Samples to success against k, all supervisions on one axis, every run shown."""

from collections.abc import Sequence
from typing import Any

from stairwise.lab.contract.plots import COLUMN, colour, subplots, titled
from stairwise.papers.crossings.drawing import plain_log
from stairwise.papers.crossings.hits import hits
from stairwise.papers.crossings.supervisions.config import SUPERVISIONS
from stairwise.papers.crossings.supervisions.runs import by_size
from stairwise.papers.parity_cot.figures.run_dots import median_line, model_text, run_dots, triangle_key
from stairwise.papers.parity_cot.runs import grouped, where

ACROSS = 3  # panels in a row
NAMES = {
    "none": "the answer alone",
    "chain": "chain of partial sums",
    "tree": "balanced tree",
    "mixture": "shorter parities mixed in",
    "self": "own chains that end right",
}


def against_size(records: Sequence[Any]):
    """Every run at the rate chosen for its supervision and k, and the medians."""
    figure, axes = subplots(figsize=(1.6 * COLUMN, 3.2))
    for number, supervision in enumerate(SUPERVISIONS):
        groups, shift = by_size(records, supervision), 0.13 * (number - 2)
        places = [size + shift for size in groups]
        found = [hits(group) for group in groups.values()]
        for place, one in zip(places, found, strict=True):
            run_dots(axes, place, one, colour(number), 0.04)
        median_line(axes, places, found, colour(number), alpha=0.6)
        axes.plot([], [], "o-", color=colour(number), markersize=3.5, label=NAMES[supervision])
    triangle_key(axes)
    finish(axes, records)
    tried = ", ".join(f"{rate:g}" for rate in rates_of(records))
    chosen = f"rate {tried}" if len(rates_of(records)) == 1 else f"each k at the best rate of {tried}"
    titled(figure, reach(records), f"{setting(records)}; lines: medians; {chosen}")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def rates(records: Sequence[Any]):
    """One panel a supervision: every rate, every run."""
    across = min(ACROSS, len(SUPERVISIONS))
    down = -(-len(SUPERVISIONS) // across)
    figure, grid = subplots(
        down, across, figsize=(2.2 * COLUMN, 2.2 * down + 0.5), sharex=True, sharey=True, squeeze=False
    )
    panels = grid.flat[: len(SUPERVISIONS)]
    for axes in grid.flat[len(SUPERVISIONS) :]:
        axes.axis("off")
    for axes, supervision in zip(panels, SUPERVISIONS, strict=True):
        for number, rate in enumerate(rates_of(records)):
            own = where(records, lambda c, s=supervision, r=rate: c.supervision == s and c.learning_rate == r)
            for place, (size, group) in enumerate(grouped(own, lambda config: config.size).items()):
                run_dots(
                    axes,
                    size + 0.2 * (number - (len(rates_of(records)) - 1) / 2),
                    hits(group),
                    colour(number),
                    0.06,
                    f"rate {rate:g}" if place == 0 else None,
                )
        finish(axes, records)
        axes.set_title(NAMES[supervision])
        axes.label_outer()
    from matplotlib.lines import Line2D

    triangle_key(panels[0])
    handles = [
        Line2D([], [], marker="o", linestyle="none", color=colour(number), markersize=3.5, label=f"rate {rate:g}")
        for number, rate in enumerate(rates_of(records))
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    titled(
        figure,
        reach(records),
        f"{setting(records)}; hollow: budget spent, not learnt",
    )
    return figure


def reach(records: Sequence[Any]) -> str:
    """The finding: up to which k at least half of the runs learn, by supervision."""
    found = []
    for supervision in SUPERVISIONS:
        groups = {size: hits(group) for size, group in by_size(records, supervision).items()}
        learnt = [size for size, one in groups.items() if 2 * one.reached >= len(one.times)]
        found.append(f"{max(learnt) if learnt else 'no k'} ({NAMES[supervision]})")
    return f"Half of the runs or more learn up to k = {', '.join(found)}"


def finish(axes: Any, records: Sequence[Any]) -> None:
    axes.set(yscale="log", xlabel="secret bits k", ylabel="samples until the answer is right")
    plain_log(axes.yaxis)
    axes.set_xticks(sorted({record.config.size for record in records}))


def rates_of(records: Sequence[Any]) -> list[float]:
    return sorted({record.config.learning_rate for record in records})


def setting(records: Sequence[Any]) -> str:
    config, seeds = records[0].config, len({record.seed for record in records})
    return f"n={config.bits}; {model_text(config)}; {seeds} seed{'s' if seeds > 1 else ''}"
