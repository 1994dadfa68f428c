"""What the filter keeps and what it is good for, against the noise of the labels."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stairwise.lab.contract.plots import COLUMN, colour, subplots, titled
from stairwise.papers.crossings.filter.config import kept_share, right_share
from stairwise.papers.crossings.filter.runs import before, chosen, levels


def noise(records: Sequence[Any]):
    """Left: chains kept and chains right among them, with the formula. Right: exact match after self-training."""
    config = records[0].config
    figure, (left, right) = subplots(1, 2, figsize=(2.2 * COLUMN, 2.9))
    draw(left, records, False, True, lambda r: r.final("kept"), "kept by the filter", 0)
    draw(left, records, False, True, lambda r: r.final("label exact"), "right, of those kept", 2)
    draw(left, records, False, False, lambda r: r.final("label exact"), "right, of all", 1)
    p = np.linspace(0, max(levels(records, False)), 100)
    sizes = config.base.task.group.values, config.length, config.tellings
    for formula, number in ((kept_share, 0), (right_share, 2)):
        left.plot(p, [formula(one, *sizes) for one in p], ":", color=colour(number), linewidth=1)
    left.set(xlabel="noise p of a label", ylabel=f"share of chains, L={config.length}", ylim=(-0.03, 1.03))
    left.set_title("dotted: formula for a perfect annotator")
    names = {(False, False): "all chains", (False, True): "filtered"}
    names |= {(True, False): "all, systematic noise", (True, True): "filtered, systematic noise"}
    for number, ((same, kept), name) in enumerate(names.items()):
        draw(right, records, same, kept, lambda r: r.final(f"exact {r.config.length}"), name, (1, 0, 4, 5)[number])
    idle = [p for p in levels(records, False) if all(r.final("kept") == 0 for r in chosen(records, p, False, True))]
    if idle:
        values = [
            np.median([r.final(f"exact {r.config.length}") for r in chosen(records, p, False, True)]) for p in idle
        ]
        right.plot(idle, values, "s", color=colour(0), markersize=7, fillstyle="none", label="none kept: not trained")
    level = float(np.median(before(records)))
    right.axhline(level, color="grey", linestyle="--", linewidth=0.8, label="before (median)")
    right.set(xlabel="noise p of a label", ylabel=f"all values right at L={config.length}", ylim=(-0.03, 1.03))
    for axes in (left, right):
        axes.legend(fontsize=6)
    task, seeds = config.base.task, len({record.seed for record in records})
    text = f"{task.action}, |X|={task.variables}, trained at L={task.length}, then at {config.length} on own labels"
    worst = max(levels(records, False))
    ends = [
        np.median([r.final(f"exact {r.config.length}") for r in chosen(records, worst, False, kept)])
        for kept in (True, False)
    ]
    titled(
        figure,
        f"At a noise of {worst:g} self-training leaves {ends[0]:.2f} of chains right with the filter,"
        f" {ends[1]:.2f} without (medians)",
        f"{text}; {seeds} seeds: thin lines; median: thick",
    )
    return figure


def draw(
    axes: Any,
    records: Sequence[Any],
    systematic: bool,
    kept: bool,
    value: Callable[[Any], float],
    label: str,
    number: int,
) -> None:
    """Every seed as a thin line through dots, the median as a thick one; shares of nothing are left out."""
    places = [p for p in levels(records, systematic) if chosen(records, p, systematic, kept)]
    if not places:
        return
    runs = {p: chosen(records, p, systematic, kept) for p in places}
    for seed in sorted({record.seed for record in records}):
        own = [
            (p, value(record)) for p in places for record in runs[p] if record.seed == seed and defined(record, label)
        ]
        axes.plot(*zip(*own, strict=True), "o-", color=colour(number), markersize=2.5, linewidth=0.6, alpha=0.4)
    middle = [
        (p, np.median([value(r) for r in runs[p] if defined(r, label)]))
        for p in places
        if any(defined(r, label) for r in runs[p])
    ]
    axes.plot(*zip(*middle, strict=True), color=colour(number), label=label, marker="s", markersize=3)


def defined(record: Any, label: str) -> bool:
    """Whether a run has that share: none is right where none was kept."""
    return not label.startswith("right") or record.final("kept") > 0
