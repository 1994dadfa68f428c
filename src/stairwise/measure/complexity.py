"""Sample complexity with censoring: a run that spent its budget is known to need more, and nothing else. NumPy, SciPy.

>>> runs = Hits.of([(10, False), (20, False), (30, True), (30, True)])
>>> print(summarise(runs))
2 of 4 runs reached it, median 20 [10, inf]
"""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from stairwise.measure.estimates import Estimate

ROUNDING = 1e-12


@dataclass(frozen=True)
class Hits:
    """When each run first reached its goal, or (censored) the budget at which it had not."""

    times: Float[np.ndarray, " runs"]
    censored: Bool[np.ndarray, " runs"]

    def __post_init__(self):
        if len(self.times) == 0 or len(self.times) != len(self.censored):
            raise ValueError(f"runs={len(self.times)} must be at least 1, with one flag each (Hits)")
        if not (np.isfinite(self.times) & (self.times >= 0)).all():
            raise ValueError(f"times={self.times.tolist()} must be finite and at least 0 (Hits)")

    @staticmethod
    def of(pairs: Iterable[tuple[float, bool]]) -> "Hits":
        """From pairs (hit, False) or (budget, True)."""
        times, censored = zip(*pairs, strict=True)
        return Hits(np.array(times, dtype=np.float64), np.array(censored, dtype=bool))

    @staticmethod
    def of_ticks(ticks: Sequence[int] | np.ndarray, budget: int) -> "Hits":
        """From first-passage ticks, where -1 is a run that spent its budget."""
        passed = np.asarray(ticks, dtype=np.int64)
        return Hits(np.where(passed < 0, budget, passed).astype(np.float64), passed < 0)

    @property
    def reached(self) -> int:
        return int(np.sum(~self.censored))

    def as_scipy(self) -> Any:
        from scipy.stats import CensoredData

        return CensoredData.right_censored(self.times, self.censored)


def earliest(*arms: Hits) -> Hits:
    """The first hit of each run over several arms (best over learning rates), censored while no arm has hit.

    Where an arm gave up before another hit, only the smaller budget is known to be exceeded by all of them.
    """
    times, censored = np.stack([arm.times for arm in arms]), np.stack([arm.censored for arm in arms])
    # at equal times a hit comes before the end of a budget
    first = np.lexsort((censored, times), axis=0)[0]
    runs = np.arange(times.shape[1])
    return Hits(times[first, runs], censored[first, runs])


@dataclass(frozen=True)
class SuccessCurve:
    """Kaplan-Meier: after `times[i]` samples a fraction `success[i]` of runs has succeeded, with pointwise limits."""

    times: Float[np.ndarray, " steps"]
    success: Float[np.ndarray, " steps"]
    low: Float[np.ndarray, " steps"]
    high: Float[np.ndarray, " steps"]

    def median(self) -> Estimate:
        """The first time by which half of the runs succeed; infinite where that was not seen.

        Its interval holds the times at which the limits of the curve still allow one half (Brookmeyer and Crowley).
        """
        return Estimate(self._first(self.success), self._first(self.high), self._first(self.low))

    def _first(self, fraction: Float[np.ndarray, " steps"]) -> float:
        passed = fraction >= 0.5 - ROUNDING
        return float(self.times[np.argmax(passed)]) if passed.any() else float("inf")


def kaplan_meier(hits: Hits, confidence: float = 0.95) -> SuccessCurve:
    """The success curve 1 - S(t), S(t) = prod over hit times t_i <= t of (1 - d_i / n_i), n_i runs still at risk.

    The limits are S^exp(+-z sigma / ln S) with Greenwood's sigma^2 = sum d_i / (n_i (n_i - d_i)): inside [0, 1] also
    for a handful of seeds. Greenwood says nothing at S = 1 (limits 0, 0) or S = 0 (low stays where it was, high is 1).
    """
    from scipy.stats import ecdf

    curve = ecdf(hits.as_scipy()).cdf
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the two undefined ends, settled below
        limits = curve.confidence_interval(confidence, method="log-log")
    low, high = limits.low.probabilities.copy(), limits.high.probabilities.copy()
    low[curve.probabilities == 0], high[curve.probabilities == 0] = 0.0, 0.0
    if curve.probabilities[-1] == 1:
        low[-1], high[-1] = (low[-2] if len(low) > 1 else 0.0), 1.0
    return SuccessCurve(curve.quantiles, curve.probabilities, low, high)


def log_rank(a: Hits, b: Hits) -> float:
    """The two-sided p-value of "both arms succeed at the same rate at all times"; 1 where the data cannot tell."""
    if a.reached + b.reached == 0:
        return 1.0
    from scipy.stats import logrank

    with np.errstate(divide="ignore", invalid="ignore"):
        p = float(logrank(a.as_scipy(), b.as_scipy()).pvalue)
    return 1.0 if np.isnan(p) else p


def stratified_log_rank(strata: Sequence[tuple[Hits, Hits]]) -> float:
    """The same of pairs of arms: runs are compared within their own pair only (Mantel).

    At every time of a hit, with d hits among n runs still at risk of which m are of the first arm, that arm should have
    d m / n of them, with variance d (m/n) (1 - m/n) (n - d) / (n - 1). Both are summed over times and over pairs.
    """
    from scipy.stats import chi2

    excess = variance = 0.0
    for a, b in strata:
        for time in np.unique(np.concatenate([arm.times[~arm.censored] for arm in (a, b)])):
            risk = [np.count_nonzero(arm.times >= time) for arm in (a, b)]
            hit = [np.count_nonzero((arm.times == time) & ~arm.censored) for arm in (a, b)]
            n, d, share = sum(risk), sum(hit), risk[0] / sum(risk)
            excess += hit[0] - d * share
            variance += d * share * (1 - share) * (n - d) / max(n - 1, 1)
    return float(chi2.sf(excess**2 / variance, df=1)) if variance else 1.0


@dataclass(frozen=True)
class Summary:
    """What may be said of a set of runs without pretending that a budget is a hit."""

    runs: int
    reached: int
    median: Estimate

    def __str__(self) -> str:
        return f"{self.reached} of {self.runs} runs reached it, median {self.median}"


def summarise(hits: Hits, confidence: float = 0.95) -> Summary:
    """How many runs reached the goal, and the Kaplan-Meier median of when."""
    return Summary(len(hits.times), hits.reached, kaplan_meier(hits, confidence).median())
