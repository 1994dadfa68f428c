"""Remark 6 and Section 7: what information alone asks for, in samples and in parameters."""

import math
from fractions import Fraction

import numpy as np

from stairwise.papers.composition.theory.inner import fold
from stairwise.papers.composition.theory.packing import agreeing

LARGEST_SAMPLES = 10_000


def log_functions(blocks: int, alphabet: int) -> float:
    """log |F| = k log N! (the (N!)^k functions differ for N >= 3)."""
    return blocks * math.lgamma(alphabet + 1)


def expected_impostors(blocks: int, alphabet: int, samples: int) -> Fraction:
    """The mean number of wrong pi that fit `samples` examples: sum_{rho != pi} (1/N + <f_pi, f_rho>)^n, exactly.

    With u = (agreements - 1)/(N-1) in each block, (1/N + (1-1/N) prod u)^n expands into powers of one block's u.
    """
    N, n = alphabet, samples
    total = Fraction(0)
    for power in range(n + 1):
        moment = sum(agreeing(N, a) * Fraction(a - 1, N - 1) ** power for a in range(N + 1))
        total += math.comb(n, power) * Fraction(N - 1, N) ** power * Fraction(1, N) ** (n - power) * moment**blocks
    return total - 1


def enough_samples(blocks: int, alphabet: int, failure: float) -> int:
    """The smallest n at which the expected number of impostors is at most `failure`."""
    low, high = 0, 1
    while expected_impostors(blocks, alphabet, high) > failure:
        low, high = high, 2 * high
        if high > LARGEST_SAMPLES:
            raise ValueError(f"samples must be at most {LARGEST_SAMPLES} (enough_samples)")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if expected_impostors(blocks, alphabet, middle) > failure else (low, middle)
    return high


def fewest_samples(blocks: int, alphabet: int) -> float:
    """Below log(|F|/2)/log N no learner knows pi half of the time: n labels take at most N^n values."""
    return (log_functions(blocks, alphabet) - math.log(2)) / math.log(alphabet)


def samples_until_unique(hidden: np.ndarray, candidates: np.ndarray, rng: np.random.Generator) -> int:
    """How many random examples (sigma, x, f_pi(sigma, x)) leave pi as the only candidate that fits."""
    k, N = hidden.shape
    alive, samples = candidates, 0
    while len(alive) > 1 and samples < LARGEST_SAMPLES:
        sequence = rng.permuted(np.broadcast_to(np.arange(N), (k, N)), axis=1)
        x = int(rng.integers(N))
        answers = answers_of(alive, sequence, x)
        alive = alive[answers == fold(hidden, sequence[None])[0, x]]
        samples += 1
    return samples


def answers_of(candidates: np.ndarray, sequence: np.ndarray, x: int) -> np.ndarray:
    """f_rho(sigma, x) of every candidate rho."""
    value = np.full(len(candidates), x)
    rows = np.arange(len(candidates))
    for block in range(sequence.shape[0]):
        value = sequence[block][candidates[rows, block, value]]
    return value


def smallest_width(blocks: int, alphabet: int, layers: int, precision: int) -> float:
    """The d below which L d^2 p bits cannot name every one of the (N!)^k functions."""
    return math.sqrt(log_functions(blocks, alphabet) / math.log(2) / (layers * precision))
