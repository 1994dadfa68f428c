"""What the stored runs say: samples to success under each supervision, the rate chosen the same way for all. NumPy."""

from collections.abc import Sequence
from typing import Any

from stairwise.measure.complexity import summarise
from stairwise.papers.crossings.hits import at_best_rate, hits
from stairwise.papers.crossings.supervisions.config import SUPERVISIONS
from stairwise.papers.parity_cot.runs import grouped, where


def by_size(records: Sequence[Any], supervision: str) -> dict[int, list[Any]]:
    """The runs of a supervision by k, each at the rate chosen for it."""
    own = where(records, lambda config: config.supervision == supervision)
    return {size: at_best_rate(group) for size, group in grouped(own, lambda config: config.size).items()}


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
                    "rate": group[0].config.learning_rate,
                    "succeeded": summary.reached,
                    "runs": summary.runs,
                    "median samples": summary.median.value if summary.median.value < float("inf") else None,
                }
            )
    return tuple(rows)
