"""What the stored runs say: labels kept against the formula, exact match with and without the filter. NumPy."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stairwise.papers.crossings.filter.config import kept_share, right_share
from stairwise.papers.parity_cot.runs import where

FEW = 20  # kept chains below which a share of them says little


def chosen(records: Sequence[Any], noise: float, systematic: bool, kept: bool) -> list[Any]:
    """The runs of one arm."""
    return where(records, lambda c: (c.noise, c.systematic, c.filter) == (noise, systematic, kept))


def levels(records: Sequence[Any], systematic: bool) -> list[float]:
    return sorted({record.config.noise for record in records if record.config.systematic == systematic})


def exact(records: Sequence[Any]) -> np.ndarray:
    """Exact match at the length that was self-labelled, after the stage."""
    return np.array([record.final(f"exact {record.config.length}") for record in records])


def before(records: Sequence[Any]) -> np.ndarray:
    """The same before the stage."""
    return np.array([record.series(f"exact {record.config.length}")[1][0] for record in records])


def gain(records: Sequence[Any], noise: float, systematic: bool) -> float:
    """Median exact match with the filter less that without it; NaN where there is no such pair."""
    pair = [exact(chosen(records, noise, systematic, kept)) for kept in (True, False)]
    return float(np.median(pair[0]) - np.median(pair[1])) if all(map(len, pair)) else float("nan")


def losses(records: Sequence[Any], noise: float) -> dict[float, float]:
    """The fall of the median exact match by unfiltered self-training, at every noise up to a level."""
    found = {p: chosen(records, p, False, False) for p in levels(records, False) if p <= noise}
    return {p: float(np.median(before(own)) - np.median(exact(own))) for p, own in found.items() if own}


def predicted(config: Any) -> tuple[float, float]:
    """The formula's shares: chains kept, and right ones among them."""
    sizes = config.noise, config.base.task.group.values, config.length, config.tellings
    return kept_share(*sizes), right_share(*sizes)


def against_formula(records: Sequence[Any]) -> list[dict[str, Any]]:
    """One row a filtered run with independent noise: how far the two shares are from the formula's."""
    rows = []
    for record in where(records, lambda config: config.filter and not config.systematic):
        share, right = predicted(record.config)
        kept = record.final("kept")
        off = abs(kept - share)
        row = {"p": record.config.noise, "seed": record.seed, "kept": kept, "formula": share}
        if kept * record.config.samples >= FEW:
            row |= {"right": record.final("label exact"), "formula right": right}
            off = max(off, abs(row["right"] - right))
        rows.append({**row, "off": off})
    return rows


def table(records: Sequence[Any]) -> tuple[dict[str, Any], ...]:
    """One row an arm: medians."""
    rows = []
    for systematic in (False, True):
        for noise in levels(records, systematic):
            for kept in (False, True):
                own = chosen(records, noise, systematic, kept)
                if not own:
                    continue
                row = {"p": noise, "noise": "systematic" if systematic else "independent", "filter": kept}
                for name in ("kept", "label exact", "label step"):
                    row[name] = float(np.median([record.final(name) for record in own]))
                rows.append(row | {"before": float(np.median(before(own))), "after": float(np.median(exact(own)))})
    return tuple(rows)
