"""What the stored runs say, each kind and length at the rate chosen for it. NumPy."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stairwise.measure.complexity import summarise
from stairwise.papers.crossings.hits import at_best_rate, hits
from stairwise.papers.crossings.retrieval.config import KINDS
from stairwise.papers.parity_cot.runs import grouped, where

Cell = tuple[str, int]


def cells(records: Sequence[Any]) -> dict[Cell, list[Any]]:
    """The runs of a kind and length at their best rate."""
    found = {}
    for kind in KINDS:
        own = where(records, lambda config, kind=kind: config.retrieval == kind)
        for length, group in grouped(own, lambda config: config.length).items():
            found[kind, length] = at_best_rate(group)
    return found


def ratios(records: Sequence[Any]) -> dict[int, float]:
    """Median samples by place over those by name, at lengths that half of the seeds learn both ways."""
    medians = {cell: summarise(hits(group)).median.value for cell, group in cells(records).items()}
    learnt = {cell: value for cell, value in medians.items() if np.isfinite(value)}
    lengths = sorted(length for kind, length in learnt if kind == "name" and ("place", length) in learnt)
    return {length: learnt["place", length] / learnt["name", length] for length in lengths}


def beyond(records: Sequence[Any]) -> dict[Cell, float]:
    """Median exact match at twice the length, at the end."""
    return {
        cell: float(np.median([record.final("beyond") for record in group])) for cell, group in cells(records).items()
    }


def entropies(records: Sequence[Any]) -> dict[Cell, float]:
    """Median normalised entropy at the end, of the runs that have learnt."""
    found = {}
    for cell, group in cells(records).items():
        learnt = [record.final("entropy") for record in group if record.final("hit") > 0]
        if learnt:
            found[cell] = float(np.median(learnt))
    return found


def table(records: Sequence[Any]) -> tuple[dict[str, Any], ...]:
    """One row a kind and length."""
    rows = []
    for (kind, length), group in cells(records).items():
        summary = summarise(hits(group))
        rows.append(
            {
                "found by": kind,
                "L": length,
                "rate": group[0].config.learning_rate,
                "succeeded": summary.reached,
                "runs": summary.runs,
                "median samples": summary.median.value if np.isfinite(summary.median.value) else None,
                "exact match at 2L": beyond(group)[kind, length],
                "entropy": entropies(group).get((kind, length)),
            }
        )
    return tuple(rows)
