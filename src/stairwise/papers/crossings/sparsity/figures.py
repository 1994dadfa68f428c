"""Entropy and accuracy side by side, and which of them moves first."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stairwise.lab.contract.plots import COLOURS, COLUMN, all_seeds, subplots, titled
from stairwise.papers.crossings.drawing import plain_log
from stairwise.papers.crossings.sparsity.config import TASKS
from stairwise.papers.crossings.sparsity.runs import halves, sign_test

ACROSS = 3  # panels in a row


def of_task(records: Sequence[Any], task: str) -> list[Any]:
    return [record for record in records if record.config.task == task]


def traces(records: Sequence[Any]):
    """A panel a task: every seed, medians and quartiles of both traces."""
    tasks = [task for task in TASKS if of_task(records, task)]
    across = min(len(tasks), ACROSS)
    down = -(-len(tasks) // across)
    figure, panels = subplots(down, across, figsize=(2.2 * COLUMN, 2.1 * down + 0.4), sharey=True, squeeze=False)
    for axes in panels.flat[len(tasks) :]:
        axes.axis("off")
    for axes, task in zip(panels.flat, tasks, strict=False):
        for name, colour, dash in (("accuracy", COLOURS[0], "-"), ("entropy", COLOURS[1], "--")):
            own = [record.series(name) for record in of_task(records, task)]
            look = of_task(records, task)[0].config.measure_every
            all_seeds(axes, [(steps * look, values) for steps, values in own], name, colour, dash)
        axes.set(title=task, xlabel="steps", ylim=(-0.05, 1.05))
    for axes in panels[:, 0]:
        axes.set_ylabel("accuracy, normalised entropy")
    handles, names = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=2)
    seeds = len({record.seed for record in records})
    titled(
        figure,
        first_to_move(records),
        f"{seeds} seeds: thin lines; median: thick; band: quartiles",
    )
    return figure


def first_to_move(records: Sequence[Any]) -> str:
    """The finding: on which tasks entropy is half-way down before accuracy is half-way up, in most seeds."""
    sharp, right = [], []
    for task in TASKS:
        found = [one for one in map(halves, of_task(records, task)) if one.learnt and np.isfinite(one.entropy)]
        if found:
            first = sum(one.sparse_first for one in found)
            (sharp if 2 * first > len(found) else right).append(task)
    parts = ((sharp, "attention sharpens first"), (right, "answers are right first"))
    said = "; ".join(f"{what} in most seeds on {', '.join(tasks)}" for tasks, what in parts if tasks)
    return said[:1].upper() + said[1:]


def order(records: Sequence[Any]):
    """A dot a seed; above the diagonal entropy moved first."""
    figure, axes = subplots(figsize=(1.5 * COLUMN, 2.8))
    ends = []
    for number, task in enumerate(TASKS):
        found = [one for one in map(halves, of_task(records, task)) if one.learnt and np.isfinite(one.entropy)]
        if not found:
            continue
        first = sum(one.sparse_first for one in found)
        label = f"{task}: entropy first in {first} of {len(found)}, p = {sign_test(first, len(found)):.2g}"
        x, y = [one.entropy for one in found], [one.accuracy for one in found]
        ends += x + y
        axes.plot(x, y, "os^Dv"[number], color=COLOURS[number], markersize=4, alpha=0.75, label=label)
    span = [0.8 * min(ends), 1.25 * max(ends)]
    axes.plot(span, span, color="grey", linewidth=0.8)
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="step at which entropy is half-way down",
        ylabel="step at which accuracy is half-way up",
    )
    plain_log(axes.xaxis)
    plain_log(axes.yaxis)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=6)
    seeds = len({record.seed for record in records})
    titled(
        figure,
        first_to_move(records),
        f"{seeds} seeds per task; above the line entropy moves first; p: sign test",
    )
    return figure
