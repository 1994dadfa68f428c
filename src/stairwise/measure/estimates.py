"""A number with its confidence interval, and the bootstrap that makes one from seeds. NumPy only."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Shaped


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


def resample(strata: Shaped[np.ndarray, " n"], repeats: int, seed: int = 0) -> Float[np.ndarray, "repeats n"]:
    """Bootstrap weights: how much of each entry a sample holds, drawn with replacement inside each stratum.

    A stratum of n gives n - 1 draws of weight n / (n - 1) (Rao and Wu, 1988): n draws of weight 1 would have a variance
    n / (n - 1) times too small, which is a lot for five seeds. A stratum of one is always there.
    """
    if repeats < 1:
        raise ValueError(f"repeats={repeats} must be at least 1 (resample)")
    random = np.random.default_rng(seed)
    weights = np.zeros((repeats, len(strata)))
    for stratum in np.unique(strata):
        members = np.flatnonzero(strata == stratum)
        draws = max(len(members) - 1, 1)
        chosen = members[random.integers(0, len(members), size=(repeats, draws))]
        np.add.at(weights, (np.arange(repeats)[:, None], chosen), len(members) / draws)
    return weights


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
    """A statistic (by default the median) of one value per seed, with its percentile interval.

    Each replicate draws one seed fewer than there are, for the reason given in `resample`.
    """
    random = np.random.default_rng(seed)
    drawn = random.integers(0, len(values), size=(repeats, max(len(values) - 1, 1)))
    replicates = np.array([statistic(values[chosen]) for chosen in drawn], dtype=np.float64)
    return percentile_estimate(float(statistic(values)), replicates, confidence)
