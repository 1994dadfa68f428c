"""Growth laws fitted to positive data with right-censored runs: maximum likelihood, AIC, bootstrap. NumPy, SciPy.

The residual is log-normal, ln y = m(x) + s z with z ~ N(0, 1), and the law gives m:

    exponential   m(x) = a + b x              y grows by e^b per unit of x
    power         m(x) = a + b ln x           y ~ x^b
    linear        m(x) = ln(a + b x)

A hit contributes its density in ln y, or with an evaluation grid of step g the probability of (y - g, y]; a censored
run contributes the probability of lying beyond its budget. Nothing is averaged or dropped.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from stairwise.measure.estimates import Estimate, percentile_estimate, resample
from stairwise.measure.likelihood import LOG_SCATTER, Runs, maximise

LAWS = ("exponential", "power", "linear")


@dataclass(frozen=True)
class Data:
    """Observations (x, y), y > 0; where `censored`, y is the budget; hits are known up to `resolution`: (y - g, y]."""

    x: Float[np.ndarray, " n"]
    y: Float[np.ndarray, " n"]
    censored: Bool[np.ndarray, " n"]
    resolution: float = 0.0

    def __post_init__(self):
        if not (np.isfinite(self.x).all() and np.isfinite(self.y).all() and (self.y > 0).all()):
            raise ValueError("x and y must be finite, and y above 0 (Data)")
        if self.resolution < 0:
            raise ValueError(f"resolution={self.resolution} must be at least 0 (Data)")

    @staticmethod
    def of(x, y, censored=None, resolution: float = 0.0) -> "Data":
        """Observations from any sequences of numbers; without flags all are hits."""
        x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
        flags = np.zeros(len(y), dtype=bool) if censored is None else np.asarray(censored, dtype=bool)
        if not len(x) == len(y) == len(flags):
            raise ValueError(f"lengths={len(x)}, {len(y)}, {len(flags)} of x, y and censored must be equal (Data)")
        return Data(x, y, flags, resolution)

    @property
    def lower(self) -> Float[np.ndarray, " n"]:
        """ln of what y is known to exceed."""
        resolution = np.where(self.censored, 0.0, self.resolution)
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(self.y - resolution, 0.0))

    @property
    def upper(self) -> Float[np.ndarray, " n"]:
        """ln of what y is known not to exceed."""
        return np.where(self.censored, np.inf, np.log(self.y))

    def pinned(self, weights: Float[np.ndarray, "samples n"]) -> Int[np.ndarray, " samples"]:
        """At how many x a sample holds a run known from both sides; with fewer than two no slope is determined."""
        held = (weights > 0) & np.isfinite(self.lower) & np.isfinite(self.upper)
        return np.sum([held[:, self.x == x].any(axis=1) for x in np.unique(self.x)], axis=0)


@dataclass(frozen=True)
class Fit:
    """A fitted law: intercept a, slope b, scatter s, and the log-likelihood they reach."""

    law: str
    intercept: float
    slope: float
    scatter: float
    log_likelihood: float

    @property
    def aic(self) -> float:
        """2 (number of parameters) - 2 ln(likelihood): smaller is better, a difference below 2 says little."""
        return 2 * 3 - 2 * self.log_likelihood

    def predict(self, x) -> np.ndarray:
        """The median e^m(x)."""
        x = np.asarray(x, dtype=np.float64)
        if self.law == "linear":
            return self.intercept + self.slope * x
        return np.exp(self.intercept + self.slope * (np.log(x) if self.law == "power" else x))


def fit(law: str, observed: Data) -> Fit:
    """The maximum-likelihood fit of one law; without censoring, least squares in ln y.

    >>> print(round(fit("power", Data.of([1, 2, 4], [3, 12, 48])).slope, 6))
    2.0
    """
    if law not in LAWS:
        raise ValueError(f"law={law} must be one of {', '.join(LAWS)} (fit)")
    if law == "power" and (observed.x <= 0).any():
        raise ValueError(f"x={observed.x.min()} must be above 0 for a power law (fit)")
    everything = np.ones((1, len(observed.x)))
    pinned = int(observed.pinned(everything)[0])
    if pinned < 2:
        raise ValueError(f"x values with an uncensored run={pinned} must be at least 2 (fit)")
    return _fit(law, observed, everything)[0]


def compare(observed: Data) -> list[Fit]:
    """Every law that x allows, the smallest AIC first."""
    laws = [law for law in LAWS if law != "power" or (observed.x > 0).all()]
    return sorted((fit(law, observed) for law in laws), key=lambda one: one.aic)


def slope_estimate(law: str, observed: Data, repeats: int = 1000, confidence: float = 0.95, seed: int = 0) -> Estimate:
    """The slope with a percentile interval, resampling runs within each x.

    A replicate whose hits all lie at one x does not bound the slope: it counts as infinite. With five seeds at five x,
    intervals of 95% were measured to cover about 91% of the time (89% with half of the runs censored).
    """
    best = fit(law, observed)
    weights = resample(observed.x, repeats, seed)
    slopes = [one.slope for one in _fit(law, observed, weights)]
    bounded = observed.pinned(weights) > 1
    return percentile_estimate(best.slope, np.where(bounded, slopes, math.copysign(math.inf, best.slope)), confidence)


def inverse_loss_slope(
    times: Float[np.ndarray, " times"], losses: Float[np.ndarray, "*seeds times"]
) -> Float[np.ndarray, "*seeds"]:
    """The least-squares slope of 1/loss against time, for each seed: c in loss ~ 1 / (c t).

    >>> t = np.arange(1.0, 9.0)
    >>> float(inverse_loss_slope(t, 1 / (3 * t + 2)).round(9))
    3.0
    """
    if not (losses > 0).all():
        raise ValueError(f"loss={losses.min()} must be above 0 (inverse_loss_slope)")
    if len(np.unique(times)) < 2:
        raise ValueError(f"times={times.tolist()} must hold at least two values (inverse_loss_slope)")
    centred = times - times.mean()
    return np.asarray((1 / losses) @ centred / (centred @ centred))


def _fit(law: str, observed: Data, weights: Float[np.ndarray, "samples n"]) -> list[Fit]:
    """One fit for each sample, a row of how much it holds of each run."""
    x = np.log(observed.x) if law == "power" else observed.x
    ends = float(x.min()), float(x.max())
    position = (x - ends[0]) / (ends[1] - ends[0])
    start = _least_squares(position, np.log(observed.y), weights)
    parameters, values = maximise(law, Runs(position, observed.lower, observed.upper), weights, start)
    return [_as_fit(law, ends, one, float(value)) for one, value in zip(parameters, values, strict=True)]


def _as_fit(law: str, ends: tuple[float, float], parameters: Float[np.ndarray, " 3"], value: float) -> Fit:
    """Intercept and slope of the line through the values at the two ends."""
    left, right, log_scatter = parameters.tolist()
    if law == "linear":
        left, right = math.exp(left), math.exp(right)
    slope = (right - left) / (ends[1] - ends[0])
    return Fit(law, left - slope * ends[0], slope, math.exp(log_scatter), value)


def _least_squares(
    position: Float[np.ndarray, " n"], log_y: Float[np.ndarray, " n"], weights: Float[np.ndarray, "samples n"]
) -> Float[np.ndarray, "samples 3"]:
    """Where the search starts: ln y at both ends and ln s, budgets being hits; without censoring it also ends here."""
    weights = weights / weights.sum(axis=1, keepdims=True)
    centred = position - weights @ position[:, None]
    slope = np.sum(weights * centred * log_y, axis=1) / np.sum(weights * centred**2, axis=1)
    left = weights @ log_y - slope * (weights @ position)
    residuals = log_y - left[:, None] - slope[:, None] * position
    spread = np.sqrt(np.sum(weights * residuals**2, axis=1))
    return np.stack([left, left + slope, np.log(np.maximum(spread, math.exp(LOG_SCATTER[0])))], axis=1)
