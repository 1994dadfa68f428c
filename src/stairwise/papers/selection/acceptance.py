"""How likely random signs are to be near-orthogonal; a config asks before anything is compiled, so only arithmetic."""

import bisect
import math
from functools import lru_cache

TRIES = 1000  # rounds of draws after which training goes on with what it has


@lru_cache(maxsize=1024)
def pair_fails(width: int, threshold: float) -> float:
    """P(|<e_i, e_j>| > threshold) of two random sign vectors: an exact binomial tail.

    >>> pair_fails(4, 0.5)  # sums of four signs: 4 in size with chance 1/8
    0.125
    """
    fewest = math.floor(width * (threshold + 1e-6)) + 1  # the smallest |sum of signs| that is rejected
    term, tail = 1, 0
    for k in range((width - fewest) // 2 + 1):
        tail += term
        term = term * (width - k) // (k + 1)
    return min(1.0, 2 * tail / 2**width)


def found(scheme: str, length: int, width: int, threshold: float) -> float:
    """The chance that `length` encodings within the threshold, no two equal up to sign, are drawn in `TRIES` rounds.

    Pairs count as independent: all of them must pass at once (matrix), or those of the last row with the others.
    """
    fails = max(pair_fails(width, threshold), 2.0 ** (1 - width))
    too_many = length > width and threshold < math.sqrt((length - width) / (width * (length - 1)))  # Welch's bound
    if fails == 1 or too_many or length > 2 ** (width - 1):
        return float(length == 1)
    pairs = length * (length - 1) // 2 if scheme == "matrix" else length - 1
    passes = math.exp(pairs * math.log1p(-fails))
    return -math.expm1(TRIES * math.log1p(-passes)) if passes < 1 else 1.0


def smallest_threshold(scheme: str, length: int, width: int) -> float | None:
    """The least threshold at which most sets are found; None if there is none."""
    products = range(width % 2, width, 2)  # inner products of sign vectors, in units of 1/width
    least = bisect.bisect_left(products, 0.5, key=lambda product: found(scheme, length, width, product / width))
    return math.ceil(1e4 * products[least] / width) / 1e4 if least < len(products) else None
