"""The likelihood of a growth law under censoring, and its maximum for many bootstrap samples at once. NumPy, SciPy.

ln y = m(x) + s z with z ~ N(0, 1). The parameters are ln y at the two ends of the x range and ln s: numbers of one
size, unconstrained under every law. A bootstrap sample is a row of weights, how much it holds of each run, so that
all samples share one array and climb together.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import log_ndtr

LOG_SCATTER = (-12.0, 6.0)  # a perfect fit would drive the likelihood to infinity
REACH = 60.0  # how far (in ln y) a fitted end may wander from where it started
SMALLEST_GAIN = 1e-13
MOST_DAMPING = 1e12  # a sample that gains nothing even by such small steps is at its top
STEPS = 500


class Runs(NamedTuple):
    """What is known of each run: ln y lies between `lower` and `upper`, at `position` 0..1 between the ends of x."""

    position: Float[np.ndarray, " runs"]
    lower: Float[np.ndarray, " runs"]
    upper: Float[np.ndarray, " runs"]


class Derivatives(NamedTuple):
    """ln L of every run and sample, and its first and second derivatives in m and in ln s."""

    value: np.ndarray
    mean: np.ndarray
    scatter: np.ndarray
    mean_mean: np.ndarray
    mean_scatter: np.ndarray
    scatter_scatter: np.ndarray


def maximise(
    law: str, runs: Runs, weights: Float[np.ndarray, "samples runs"], start: Float[np.ndarray, "samples 3"]
) -> tuple[Float[np.ndarray, "samples 3"], Float[np.ndarray, " samples"]]:
    """The most likely parameters of each sample and their ln L, by damped Newton steps from `start`.

    The Hessian enters with the absolute values of its eigenvalues, so every step points uphill; a step that does not
    gain is taken back and damped ten times more.
    """
    low = np.stack([start[:, 0] - REACH, start[:, 1] - REACH, np.full(len(start), LOG_SCATTER[0])], axis=1)
    high = np.stack([start[:, 0] + REACH, start[:, 1] + REACH, np.full(len(start), LOG_SCATTER[1])], axis=1)
    found, damping = start, np.full(len(start), 1e-3)
    value, gradient, hessian = log_likelihood(law, runs, weights, found)
    for _ in range(STEPS):
        sizes, axes = np.linalg.eigh(hessian)
        along = np.einsum("sij,si->sj", axes, gradient) / (np.abs(sizes) * (1 + damping[:, None]) + damping[:, None])
        trial = np.clip(found + np.clip(np.einsum("sij,sj->si", axes, along), -3, 3), low, high)
        trial_value, trial_gradient, trial_hessian = log_likelihood(law, runs, weights, trial)
        gain = trial_value - value
        better = gain > 0
        small = np.abs(gain) <= SMALLEST_GAIN * (1 + np.abs(value))
        damping = np.where(better, damping / 10, np.minimum(damping * 10, MOST_DAMPING))
        found = np.where(better[:, None], trial, found)
        value = np.where(better, trial_value, value)
        gradient = np.where(better[:, None], trial_gradient, gradient)
        hessian = np.where(better[:, None, None], trial_hessian, hessian)
        if np.all(small | (damping >= MOST_DAMPING)):
            break
    return found, value


def log_likelihood(
    law: str, runs: Runs, weights: Float[np.ndarray, "samples runs"], parameters: Float[np.ndarray, "samples 3"]
) -> tuple[Float[np.ndarray, " samples"], Float[np.ndarray, "samples 3"], Float[np.ndarray, "samples 3 3"]]:
    """ln L of each sample with its gradient and Hessian in (left end, right end, ln s)."""
    mean, share = law_mean(law, runs.position, parameters[:, :1], parameters[:, 1:2])
    one = run_derivatives(runs, mean, parameters[:, 2:])
    towards = np.stack([1 - share, share, np.zeros_like(share)])  # dm / d(parameters)
    direct = np.zeros((3, 1, 1))
    direct[2] = 1
    gradient = weights * (towards * one.mean + direct * one.scatter)
    mixed = towards[:, None] * direct
    hessian = (
        towards[:, None] * towards * one.mean_mean
        + (mixed + mixed.swapaxes(0, 1)) * one.mean_scatter
        + direct[:, None] * direct * one.scatter_scatter
    )
    if law == "linear":  # ln of a sum of exponentials is curved: d2m = share (1 - share) (dleft - dright)^2
        bend = np.array([[1, -1, 0], [-1, 1, 0], [0, 0, 0]])[:, :, None, None]
        hessian = hessian + bend * share * (1 - share) * one.mean
    return (
        np.sum(weights * one.value, axis=1),
        np.moveaxis(gradient.sum(axis=-1), -1, 0),
        np.moveaxis((weights * hessian).sum(axis=-1), -1, 0),
    )


def law_mean(law: str, position: np.ndarray, left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """m at each position and dm/d(right); dm/d(left) is 1 minus that."""
    if law != "linear":
        return (1 - position) * left + position * right, position + np.zeros_like(right)
    with np.errstate(divide="ignore"):
        log_left, log_right = np.log(1 - position) + left, np.log(position) + right
    mean = np.logaddexp(log_left, log_right)
    return mean, np.exp(log_right - mean)


def run_derivatives(runs: Runs, mean: np.ndarray, log_scatter: np.ndarray) -> Derivatives:
    """Of an interval, with a = (lower - m) / s, b = (upper - m) / s and P = Phi(b) - Phi(a):

    ln L = ln P, dlnL/dm = (phi(a) - phi(b)) / (s P), dlnL/dln s = (a phi(a) - b phi(b)) / P, and so on with one more
    power of a, b. A run that is known exactly (lower = upper) has the normal density instead.
    """
    scatter = np.exp(log_scatter)
    exact: Bool[np.ndarray, " runs"] = runs.lower == runs.upper
    a, b = (runs.lower - mean) / scatter, (runs.upper - mean) / scatter
    log_mass = interval_log_mass(a, np.where(exact, a + 1, b))

    def moment(power: int) -> np.ndarray:
        """(a^power phi(a) - b^power phi(b)) / P."""
        ends = [np.where(np.isinf(z), 0, z) ** power * np.exp(_log_density(z) - log_mass) for z in (a, b)]
        return ends[0] - ends[1]

    by_mean, by_scatter = moment(0), moment(1)
    return Derivatives(
        np.where(exact, _log_density(b) - log_scatter, log_mass),
        np.where(exact, b, by_mean) / scatter,
        np.where(exact, b**2 - 1, by_scatter),
        np.where(exact, -1, by_scatter - by_mean**2) / scatter**2,
        np.where(exact, -2 * b, moment(2) - by_mean * (1 + by_scatter)) / scatter,
        np.where(exact, -2 * b**2, moment(3) - by_scatter * (1 + by_scatter)),
    )


def interval_log_mass(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """ln(Phi(b) - Phi(a)) for a < b, mirrored where both lie in the upper tail: there Phi would round to 1."""
    a, b = np.where(a > 0, -b, a), np.where(a > 0, -a, b)
    return log_ndtr(b) + np.log1p(-np.exp(log_ndtr(a) - log_ndtr(b)))


def _log_density(z: np.ndarray) -> np.ndarray:
    return -(z**2) / 2 - math.log(2 * math.pi) / 2
