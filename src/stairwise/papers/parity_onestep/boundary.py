"""From how many samples on does one step succeed: thresholds by seed, and the power law through them. NumPy, SciPy.

Within a trial the samples of a smaller n are the first of a larger one, so each seed has one threshold at each d; a
seed that never succeeds within the map is censored, not dropped.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from stairwise.measure.estimates import Estimate
from stairwise.measure.fits import Data, Fit, fit, slope_estimate

ROUNDING = 1e-6  # shares were stored in float32, and on a GPU 255 of 255 as 1 - 6e-8


def curve(record: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
    """A metric of one trial against the number of samples."""
    ticks, values = record.series(name)
    return np.minimum(ticks * record.config.block, record.config.samples).astype(np.float64), values


def threshold(counts: Float[np.ndarray, " looks"], reached: Bool[np.ndarray, " looks"]) -> tuple[float, bool]:
    """The smallest n from which on the goal is reached at every larger n too; (largest n, True) where there is none.

    >>> threshold(np.array([1.0, 2.0, 4.0]), np.array([True, False, True]))
    (4.0, False)
    """
    misses = np.flatnonzero(~reached)
    first = misses[-1] + 1 if len(misses) else 0
    return (float(counts[-1]), True) if first == len(counts) else (float(counts[first]), False)


@dataclass(frozen=True)
class Boundary:
    """n = a d^b through the thresholds, with what it was fitted to."""

    law: Fit
    exponent: Estimate
    bits: tuple[int, ...]
    medians: tuple[float, ...]

    def __str__(self) -> str:
        factor = np.exp(self.law.intercept)
        return f"n = {factor:.3g} d^{self.exponent.value:.2f} [{self.exponent.low:.2f}, {self.exponent.high:.2f}]"


def boundary(records: Sequence[Any], name: str, level: float = 1.0) -> Boundary | None:
    """The power law of the thresholds at which metric `name` reaches `level`; none where fewer than two d are usable.

    A threshold is known to lie between two neighbouring n, and is put in their middle on the log scale. Sizes at which
    some seed passes at the smallest n already bound the law from one side only, and are left out.
    """
    found: dict[int, list[tuple[float, bool]]] = {}
    smallest = np.inf
    for record in records:
        counts, values = curve(record, name)
        smallest = min(smallest, counts[0])
        found.setdefault(record.config.task.bits, []).append(threshold(counts, values >= level - ROUNDING))
    usable = {d: hits for d, hits in sorted(found.items()) if all(n > smallest for n, _ in hits)}
    usable = {d: hits for d, hits in usable.items() if not all(censored for _, censored in hits)}
    if len(usable) < 2:
        return None
    counts = np.unique(np.concatenate([curve(record, name)[0] for record in records]))

    def between(n: float) -> float:
        return float(np.sqrt(n * counts[np.searchsorted(counts, n) - 1]))

    rows = [(d, n if censored else between(n), censored) for d, hits in usable.items() for n, censored in hits]
    data = Data.of([row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows])
    medians = tuple(float(np.median([n for n, _ in hits])) for hits in usable.values())
    return Boundary(fit("power", data), slope_estimate("power", data), tuple(usable), medians)


def success_map(records: Sequence[Any], name: str = "success") -> tuple[list[int], np.ndarray, np.ndarray]:
    """The sizes d, the counts n, and the share of seeds that reach 1 at each (d, n)."""
    by_bits: dict[int, list[np.ndarray]] = {}
    for record in records:
        by_bits.setdefault(record.config.task.bits, []).append(curve(record, name)[1] >= 1 - ROUNDING)
    sizes = sorted(by_bits)
    return sizes, curve(records[0], name)[0], np.array([np.mean(by_bits[d], axis=0) for d in sizes])
