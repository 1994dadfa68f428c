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
from functools import partial

import numpy as np
from jaxtyping import Bool, Float
from scipy import optimize
from scipy.special import log_ndtr

from stairwise.measure.estimates import Estimate, percentile_estimate, resample

LAWS = ("exponential", "power", "linear")
LOG_SCATTER = (-12.0, 6.0)  # a perfect fit would drive the likelihood to infinity
REACH = 60.0  # how far (in ln y) a fitted end may lie from the data

Values = Float[np.ndarray, " n"]


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
    def lower(self) -> Values:
        """ln of what y is known to exceed."""
        resolution = np.where(self.censored, 0.0, self.resolution)
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(self.y - resolution, 0.0))

    @property
    def upper(self) -> Values:
        """ln of what y is known not to exceed."""
        return np.where(self.censored, np.inf, np.log(self.y))

    @property
    def pinned(self) -> int:
        """At how many x some run is known from both sides; with fewer than two no slope is determined."""
        return len(np.unique(self.x[np.isfinite(self.lower) & np.isfinite(self.upper)]))

    def take(self, index: np.ndarray) -> "Data":
        return Data(self.x[index], self.y[index], self.censored[index], self.resolution)


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
    if observed.pinned < 2:
        raise ValueError(f"x values with an uncensored run={observed.pinned} must be at least 2 (fit)")
    return _fit(law, observed)


def compare(observed: Data) -> list[Fit]:
    """Every law that x allows, the smallest AIC first."""
    laws = [law for law in LAWS if law != "power" or (observed.x > 0).all()]
    return sorted((fit(law, observed) for law in laws), key=lambda one: one.aic)


def slope_estimate(law: str, observed: Data, repeats: int = 1000, confidence: float = 0.95, seed: int = 0) -> Estimate:
    """The slope with a percentile interval, resampling runs within each x.

    A replicate whose hits all lie at one x does not bound the slope: it counts as infinite.
    """
    best = fit(law, observed)
    samples = (observed.take(index) for index in resample(observed.x, repeats, seed))
    slopes = [_fit(law, one).slope if one.pinned > 1 else math.copysign(math.inf, best.slope) for one in samples]
    return percentile_estimate(best.slope, np.array(slopes), confidence)


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


# --- the likelihood ---------------------------------------------------------------------------------------------------
# Parameters are ln y at the two ends of the x range and ln s: numbers of one size, unconstrained under all three laws.


def _fit(law: str, observed: Data) -> Fit:
    ends = observed.x.min(), observed.x.max()
    position = _position(law, observed.x, ends)
    start = _least_squares(position, np.log(observed.y))
    reach = [(start[0] - REACH, start[0] + REACH), (start[1] - REACH, start[1] + REACH), LOG_SCATTER]
    objective = partial(_negative_log_likelihood, law, position, observed.lower, observed.upper)
    found = optimize.minimize(
        objective, start, jac=True, method="L-BFGS-B", bounds=reach, options={"ftol": 1e-14, "gtol": 1e-8}
    )
    left, right, log_scatter = found.x
    intercept, slope = _line(law, ends, left, right)
    return Fit(law, intercept, slope, math.exp(log_scatter), -float(found.fun))


def _position(law: str, x: Values, ends: tuple[float, float]) -> Values:
    """Where x stands between the ends: 0 at the left one, 1 at the right one."""
    if law == "power":
        x, ends = np.log(x), (math.log(ends[0]), math.log(ends[1]))
    return (x - ends[0]) / (ends[1] - ends[0])


def _line(law: str, ends: tuple[float, float], left: float, right: float) -> tuple[float, float]:
    """Intercept and slope of the line through the values at the two ends."""
    if law == "power":
        ends = math.log(ends[0]), math.log(ends[1])
    if law == "linear":
        left, right = math.exp(left), math.exp(right)
    slope = (right - left) / (ends[1] - ends[0])
    return float(left - slope * ends[0]), float(slope)


def _least_squares(position: Values, log_y: Values) -> np.ndarray:
    """The start of the search, and for uncensored exponential and power laws its end."""
    slope, left = np.polyfit(position, log_y, 1)
    spread = np.sqrt(np.mean((log_y - left - slope * position) ** 2))
    return np.array([left, left + slope, np.clip(math.log(max(spread, 1e-300)), *LOG_SCATTER)])


def _mean(law: str, position: np.ndarray, left: float, right: float) -> tuple[np.ndarray, np.ndarray]:
    """m(x) and dm/d(right); dm/d(left) is 1 minus that."""
    if law != "linear":
        return (1 - position) * left + position * right, position
    with np.errstate(divide="ignore"):
        log_parts = np.log(1 - position) + left, np.log(position) + right
    mean = np.logaddexp(*log_parts)
    return mean, np.exp(log_parts[1] - mean)


def _negative_log_likelihood(
    law: str, position: np.ndarray, lower: np.ndarray, upper: np.ndarray, parameters: np.ndarray
) -> tuple[float, np.ndarray]:
    """-ln L and its gradient, with a = (lower - m) / s and b = (upper - m) / s.

    An interval has L = Phi(b) - Phi(a) = P, dlnL/dm = (phi(a) - phi(b)) / (P s), dlnL/dln s = (a phi(a) - b phi(b)) / P;
    an exact value, lower = upper, has the density in their place.
    """
    left, right, log_scatter = parameters
    scatter = math.exp(log_scatter)
    mean, share = _mean(law, position, left, right)
    exact = lower == upper
    z = (np.stack([lower, upper]) - mean) / scatter
    log_mass = _log_mass(z[0], np.where(exact, z[0] + 1, z[1]))
    log_density = -(z**2) / 2 - math.log(2 * math.pi) / 2
    ratio = np.exp(log_density - log_mass)
    moment = np.where(np.isinf(z), 0.0, z) * ratio
    log_likelihood = np.where(exact, log_density[1] - log_scatter, log_mass)
    by_mean = np.where(exact, z[1], ratio[0] - ratio[1]) / scatter
    by_scatter = np.where(exact, z[1] ** 2 - 1, moment[0] - moment[1])
    gradient = np.array([np.sum(by_mean * (1 - share)), np.sum(by_mean * share), np.sum(by_scatter)])
    return -float(np.sum(log_likelihood)), -gradient


def _log_mass(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """ln(Phi(b) - Phi(a)) for a < b, mirrored where both lie in the upper tail: there Phi would round to 1."""
    a, b = np.where(a > 0, -b, a), np.where(a > 0, -a, b)
    return log_ndtr(b) + np.log1p(-np.exp(log_ndtr(a) - log_ndtr(b)))
