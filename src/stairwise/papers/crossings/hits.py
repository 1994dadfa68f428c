"""Samples to success of stored runs, and the one way in which every crossing chooses a learning rate. NumPy."""

from collections.abc import Sequence
from typing import Any

from stairwise.measure.complexity import Hits, summarise
from stairwise.papers.parity_cot.runs import grouped


def hits(records: Sequence[Any]) -> Hits:
    """What was used until the first look that was good enough, in units of the budget; all of it where none was."""
    found = [(record.final("hit"), record.config) for record in records]
    return Hits.of(
        (config.budget, True) if hit < 0 else (hit * (config.budget // config.looks), False) for hit, config in found
    )


def at_best_rate(records: Sequence[Any]) -> list[Any]:
    """The runs at one rate: most seeds succeed there, and among such rates the median is smallest.

    Chosen by the same seeds that are shown, which flatters all arms alike.
    """

    def merit(group: Sequence[Any]) -> tuple[int, float]:
        summary = summarise(hits(group))
        return -summary.reached, summary.median.value

    return min(grouped(records, lambda config: config.learning_rate).values(), key=merit)
