"""Table 1: counts of a batch and of the start, their means, and the bounds of Lemma 7. NumPy, whole numbers exact.

Queries q = 0..k-1 stand at positions n+q (counted from 0); the paper's i is position + 1. Counts over samples:

    delta[q, b]           sum of (-1)^{b[i+1]} 1(b[i] = b)
    alpha[q, j, b1, b2]   sum of (-1)^{b[i+1]} 1(b[j] = b1, b[i] = b2), zero for j > i, which no query sees
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Integer, Shaped


class BatchCounts(NamedTuple):
    """The counts of one batch."""

    delta: Float[np.ndarray, "queries 2"]
    alpha: Float[np.ndarray, "queries positions 2 2"]
    samples: int


def batch_counts(
    tokens: Shaped[np.ndarray, "samples tokens"], queries: int, times: Float[np.ndarray, " samples"] | None = None
) -> BatchCounts:
    """delta and alpha of whole sequences (the last token is only a label), each of them counted `times` times."""
    samples, length = tokens.shape
    times = np.ones(samples) if times is None else times
    positions, first = length - 1, length - 1 - queries
    ones = tokens[:, :-1].astype(np.float64)
    shown = np.stack([1 - ones, ones], axis=-1)  # sample, position, bit
    sign = (1.0 - 2 * tokens[:, first + 1 :].astype(np.float64)) * times[:, None]
    delta, alpha = np.zeros((queries, 2)), np.zeros((queries, positions, 2, 2))
    for q in range(queries):
        here = sign[:, q, None] * shown[:, first + q]  # sample, b2
        delta[q] = here.sum(axis=0)
        seen = shown[:, : first + q + 1].reshape(samples, -1)
        alpha[q, : first + q + 1] = (seen.T @ here).reshape(-1, 2, 2)
    return BatchCounts(delta, alpha, int(times.sum()))


def mean_alpha(inputs: int, secret: Integer[np.ndarray, " queries"]) -> Float[np.ndarray, "queries positions 2 2"]:
    """alpha-bar / B: (-1)^{b1+b2}/4 at j = S[i]; for the first query, whose bit is 0, (-1)^{b1} 1(b2 = 0)/2."""
    k = len(secret)
    mean = np.zeros((k, inputs + k, 2, 2))
    sign = np.array([[1.0, -1.0], [-1.0, 1.0]])
    for q, j in enumerate(secret):
        mean[q, j] = sign / 4 if q else sign * np.array([1.0, 0.0]) / 2
    return mean


def both_positive(positive: Bool[np.ndarray, "neurons queries 2"]) -> Float[np.ndarray, "queries 2 queries 2"]:
    """sum_r 1(nu_{r,i,b} > 0) 1(nu_{r,i',b'} > 0)."""
    flat = positive.reshape(len(positive), -1).astype(np.float64)
    k = positive.shape[1]
    return (flat.T @ flat).reshape(k, 2, k, 2)


def gamma(positive: Bool[np.ndarray, "neurons queries 2"], inputs: int) -> Float[np.ndarray, "queries 2 queries 2"]:
    """(count of common neurons - its mean (1 + 1(same)) m/2) / i'."""
    k, m = positive.shape[1], len(positive) // 2
    same = np.eye(2 * k).reshape(k, 2, k, 2)
    return (both_positive(positive) - (1 + same) * m / 2) / place(inputs, k)[:, None]


def beta(batch: BatchCounts, secret: Integer[np.ndarray, " queries"]) -> Float[np.ndarray, "positions 2"]:
    """sum over i with S[i] != j and over b2 of alpha / i."""
    noise = without_targets(batch.alpha, secret)
    inputs = noise.shape[1] - len(secret)
    return np.einsum("qjbc,q->jb", noise, 1 / place(inputs, len(secret)))


def psi(
    batch: BatchCounts, positive: Bool[np.ndarray, "neurons queries 2"], secret: Integer[np.ndarray, " queries"]
) -> Float[np.ndarray, "neurons positions 2"]:
    """The same with the factor 1(nu_{r,i,b2} > 0), for each neuron; targets left out, as Table 1 has it."""
    return weigh(without_targets(batch.alpha, secret), positive)


def weigh(
    alpha: Float[np.ndarray, "queries positions 2 2"], positive: Bool[np.ndarray, "neurons queries 2"]
) -> Float[np.ndarray, "neurons positions 2"]:
    """sum over i and b2 of 1(nu_{r,i,b2} > 0) alpha_{i,j,b1,b2} / i."""
    k, positions = alpha.shape[:2]
    scaled = alpha / place(positions - k, k)[:, None, None, None]
    flat = np.moveaxis(scaled, 3, 1).reshape(2 * k, -1)
    return (positive.reshape(len(positive), -1) @ flat).reshape(len(positive), positions, 2)


def zeta(
    psi: Float[np.ndarray, "neurons positions 2"], positive: Bool[np.ndarray, "neurons queries 2"]
) -> Float[np.ndarray, "queries 2 positions 2"]:
    """sum_r 1(nu_{r,i,b} > 0) psi_{r,j,b1}."""
    return np.einsum("rqb,rjc->qbjc", positive.astype(np.float64), psi)


def without_targets(
    alpha: Float[np.ndarray, "queries positions 2 2"], secret: Integer[np.ndarray, " queries"]
) -> Float[np.ndarray, "queries positions 2 2"]:
    kept = alpha.copy()
    kept[np.arange(len(secret)), secret] = 0
    return kept


def place(inputs: int, queries: int) -> Float[np.ndarray, " queries"]:
    """The paper's i of every query: n+1, ..., n+k."""
    return inputs + 1.0 + np.arange(queries)


# --- Lemma 7 ----------------------------------------------------------------------------------------------------------


def lemma7(inputs: int, size: int, m: int, samples: int, failure: float) -> dict[str, float]:
    """The right-hand sides as printed; that of alpha without its factor 1(j = S[i])."""
    n, k, B = inputs, size, samples
    log, with_neurons = math.log(300 * n * B / failure), math.log(300 * m * n * B / failure)
    return {
        "delta": math.sqrt(B * log),
        "alpha": math.sqrt(2 * B * log),
        "beta": math.sqrt(2 * B * k * log) / n,
        "psi": 2 * math.sqrt(B * k * with_neurons) / n,
        "gamma": math.sqrt(2 * m * math.log(200 * n / failure)) / n,
        "zeta": 4 * m * math.sqrt(k * B * with_neurons) / n,
    }


def deviations(
    batch: BatchCounts, positive: Bool[np.ndarray, "neurons queries 2"], secret: Integer[np.ndarray, " queries"]
) -> dict[str, float]:
    """The left-hand sides: the largest of each over all indices, alpha's over the targets and over all keys."""
    inputs = batch.alpha.shape[1] - len(secret)
    noise = np.abs(batch.alpha - batch.samples * mean_alpha(inputs, secret))
    by_neuron = psi(batch, positive, secret)
    found = {
        "delta": batch.delta,
        "alpha": noise,
        "beta": beta(batch, secret),
        "psi": by_neuron,
        "gamma": gamma(positive, inputs),
        "zeta": zeta(by_neuron, positive),
        "alpha off target": without_targets(noise, secret),
    }
    return {name: float(np.max(np.abs(value))) for name, value in found.items()}
