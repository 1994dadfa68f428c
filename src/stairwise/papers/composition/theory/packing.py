"""Lemma 12 and Corollary 13: many composition functions that hardly agree."""

import math
from fractions import Fraction

import numpy as np
from jaxtyping import Float, Integer

from stairwise.papers.composition.theory.inner import every_permutation, inner_products


def derangements(n: int) -> int:
    """Permutations of n elements without a fixed point.

    >>> [derangements(n) for n in range(6)]
    [1, 0, 1, 2, 9, 44]
    """
    before, now = 1, 0
    for m in range(2, n + 1):
        before, now = now, (m - 1) * (now + before)
    return before if n == 0 else now


def agreeing(alphabet: int, count: int) -> int:
    """Permutations that agree with a given one in exactly `count` places: C(N, i) D_{N-i}."""
    return math.comb(alphabet, count) * derangements(alphabet - count)


def volume(alphabet: int, r: int) -> int:
    """Permutations that agree with a given one in more than r places.

    >>> volume(4, 1)
    7
    """
    return sum(agreeing(alphabet, i) for i in range(r + 1, alphabet + 1))


def volume_bound(alphabet: int, r: int) -> Fraction:
    """The lemma's N!/r!."""
    return Fraction(math.factorial(alphabet), math.factorial(r))


def volume_bound_sharper(alphabet: int, r: int) -> Fraction:
    """N!/(r+1)!: a union bound over the sets of r+1 places."""
    return Fraction(math.factorial(alphabet), math.factorial(r + 1))


def log_packing_size(blocks: int, r: int) -> float:
    """log of (r!/4)^{k/2}."""
    return blocks / 2 * (math.lgamma(r + 1) - math.log(4))


def overlap_bound(blocks: int, alphabet: int, r: int) -> float:
    """(2r/N)^{k/2}."""
    return (2 * r / alphabet) ** (blocks / 2)


def overlap_bound_sharp(blocks: int, alphabet: int, r: int) -> float:
    """What the proof gives with agreements at most r in at least k/2 places: (max(r-1, 1)/(N-1))^{k/2} (N-1)/N."""
    return (max(r - 1, 1) / (alphabet - 1)) ** (blocks / 2) * (alphabet - 1) / alphabet


# --- packings that are written out ------------------------------------------------------------------------------------


def pack_permutations(alphabet: int, r: int, size: int, rng: np.random.Generator) -> Integer[np.ndarray, "size N"]:
    """`size` permutations that pairwise agree in at most r places, by greedy choice among random ones.

    Where S_N is small enough all of it is tried, in random order; fewer come back if no more fit.
    """
    kept = np.arange(alphabet)[None]
    small = math.factorial(alphabet) <= 50_000
    tries = (rng.permutation(alphabet) for _ in range(200 * size))
    if small:
        tries = rng.permutation(every_permutation(alphabet))
    for candidate in tries:
        if len(kept) >= size:
            break
        if ((kept == candidate).sum(axis=1) <= r).all():
            kept = np.vstack([kept, candidate])
    return kept


def pack_words(letters: int, blocks: int, size: int, rng: np.random.Generator) -> Integer[np.ndarray, "size k"]:
    """`size` words of [M]^k that pairwise agree in at most k/2 places, greedily among random ones."""
    kept = np.zeros((1, blocks), dtype=np.int64)
    for _ in range(200 * size):
        if len(kept) >= size:
            break
        candidate = rng.integers(0, letters, blocks)
        if ((kept == candidate).sum(axis=1) <= blocks / 2).all():
            kept = np.vstack([kept, candidate])
    return kept


def nearly_orthogonal(
    blocks: int, alphabet: int, r: int, size: int, rng: np.random.Generator
) -> Integer[np.ndarray, "size k N"]:
    """Hidden tuples built as in Lemma 12: words over a packing of S_N."""
    letters = pack_permutations(alphabet, r, math.factorial(r), rng)
    return letters[pack_words(len(letters), blocks, size, rng)]


def gram(tuples: Integer[np.ndarray, "size k N"]) -> Float[np.ndarray, "size size"]:
    """<f, f'> of all pairs, by Lemma 10."""
    N = tuples.shape[2]
    product = np.ones((len(tuples), len(tuples)))
    for block in range(tuples.shape[1]):
        different, which = np.unique(tuples[:, block], axis=0, return_inverse=True)
        agree = (different[:, None] == different[None]).sum(axis=2)
        product *= ((agree - 1) / (N - 1))[np.ix_(which.reshape(-1), which.reshape(-1))]
    return product * (N - 1) / N


def largest_overlap(tuples: Integer[np.ndarray, "size k N"]) -> float:
    """max |<f, f'>| over pairs."""
    largest = 0.0
    for index in range(1, len(tuples)):
        largest = max(largest, float(np.abs(inner_products(tuples[index], tuples[:index])).max()))
    return largest


def squared_distance(alphabet: int, overlap: float) -> float:
    """||f - f'||^2 = 2 (1 - 1/N) - 2 <f, f'>."""
    return 2 * (1 - 1 / alphabet) - 2 * overlap
