"""Exact match against length, by how places are told."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stairwise.lab.contract.plots import COLUMN, colour, grouped, subplots, titled
from stairwise.papers.crossings.positions.config import kind

SOLVED = 0.9


def lengths(records: Sequence[Any]):
    """One row an arm and one panel a length: every seed a dot, the median a bar."""
    config = records[0].config.lego
    arms = grouped(records, lambda record: kind(record.config))
    shape = {"sharey": True, "figsize": (0.45 * COLUMN * len(config.test_lengths) + 1.4, 0.28 * len(arms) + 1.1)}
    figure, panels = subplots(1, len(config.test_lengths), squeeze=False, **shape)
    for axes, length in zip(panels[0], config.test_lengths, strict=True):
        for row, (name, runs) in enumerate(arms.items()):
            values = [record.final(f"exact {length}") for record in runs]
            hue = colour(1 if name.startswith("codes") else 0)
            axes.barh(row, np.median(values), color=hue, alpha=0.3, height=0.7)
            axes.plot(values, row + np.linspace(-0.2, 0.2, len(values)), "o", color=hue, markersize=3)
        trained = config.task.length
        title = f"L={length}" + (", trained" if length == trained else f", {length / trained:g} times")
        axes.set(xlim=(-0.03, 1.03), xlabel="all values right", title=title)
    panels[0][0].set_yticks(range(len(arms)), list(arms))
    panels[0][0].invert_yaxis()
    seeds = len({record.seed for record in records})
    text = f"{config.task.action}, |X|={config.task.variables}, width {config.model.width}, {config.steps:,} steps"
    longest = config.test_lengths[-1]
    solved = [np.median([record.final(f"exact {longest}") for record in runs]) >= SOLVED for runs in arms.values()]
    titled(
        figure,
        f"With {sum(solved)} of {len(arms)} ways to give positions, {SOLVED:g} or more of the chains of length"
        f" {longest} are right (medians)",
        f"{text} of {config.batch}; {seeds} seeds: dots; median: bar",
    )
    return figure
