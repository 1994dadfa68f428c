"""The paper's figures, from stored records only: a figure never trains.

To change: one function a figure, from records to a Matplotlib figure. Show every seed, and the theory beside it.
"""

from collections.abc import Sequence
from typing import Any

from stairwise.paper import COLUMN, all_seeds, colour, count_axis, seeds_note, subplots

from stairwise.skeleton.paper import theory


def attention(records: Sequence[Any]):
    """Attention to the mark over training, one colour a length; dashed: descent on the closed form."""
    figure, axes = subplots(figsize=(1.3 * COLUMN, 2.4))
    for number, length in enumerate(sorted({record.config.task.length for record in records})):
        chosen = [record for record in records if record.config.task.length == length]
        all_seeds(axes, [record.series("attention") for record in chosen], f"T={length}", colour(number))
        steps, config = chosen[0].series("attention")[0], chosen[0].config
        predicted = theory.descent(length, config.learning_rate, int(steps[-1]))[steps]
        axes.plot(steps, predicted, color="black", linestyle="--", linewidth=0.8)
    axes.plot([], [], color="black", linestyle="--", linewidth=0.8, label="closed form")
    axes.set(xlabel="SGD step", ylabel="attention to the mark", ylim=(0, 1), title=seeds_note(records))
    axes.legend(loc="lower right")
    count_axis(axes)
    return figure
