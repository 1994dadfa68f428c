"""A number with its confidence interval, and the bootstrap that makes one from seeds. NumPy only."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, Shaped


class Estimate(NamedTuple):
    """A value and its interval; infinite where the data set no limit.

    >>> print(Estimate(1.5, 1.25, float("inf")))
    1.5 [1.25, inf]
    """

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.4g} [{self.low:.4g}, {self.high:.4g}]"


def resample(strata: Shaped[np.ndarray, " n"], repeats: int, seed: int = 0) -> Int[np.ndarray, "repeats n"]:
    """Bootstrap indices that draw with replacement inside each stratum: entry i comes from the stratum of i."""
    if repeats < 1:
        raise ValueError(f"repeats={repeats} must be at least 1 (resample)")
    random = np.random.default_rng(seed)
    index = np.empty((repeats, len(strata)), dtype=np.int64)
    for stratum in np.unique(strata):
        members = np.flatnonzero(strata == stratum)
        index[:, members] = members[random.integers(0, len(members), size=(repeats, len(members)))]
    return index


def percentile_estimate(value: float, replicates: Float[np.ndarray, " repeats"], confidence: float = 0.95) -> Estimate:
    """The percentile interval of bootstrap replicates, some of which may be infinite."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence={confidence} must lie strictly between 0 and 1 (percentile_estimate)")
    tail = (1 - confidence) / 2
    # an order statistic, not an interpolation: between a finite and an infinite replicate there is no number
    low = np.quantile(replicates, tail, method="lower")
    high = np.quantile(replicates, 1 - tail, method="higher")
    return Estimate(float(value), float(low), float(high))


def bootstrap(
    values: Float[np.ndarray, " seeds"],
    statistic: Callable[[np.ndarray], float] = np.median,
    repeats: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Estimate:
    """A statistic (by default the median) of one value per seed, with its percentile interval."""
    index = resample(np.zeros(len(values)), repeats, seed)
    replicates = np.array([statistic(values[chosen]) for chosen in index], dtype=np.float64)
    return percentile_estimate(float(statistic(values)), replicates, confidence)
