"""When do cyclic and symmetric actions separate? The difference over pools, steps and norm."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stairwise.lab.contract.plots import COLUMN, grouped, seeds_note, subplots, titled
from stairwise.papers.lego.cells import compared
from stairwise.papers.lego.figures.length_curves import sizes


def separation(records: Sequence[Any]):
    """Mean exact match of the first action minus that of the second: a row per length, a column per norm."""
    config = records[0].config
    norms = grouped(records, lambda record: record.config.model.norm)
    lengths = [length for length in config.test_lengths if length > config.task.length]
    shape = (COLUMN * len(norms) + 0.4, 1.45 * len(lengths) + 0.7)
    figure, axes = subplots(len(lengths), len(norms), figsize=shape, squeeze=False)
    cells = []
    for column, (norm, chosen) in zip(axes.T, norms.items(), strict=True):
        pools = grouped(chosen, lambda record: record.config.samples)
        steps = chosen[0].series("loss")[0]
        for axis, length in zip(column, lengths, strict=True):
            found = [[compared(runs, length, int(step)) for step in steps] for runs in pools.values()]
            cells += [cell for line in found for cell in line]
            values = np.array([[cell.difference.value for cell in line] for line in found])
            image = axis.imshow(values, cmap="PuOr", vmin=-1, vmax=1, aspect="auto")
            for place, cell in np.ndenumerate(np.array([[str(cell) for cell in line] for line in found])):
                axis.text(place[1], place[0], cell, ha="center", va="center", fontsize=6)
            axis.set_xticks(range(len(steps)), [f"{step / 1000:g}k" for step in steps])
            axis.set_yticks(range(len(pools)), [f"{pool:,}" if pool else "fresh" for pool in pools])
            axis.set_title(f"L={length}, {'norm' if norm else 'no norm'}", fontsize=7)
            axis.grid(False)
    for axis in axes[-1]:
        axis.set_xlabel("steps")
    for axis in axes[:, 0]:
        axis.set_ylabel("sentences")
    first, second = compared(records, lengths[-1], None).actions
    ahead = [cell.ahead for cell in cells]
    figure.colorbar(image, ax=axes, shrink=0.7, label=f"{first} minus {second}")
    titled(
        figure,
        f"{first} is ahead in {ahead.count(first)} of {len(ahead)} cells, {second} in {ahead.count(second)}",
        f"mean exact match of {first} above that of {second}; {sizes(config)};"
        f" *: ahead beyond the 95% interval; {seeds_note(records).split(':')[0]}",
    )
    return figure
