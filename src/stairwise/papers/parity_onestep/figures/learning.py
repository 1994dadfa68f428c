"""Figures 4 and 5 of the ICLR version: losses over the epochs, method by method."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stairwise.lab.contract.plots import COLUMN, all_seeds, colour, grouped, seeds_note, subplots, titled
from stairwise.papers.parity_onestep.figures.seed_dots import by_step, sizes

LOSSES = ("CoT loss", "prediction loss")
LEARNT = 0.05  # a prediction loss below which the parity is learnt


def fig4(records: Sequence[Any]):
    """CoT loss and prediction loss of the four methods at the largest k; dashed: a level opens (self-consistency)."""
    largest = max(record.config.task.size for record in records)
    return drawn([record for record in records if record.config.task.size == largest])


def fig5(records: Sequence[Any]):
    """The same, a row of panels per k."""
    return drawn(records)


def drawn(records: Sequence[Any]):
    rows = grouped(sorted(records, key=lambda record: -record.config.task.size), lambda record: record.config.task.size)
    figure, axes = subplots(len(rows), 2, figsize=(2 * COLUMN, 1.9 * len(rows) + 0.9), sharex=True, squeeze=False)
    for panels, chosen in zip(axes, rows.values(), strict=True):
        for panel, name in zip(panels, LOSSES, strict=True):
            methods = grouped(chosen, lambda record: record.arm.partition(", k=")[0])
            for number, (method, some) in enumerate(methods.items()):
                all_seeds(panel, [by_step(record, name) for record in some], method, colour(number))
                if some[0].config.method == "consistency":
                    for epoch in np.median([openings(record) for record in some], axis=0):
                        panel.axvline(epoch, color=colour(number), linestyle="--", linewidth=0.5)
            panel.set(ylim=(-0.03, 1.1), title=f"{name}, {sizes(chosen[0].config)}")
        panels[0].set_ylabel("loss")
    for panel in axes[-1]:
        panel.set_xlabel("epoch")
    axes[-1][0].legend(loc="upper center", bbox_to_anchor=(0.5, -0.25), fontsize=6, ncols=2)
    opened = "vertical dashes: a level opens with self-consistency (median)"
    found = []
    for method, some in grouped(records, lambda record: record.arm.partition(", k=")[0]).items():
        learnt = sum(record.final("prediction loss") < LEARNT for record in some)
        found.append(f"{learnt} of {len(some)} ({method})")
    titled(
        figure,
        f"Runs that end with a prediction loss below {LEARNT:g}: {', '.join(found)}",
        f"{opened}; {seeds_note(records)}",
    )
    return figure


def openings(record: Any) -> np.ndarray:
    """The first measured epoch at which levels 2, 3, ... are open; infinity where one never is."""
    epochs, found = by_step(record, "open groups")
    levels = (record.config.task.size - 1).bit_length()
    return np.array([epochs[found >= level][0] if np.any(found >= level) else np.inf for level in range(2, levels + 1)])
