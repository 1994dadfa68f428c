"""Sampling noise of the empirical key-query gradient, and the sample size and learning rate that it asks for.

g-hat is a mean over M examples of (one-hot key rows - 1/N) times a one-hot query column (Lemmas 16, 20, 25).
"""

import math
from statistics import NormalDist

import numpy as np


def layers_of(blocks: int) -> int:
    """L = 1 + log2 k, for k a power of two.

    >>> layers_of(16)
    5
    """
    if blocks < 1 or blocks & (blocks - 1):
        raise ValueError(f"blocks={blocks} must be a power of two (layers_of)")
    return blocks.bit_length()


def width_of(blocks: int, alphabet: int) -> int:
    """d = kN(L+2), the width of the residual stream."""
    return blocks * alphabet * (layers_of(blocks) + 2)


def entry_std(blocks: int, alphabet: int, samples: int) -> float:
    """sqrt((N-1)/(k N^3 M)): the query column is hit with probability 1/(kN), a key row has variance (1/N)(1-1/N)."""
    return math.sqrt((alphabet - 1) / (blocks * alphabet**3 * samples))


def independent_entries(single: np.ndarray) -> float:
    """How many independent entries the noise is worth, from single examples less the signal, one a row.

    (tr C)^2/tr C^2 of the covariance C: tr C is the mean of |y|^2, tr C^2 that of <y, y'>^2 over pairs of rows.
    """
    products = single @ single.T
    squares = np.diag(products)
    pairs = len(single) * (len(single) - 1)
    return float(squares.mean() ** 2 / (((products**2).sum() - (squares**2).sum()) / pairs))


def rms_range(entries: float, failure: float) -> tuple[float, float]:
    """Between which values the rms of `entries` standard normals lies but for `failure` (Wilson and Hilferty)."""
    z, spread = -NormalDist().inv_cdf(max(failure / 2, 1e-300)), 2 / (9 * entries)
    low, high = (1 - spread + sign * z * math.sqrt(spread) for sign in (-1, 1))
    return max(low, 0.05) ** 1.5, high**1.5


def margin_over_noise(blocks: int, alphabet: int, samples: int, layer: int) -> float:
    """z = sqrt((N-1) M/(2 (l+1)^2 k N)): the margin (N-1)/(kN^2) against a difference of sums of (l+1)^2 entries."""
    return math.sqrt((alphabet - 1) * samples / (2 * (layer + 1) ** 2 * blocks * alphabet))


def sample_unit(blocks: int, alphabet: int) -> int:
    """c = kN(L+1)^2, the unit in which the sample need is counted."""
    return blocks * alphabet * (layers_of(blocks) + 1) ** 2


def sample_rule(blocks: int, alphabet: int, factor: int = 32) -> int:
    """M = 32 kN(L+1)^2: enough at every size tried with N >= 5, too few with N = 2 or 3 letters and k >= 4 blocks.

    The margin is then 4 sqrt(N-1) standard deviations of the noise in the last layer (`margin_over_noise`).

    >>> sample_rule(16, 5)
    92160
    """
    return factor * sample_unit(blocks, alphabet)


def samples_theorem(blocks: int, alphabet: int) -> int:
    """Theorem 7's k^4 N^6, without its logarithms."""
    return blocks**4 * alphabet**6


def samples_lemmas(blocks: int, alphabet: int) -> int:
    """Lemma 15's k^2 N^4 d^2, without its logarithms: (L+2)^2 times that of the theorem."""
    return blocks**2 * alphabet**4 * width_of(blocks, alphabet) ** 2


def learning_rate(blocks: int, alphabet: int, beta0: float, epsilon: float, margin: float) -> float:
    """eta >= (kN/beta0) log(kN/eps)/margin makes every right key's mass at least 1 - eps; `margin` is that of g-hat."""
    T = blocks * alphabet
    return T / beta0 * math.log(T / epsilon) / margin


def learning_rate_theorem(blocks: int, alphabet: int, beta0: float, epsilon: float) -> float:
    """k^2 N^3 log(kN/eps)/beta0: the same with the least margin 1/(kN^2)."""
    return learning_rate(blocks, alphabet, beta0, epsilon, 1 / (blocks * alphabet**2))


def concentration_bound(blocks: int, alphabet: int, samples: int, failure: float) -> float:
    """Hoeffding with entries in an interval of length 1 and a union over d^2 of them: sqrt(log(2 d^2/delta)/(2M)).

    Lemmas 16, 20 and 25 say O(log(kN/delta)/sqrt(M)); this is an explicit form that is below it.
    """
    d = width_of(blocks, alphabet)
    return math.sqrt(math.log(2 * d**2 / failure) / (2 * samples))
