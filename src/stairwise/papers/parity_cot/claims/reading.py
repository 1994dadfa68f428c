"""What the judges of the trainings share: the two arms, and tables of sample complexities."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stairwise.measure import complexity
from stairwise.papers.parity_cot import runs

COINCIDENCE = 2.0  # the entropy's halfway point and the accuracy's jump lie within this factor


def arm(records: Sequence[Any], cot: bool) -> list[Any]:
    return runs.where(records, lambda config: config.task.cot == cot)


def complexity_rows(records: Sequence[Any]) -> list[dict[str, Any]]:
    """Every rate by itself, and the best rate of each seed: how many runs succeed, and the median samples."""
    rows = []
    for (cot, size), group in runs.grouped(records, lambda c: (c.task.cot, c.task.size)).items():
        by_rate = runs.grouped(group, lambda c: c.learning_rate)
        found = {f"{rate:g}": runs.hits(own) for rate, own in by_rate.items()}
        if len(found) > 1:
            found["best of them"] = runs.best_of_rates(group)
        for rate, one in found.items():
            median = complexity.kaplan_meier(one).median()
            rows.append(
                {
                    "CoT": cot,
                    "k": size,
                    "rate": rate,
                    "reached": f"{one.reached} of {len(one.times)}",
                    "median samples": str(median),
                    "budget": group[0].config.budget,
                }
            )
    return rows


def success(records: Sequence[Any]) -> float:
    found = runs.hits(records)
    return found.reached / len(found.times)


def jump_rows(records: Sequence[Any]) -> list[dict[str, Any]]:
    """Of every run that succeeds: when accuracy jumps, when the heads' entropy has fallen by half, and their ratio."""
    rows = []
    for record in records:
        if record.status == "reached":
            jumped, fell = runs.jump(record)
            rows.append({"seed": record.seed, "accuracy jumps": jumped, "entropy falls": fell, "ratio": fell / jumped})
    return rows


def coinciding(rows: Sequence[dict[str, Any]]) -> float:
    """The share of runs in which the two lie within a factor 2 of samples."""
    return float(np.mean([1 / COINCIDENCE <= each["ratio"] <= COINCIDENCE for each in rows]))
