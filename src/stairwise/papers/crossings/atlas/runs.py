"""What the stored cells say: each row at the rate chosen for it, tests over seeds, Holm's correction. NumPy."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stairwise.measure.complexity import log_rank, summarise
from stairwise.papers.crossings.atlas.config import (
    DELTA,
    DELTA_SIGNED,
    DIAGONAL,
    DIAGONAL_SIGNED,
    HOUSEHOLDERS,
    LSTM,
    MINGRU,
    ONE_STEP,
    PARITY,
    POSITIONS,
    SUPERVISED,
    TWO_STEPS,
    Rows,
    has,
)
from stairwise.papers.crossings.hits import at_best_rate, hits
from stairwise.papers.parity_cot.runs import where

# the comparisons that are tested: which rows, at how many times the length (0: samples until solved)
TESTS: dict[str, tuple[Rows, str, str, int]] = {
    "parity-delta": (PARITY, DELTA_SIGNED, DELTA, 4),
    "parity-diagonal": (PARITY, DIAGONAL_SIGNED, DIAGONAL, 4),
    "parity-lstm": (PARITY, LSTM, MINGRU, 4),
    "householders": (HOUSEHOLDERS, TWO_STEPS, ONE_STEP, 4),
    "s5": (SUPERVISED, "chain", "answer", 1),
    "chain": (SUPERVISED, "chain", "answer", 0),
    "positions": (POSITIONS, "none", "learned", 4),
}


def lengths(records: Sequence[Any], rows: Rows) -> list[int]:
    """The lengths of training at which every one of some rows was run."""
    found = [
        {record.config.length for record in where(records, lambda c, f=fields: has(c, f))} for fields in rows.values()
    ]
    return sorted(set.intersection(*found)) if found else []


def length_of(records: Sequence[Any], test: str) -> int | None:
    """The length at which the two rows of a test are compared: the longest; for samples the shortest."""
    rows, high, low, times = TESTS[test]
    shared = lengths(records, {name: rows[name] for name in (high, low)})
    return (min if times == 0 else max)(shared) if shared else None


def cell(records: Sequence[Any], fields: Mapping[str, Any], length: int | None = None) -> list[Any]:
    """The runs of a row (at a length of training) at its best rate; none where it was not run."""
    chosen = where(records, lambda config: has(config, fields) and length in (None, config.length))
    return at_best_rate(chosen) if chosen else []


def exact(runs: Sequence[Any], times: int) -> list[float]:
    """Exact match of every seed at so many times the length of training, at the end of the budget."""
    return [record.final(f"exact {times}") for record in runs]


def samples(runs: Sequence[Any]) -> float:
    """The Kaplan-Meier median of the samples until solved; infinite where fewer than half solve."""
    return summarise(hits(runs)).median.value


def compared(records: Sequence[Any], test: str) -> tuple[list[Any], list[Any]]:
    """The runs of the two rows of a test."""
    rows, high, low, _ = TESTS[test]
    length = length_of(records, test)
    return cell(records, rows[high], length), cell(records, rows[low], length)


def p_values(records: Sequence[Any]) -> dict[str, float]:
    """One per test whose two rows were run."""
    found = {}
    for test, (*_, times) in TESTS.items():
        high, low = compared(records, test)
        if high and low:
            found[test] = (
                permutation_p(exact(high, times), exact(low, times)) if times else log_rank(hits(high), hits(low))
            )
    return found


def permutation_p(high: Sequence[float], low: Sequence[float]) -> float:
    """The exact one-sided p-value of a larger mean in `high`: the share of relabellings with one as large.

    >>> round(permutation_p([1.0, 0.9, 1.0], [0.0, 0.1, 0.0]), 3)
    0.05
    """
    values = np.array([*high, *low])
    sums = [values[list(chosen)].sum() for chosen in itertools.combinations(range(len(values)), len(high))]
    return float(np.mean(np.array(sums) >= np.sum(high) - 1e-9))


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Holm's adjusted p-values: below alpha where the procedure rejects at alpha over the whole family.

    >>> holm({"a": 0.01, "b": 0.04, "c": 0.03})
    {'a': 0.03, 'c': 0.06, 'b': 0.06}
    """
    adjusted, largest = {}, 0.0
    for place, (name, p) in enumerate(sorted(p_values.items(), key=lambda pair: pair[1])):
        largest = max(largest, min(1.0, (len(p_values) - place) * p))
        adjusted[name] = largest
    return adjusted


def table(records: Sequence[Any], rows: Rows) -> list[dict[str, Any]]:
    """One line per row and length of training."""
    lines = []
    for name, fields in rows.items():
        for length in lengths(records, {name: fields}):
            runs = cell(records, fields, length)
            median = samples(runs)
            line = {"row": name, "L": length, "rate": runs[0].config.learning_rate, "runs": len(runs)}
            line |= {"solved": hits(runs).reached, "median samples": median if math.isfinite(median) else None}
            lines.append(line | {f"exact at {times}L": float(np.median(exact(runs, times))) for times in (1, 2, 4)})
    return lines
