"""The figures of the theory model, drawn from stored records only."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from stairwise.lab.contract.plots import (
    COLUMN,
    DASHES,
    all_seeds,
    colour,
    count_axis,
    grouped,
    seeds_note,
    subplots,
    titled,
)
from stairwise.papers.lego.model import feature_ratio
from stairwise.papers.lego.theory import lengths

NAMED = ("V(g)/B", "V(y)/B", "V(g')/B", "V(y')/B")


def by_action(records: Sequence[Any]) -> dict[str, list[Any]]:
    return grouped(records, lambda record: record.config.action)


def medians(records: Sequence[Any], values) -> tuple[float, float, float]:
    """Median of a value over records, and how far down and up the seeds reach."""
    found = np.array([values(record) for record in records])
    middle = float(np.median(found))
    return middle, middle - float(found.min()), float(found.max()) - middle


def ratio_of(record: Any) -> float:
    group = record.config.group
    return feature_ratio(group.actions, group.values)


# --- features ---------------------------------------------------------------------------------------------------------


def features(records: Sequence[Any]):
    """One panel an action with the four magnitudes over steps; then every action's ratio against C."""
    groups = by_action(records)
    rows = math.ceil((len(groups) + 1) / 5)
    columns = math.ceil((len(groups) + 1) / rows)
    figure, grid = subplots(rows, columns, figsize=(1.9 * columns, 2.6 * rows), squeeze=False)
    panels = grid.flatten()
    for place, (panel, (action, some)) in enumerate(zip(panels, groups.items(), strict=False)):
        for number, name in enumerate(NAMED):
            all_seeds(panel, [record.series(name) for record in some], name, colour(number))
        panel.set(title=action, xlabel="step", ylim=(-1.8, 1.8), ylabel="" if place % columns else "mean over winners")
        count_axis(panel)
    panels[0].legend(fontsize=6)
    last = panels[len(groups)]
    for unused in panels[len(groups) + 1 :]:
        unused.axis("off")
    for number, (action, some) in enumerate(groups.items()):
        middle, low, high = medians(some, lambda record: record.final("ratio"))
        last.errorbar([ratio_of(some[0])], [middle], [[low], [high]], fmt="o", color=colour(number), label=action)
    ends = np.array(sorted({ratio_of(record) for record in records}))
    last.plot(ends, ends, ":", color="black", linewidth=0.8)
    last.set(xlabel="C of Theorem C.1", ylabel="V(g)/V(y)", title="ratio (bars: all seeds)")
    last.legend(fontsize=6, loc="center left", bbox_to_anchor=(1.0, 0.5))
    off = max(abs(record.final("ratio") / ratio_of(record) - 1) for record in records)
    titled(
        figure,
        f"On one-step chains V(g)/V(y) is Theorem C.1's ratio up to {off:.1%} in all {len(records)} runs",
        seeds_note(records),
    )
    return figure


def starts(records: Sequence[Any]):
    """Share, cancellation, ratio and predicted winners against sigma_0, for coarse and resolved steps."""
    groups = grouped(records, lambda record: (record.config.action, record.config.scale))
    figure, panels = subplots(1, 3, figsize=(2.3 * COLUMN, 2.9))
    measures = (
        ("least share", "least share of the best neuron", None),
        ("cancellation", "largest |V(g)+V(y')|, |V(g')+V(y)| over B", None),
        ("ratio", "V(g)/V(y) over C", ratio_of),
    )
    for number, ((action, scale), some) in enumerate(groups.items()):
        sizes = grouped(some, lambda record: record.config.sigma0)
        for panel, (name, title, unit) in zip(panels, measures, strict=True):
            rows = [[r.final(name) / (unit(r) if unit else 1) for r in chosen] for chosen in sizes.values()]
            for place, row in zip(sizes, rows, strict=True):
                panel.plot([place] * len(row), row, "o", color=colour(number), alpha=0.4, markersize=3)
            label = f"{action}, {'resolved' if scale == 'relative' else 'coarse'} steps"
            panel.plot(list(sizes), [np.median(row) for row in rows], color=colour(number), label=label)
            panel.set(xscale="log", xlabel=r"initial scale $\sigma_0$", title=title)
    panels[1].set_yscale("log")
    figure.legend(*panels[0].get_legend_handles_labels(), fontsize=6, loc="outside lower center", ncols=4)
    seeds = len({record.seed for record in records})
    by_scale = grouped(records, lambda record: record.config.sigma0)
    shares = {scale: np.median([r.final("least share") for r in some]) for scale, some in by_scale.items()}
    ends = " and ".join(f"{shares[scale]:.2f} at a start of {scale:g}" for scale in (min(shares), max(shares)))
    titled(
        figure,
        f"The least share of a pair that its best neuron has: {ends} (medians)",
        f"{seeds} seeds: dots; lines: medians",
    )
    return figure


# --- attention --------------------------------------------------------------------------------------------------------


def star(record: Any) -> float:
    return lengths.critical_length(record.array("attention/scores"), record.config.group.values)


def match_curves(panel: Any, groups: dict[str, list[Any]]) -> None:
    """Exact match against length, every seed, with L* dotted."""
    for number, (action, some) in enumerate(groups.items()):
        runs = [(record.array("attention/lengths"), record.array("attention/exact match")) for record in some]
        all_seeds(panel, runs, f"{action}, L* = {star(some[0]):.0f}", colour(number), DASHES[number % 3])
        panel.axvline(star(some[0]), color=colour(number), linestyle=":", linewidth=0.9)
    panel.set(xscale="log", xlabel="length L of the chain", ylabel="exact match", ylim=(-0.03, 1.05))
    panel.legend(fontsize=6)


def dynamics(records: Sequence[Any]):
    """a and c, eps(2,2), and how long a chain comes out right."""
    groups = by_action(records)
    figure, (left, middle, right) = subplots(1, 3, figsize=(2.2 * COLUMN, 3.0))
    for number, (action, some) in enumerate(groups.items()):
        first = some[0]  # the descent is exact: seeds differ in the roll-outs only
        left.plot(*first.series("a"), color=colour(number), label=action)
        left.plot(*first.series("c"), color=colour(number), linestyle="--")
        middle.plot(*first.series("eps"), color=colour(number), label=action)
    for panel in (left, middle):
        count_axis(panel)
    left.set(xlabel="step", ylabel="a (solid), c (dashed)", title="diagonals of Q43 and Q44")
    middle.set(xlabel="step", ylabel="eps(2,2)", yscale="log", title="attention that misses")
    left.legend(fontsize=6)
    match_curves(right, groups)
    right.set_title("roll-out; dotted: L*")
    titled(figure, f"Trained on chains of two, {_longest(groups)}", _settings(records))
    return figure


def _longest(groups: dict[str, list[Any]]) -> str:
    """The actions with the longest and the shortest chains that come out right."""
    found = {action: star(some[0]) for action, some in groups.items()}
    best, worst = (chosen(found, key=lambda action: found[action]) for chosen in (max, min))
    return f"{best} comes out right up to L* = {found[best]:.0f} and {worst} up to L* = {found[worst]:.0f}"


def _settings(records: Sequence[Any]) -> str:
    config, seeds = records[0].config, len({record.seed for record in records})
    return f"{config.steps:,} steps, |X| = {config.variables}; {seeds} seeds"


def limits(records: Sequence[Any]):
    """Left: exact match against length. Right: L* against the fiber size, solvable or not."""
    groups = by_action(records)
    figure, (left, right) = subplots(1, 2, figsize=(2.1 * COLUMN, 2.8))
    match_curves(left, groups)
    left.set_title("roll-out; dotted: L*")
    places = grouped(groups, lambda action: _fiber_and_length(groups[action][0]))
    height, beside = 0.0, 1.6 * max(fiber for fiber, _ in places)
    for place in sorted(places, key=lambda place: place[1]):
        names = places[place]
        group = groups[names[0]][0].config.group
        marker = "o" if all(groups[name][0].config.group.solvable for name in names) else "s"
        right.plot(*place, marker, color=colour(list(groups).index(names[0])))
        words = f"{', '.join(names)}: {group.values} values"
        height = max(place[1], 1.09 * height)  # names stand in a column, none on another
        line = {"arrowstyle": "-", "linewidth": 0.4, "color": "0.6"}
        right.annotate(words, place, (beside, height), fontsize=6, va="center", arrowprops=line, annotation_clip=False)
    right.set(xscale="log", yscale="log", xlabel="fiber size |G|/|Y|", ylabel="L*", title="square: not solvable")
    plain_ticks(right.xaxis, (1, 3, 10, 30))
    plain_ticks(right.yaxis, (50, 100, 200, 300, 500, 1000, 2000, 5000))
    titled(figure, f"{_longest(groups)[0].upper()}{_longest(groups)[1:]}", _settings(records))
    return figure


def plain_ticks(axis: Any, values: Sequence[int]) -> None:
    """Those of the values that the axis spans as its only ticks, in plain digits."""
    low, high = axis.get_view_interval()
    shown = [value for value in values if low <= value <= high]
    axis.set_ticks(shown, [str(value) for value in shown])
    axis.set_ticks([], minor=True)


def _fiber_and_length(record: Any) -> tuple[float, float]:
    group = record.config.group
    return group.actions / group.values, round(star(record), 1)


def window(records: Sequence[Any]):
    """eps and |gap| at the end of the stage against C_B, with the bounds of Lemmas E.24, E.35 and E.22."""
    groups = by_action(records)
    figure, (left, right) = subplots(1, 2, figsize=(2.0 * COLUMN, 2.6))
    factors = np.linspace(*_range(records), 100)
    low, high = lengths.window(factors)
    left.fill_between(factors, low, high, color="grey", alpha=0.2, label="[4 c1/3, 2.52 c1]")
    right.plot(factors, lengths.window_constant(factors), ":", color="black", label="c1 = 1.005/C_B")
    for number, (action, some) in enumerate(groups.items()):
        ordered = sorted(some, key=lambda record: record.config.network.clip_factor)
        x = [record.config.network.clip_factor for record in ordered]
        style = {"color": colour(number), "label": action, "markersize": 4}
        left.plot(x, [record.final("eps") for record in ordered], "o-", **style)
        right.plot(x, [abs(record.final("gap")) for record in ordered], "o-", **style)
    left.set(xlabel="C_B", ylabel="eps(2,2)", title="attention that misses, at the end of the stage")
    right.set(xlabel="C_B", ylabel="|gap|", title="gap between the two targets")
    left.legend(fontsize=6)
    right.legend(fontsize=6)
    inside = [float(low) <= record.final("eps") <= float(high) for record in records
              for low, high in [lengths.window(record.config.network.clip_factor)]]  # fmt: skip
    titled(
        figure,
        f"A symmetric stage stops inside its window in {sum(inside)} of {len(inside)} runs",
        f"{len({record.seed for record in records})} seeds",
    )
    return figure


def _range(records: Sequence[Any]) -> tuple[float, float]:
    factors = [record.config.network.clip_factor for record in records]
    return min(factors), max(factors)


# --- the algorithms ---------------------------------------------------------------------------------------------------


def stages(records: Sequence[Any]):
    """One row an arm: exact match at L, 2L, 4L, 8L by stage, then eps(L, l) for every l."""
    arms = grouped(records, lambda record: record.arm)
    figure, panels = subplots(len(arms), 2, figsize=(2.2 * COLUMN, 2.5 * len(arms)), squeeze=False)
    for (left, right), (arm, some) in zip(panels, arms.items(), strict=True):
        count = some[0].config.stages
        trained = 2 ** np.arange(1, count + 1)
        for number, factor in enumerate((1, 2, 4, 8)):
            runs = [(trained, _matches(record, count)[:, number]) for record in some]
            all_seeds(left, runs, f"{factor}L" if factor > 1 else "L", colour(number))
        for k, length in enumerate(trained):
            runs = [(np.arange(1, length + 1) / length, record.array(f"L={length}/eps")) for record in some]
            all_seeds(right, runs, f"L={length}", colour(k))
        left.set(xscale="log", xlabel="length L of the stage", ylabel="exact match", ylim=(-0.03, 1.05))
        left.set_xticks(trained, [str(length) for length in trained])
        left.minorticks_off()
        labels = min(record.final("label accuracy") for record in some)
        action = some[0].config.action
        left.set_title(f"{arm or action}; least label accuracy {labels:.3f}")
        right.set(xlabel="l/L", ylabel="eps(L,l)", title="attention that misses, every step")
        left.legend(fontsize=6)
        right.legend(fontsize=6, loc="center left", bbox_to_anchor=(1.0, 0.5))
    least = min(float(_matches(record, record.config.stages)[:, 1].min()) for record in records)
    titled(
        figure,
        f"Algorithm 2: after each stage {least:.3g} or more of the chains twice as long come out right",
        seeds_note(records),
    )
    return figure


def _matches(record: Any, count: int) -> np.ndarray:
    return np.stack([record.array(f"L={2**k}/exact match") for k in range(1, count + 1)])


def algorithm1(records: Sequence[Any]):
    """Stage 1's token losses, stage 2's diagonals, and roll-outs before and after stage 2."""
    arms = grouped(records, lambda record: record.arm)
    figure, panels = subplots(len(arms), 3, figsize=(2.3 * COLUMN, 2.2 * len(arms)), squeeze=False)
    for (left, middle, right), (arm, some) in zip(panels, arms.items(), strict=True):
        for number, token in enumerate((4, 5)):
            all_seeds(left, [record.series(f"token {token}") for record in some], f"token {token}", colour(number))
        for number, name in enumerate(("Q43 diagonal", "Q44 diagonal", "Q43 largest other", "Q44 largest other")):
            all_seeds(middle, [record.series(name) for record in some], name, colour(number))
        tested = np.array(some[0].config.test_lengths)
        runs = [(tested, record.array("two steps/value match")) for record in some]
        all_seeds(right, runs, "after stage 2", colour(0))
        runs = [(tested, record.array("one step/untrained value match")) for record in some]
        all_seeds(right, runs, "after stage 1 (Q = 0)", colour(1))
        left.set(yscale="log", ylabel="loss", title=f"{arm}: stage 1", xlabel="step")
        middle.set(title="stage 2", xlabel="step", ylabel="entries of Q")
        right.set(title="roll-out", xlabel="length L of the chain", ylabel="exact match", ylim=(-0.03, 1.05))
        for panel in (left, middle, right):
            panel.legend(fontsize=6)
    least = min(float(record.array("two steps/value match").min()) for record in records)
    share = "all" if least == 1 else f"{least:.3g} or more of the"
    titled(
        figure,
        f"Algorithm 1 end to end: {share} chains come out right at every length in {len(records)} runs",
        seeds_note(records),
    )
    return figure
