"""What the stored runs say: samples to success under each supervision, the rate chosen the same way for all. NumPy."""

from collections.abc import Sequence
from typing import Any

from stairwise.measure.complexity import Hits, summarise
from stairwise.papers.crossings.supervisions import SUPERVISIONS
from stairwise.papers.parity_cot.runs import grouped, where


def hits(records: Sequence[Any]) -> Hits:
    """Samples at the first look that was good enough, or the budget of a run that had none."""
    found = [(record.final("hit"), record.config) for record in records]
    return Hits.of((config.budget, True) if hit < 0 else (hit * config.look, False) for hit, config in found)


def by_size(records: Sequence[Any], supervision: str) -> dict[int, list[Any]]:
    """The runs of a supervision by k, each at the rate chosen for it."""
    own = where(records, lambda config: config.supervision == supervision)
    return {size: at_best_rate(group) for size, group in grouped(own, lambda config: config.size).items()}


def at_best_rate(records: Sequence[Any]) -> list[Any]:
    """The runs at one rate: most seeds succeed there, and among such rates the median is smallest.

    Chosen for each supervision and each k by the same seeds that are shown, which flatters all of them alike.
    """

    def merit(group: Sequence[Any]) -> tuple[int, float]:
        summary = summarise(hits(group))
        return -summary.reached, summary.median.value

    return min(grouped(records, lambda config: config.rate).values(), key=merit)


def medians(records: Sequence[Any], supervision: str) -> dict[int, float]:
    """Kaplan-Meier medians by k; infinite where fewer than half of the seeds succeed."""
    return {size: summarise(hits(group)).median.value for size, group in by_size(records, supervision).items()}


def reaches(records: Sequence[Any]) -> dict[str, int]:
    """For each supervision the largest k up to which half of the seeds or more succeed at every k tried; 1 if none."""
    found = {}
    for supervision in SUPERVISIONS:
        reached = 1
        for size, median in medians(records, supervision).items():
            if median == float("inf"):
                break
            reached = size
        found[supervision] = reached
    return found


def table(records: Sequence[Any]) -> tuple[dict[str, Any], ...]:
    """One row a supervision and k."""
    rows = []
    for supervision in SUPERVISIONS:
        for size, group in by_size(records, supervision).items():
            summary = summarise(hits(group))
            rows.append(
                {
                    "supervision": supervision,
                    "k": size,
                    "rate": group[0].config.rate,
                    "succeeded": summary.reached,
                    "runs": summary.runs,
                    "median samples": summary.median.value if summary.median.value < float("inf") else None,
                }
            )
    return tuple(rows)
