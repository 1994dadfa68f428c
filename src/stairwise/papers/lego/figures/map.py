"""When do cyclic and symmetric actions separate? The difference over pools, steps and norm."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stairwise.lab.contract.plots import COLUMN, grouped, seeds_note, subplots
from stairwise.papers.lego.cells import compared
from stairwise.papers.lego.figures.length_curves import sizes


def separation(records: Sequence[Any]):
    """Mean exact match of the first action minus that of the second: rows are lengths, columns pools, inside steps."""
    config = records[0].config
    norms = grouped(records, lambda record: record.config.model.norm)
    lengths = [length for length in config.test_lengths if length > config.task.length]
    figure, axes = subplots(
        len(norms), len(lengths), figsize=(0.72 * COLUMN * len(lengths) + 0.6, 1.6 * len(norms) + 0.5), squeeze=False
    )
    for row, (norm, chosen) in zip(axes, norms.items(), strict=True):
        pools = grouped(chosen, lambda record: record.config.samples)
        steps = chosen[0].series("loss")[0]
        for axis, length in zip(row, lengths, strict=True):
            found = [[compared(runs, length, int(step)) for step in steps] for runs in pools.values()]
            values = np.array([[cell.difference.value for cell in line] for line in found])
            image = axis.imshow(values, cmap="PuOr", vmin=-1, vmax=1, aspect="auto")
            for place, cell in np.ndenumerate(np.array([[str(cell) for cell in line] for line in found])):
                axis.text(place[1], place[0], cell, ha="center", va="center", fontsize=5)
            axis.set_xticks(range(len(steps)), [f"{step / 1000:g}k" for step in steps])
            axis.set_yticks(range(len(pools)), [f"{pool:,}" if pool else "fresh" for pool in pools])
            axis.set_title(f"L={length}, {'norm' if norm else 'no norm'}", fontsize=7)
            axis.grid(False)
    for axis in axes[-1]:
        axis.set_xlabel("steps")
    axes[0][0].set_ylabel("sentences")
    first, second = compared(records, lengths[-1], None).actions
    figure.colorbar(image, ax=axes, shrink=0.7, label=f"{first} minus {second}")
    what = f"mean exact match of {first} and of {second} (*: ahead beyond the 95% interval)"
    figure.suptitle(f"{sizes(config)}; {what}; {seeds_note(records).split(':')[0]}", fontsize=7)
    return figure
