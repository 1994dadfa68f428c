"""What the stored runs say: labels and operations to success by k and solver, spent budgets kept as such. NumPy."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from stairwise.measure.complexity import Hits, summarise
from stairwise.papers.crossings.depth.config import CHAIN, DEPTH, HARDEST
from stairwise.papers.parity_cot.runs import where

COSTS = ("labels", "operations")


def unit(config: Any, cost: str) -> float:
    """What a step costs."""
    return config.batch * getattr(config, cost)


def chosen(records: Sequence[Any], blocks: int, name: str) -> list[Any]:
    return where(records, lambda config: config.task.blocks == blocks and config.name == name)


def sizes(records: Sequence[Any]) -> list[int]:
    return sorted({record.config.task.blocks for record in records})


def names(records: Sequence[Any]) -> list[str]:
    present = {record.config.name for record in records}
    return [name for name in (CHAIN, DEPTH, HARDEST) if name in present]


def hits(records: Sequence[Any], cost: str) -> Hits:
    """The cost at the first look that was good enough, or that of the whole budget."""
    pairs = []
    for record in records:
        config, hit = record.config, record.final("hit")
        looks = config.looks if hit < 0 else hit
        pairs.append((looks * config.measure_every * unit(config, cost), hit < 0))
    return Hits.of(pairs)


def median(records: Sequence[Any], cost: str) -> float:
    return summarise(hits(records, cost)).median.value if records else math.inf


def ratios(records: Sequence[Any], cost: str) -> dict[int, tuple[float, bool]]:
    """Depth over chain at every k that the chain learns; True marks a lower bound, from depth's budget."""
    found = {}
    for blocks in sizes(records):
        chain, deep = median(chosen(records, blocks, CHAIN), cost), chosen(records, blocks, DEPTH)
        if not deep or not math.isfinite(chain):
            continue
        spent, config = median(deep, cost), deep[0].config
        whole = config.looks * config.measure_every * unit(config, cost)
        found[blocks] = (min(spent, whole) / chain, not math.isfinite(spent))
    return found


def growth(records: Sequence[Any]) -> dict[int, float]:
    """Factors of the chain's median labels from k to 2k, by k."""
    found = {blocks: median(chosen(records, blocks, CHAIN), "labels") for blocks in sizes(records)}
    learnt = {blocks: labels for blocks, labels in found.items() if math.isfinite(labels)}
    return {k: learnt[2 * k] / labels for k, labels in learnt.items() if 2 * k in learnt}


def curve(record: Any, cost: str) -> tuple[np.ndarray, np.ndarray]:
    """Accuracy on k hops against what was spent."""
    looks, values = record.series("accuracy")
    return looks * record.config.measure_every * unit(record.config, cost), values


def table(records: Sequence[Any]) -> tuple[dict[str, Any], ...]:
    """One row a k and solver."""
    rows = []
    for blocks in sizes(records):
        for name in names(records):
            group = chosen(records, blocks, name)
            if not group:
                continue
            row = {"k": blocks, "solver": name, "succeeded": hits(group, "labels").reached, "runs": len(group)}
            for cost in COSTS:
                value = median(group, cost)
                row[f"median {cost}"] = value if math.isfinite(value) else None
            best = [float(record.series("accuracy")[1].max()) for record in group]
            rows.append(row | {"median best accuracy": float(np.median(best))})
    return tuple(rows)
