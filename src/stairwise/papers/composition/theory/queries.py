"""Theorem 5 as a calculator: the tolerance or the number of queries that a statistical-query learner needs.

From the packing of Lemma 12: either tau^2 <= 2 (2r/N)^{k/2}, or q >= (1/2) (r! r/(2N))^{k/2}, for any r.
"""

import itertools
import math
from typing import NamedTuple

LOG10 = math.log(10)


class SqBound(NamedTuple):
    """Either tolerance <= 10^log10_tolerance or queries >= 10^log10_queries; `vacuous` when that says nothing."""

    r: int
    log10_tolerance: float
    log10_queries: float
    vacuous: bool


def sq_bound(blocks: int, alphabet: int, r: int) -> SqBound:
    """The two sides of Theorem 5 at one r; what they need to say something is in `unmet`.

    >>> bound = sq_bound(16, 100, 7)
    >>> round(bound.log10_queries, 1), bound.vacuous
    (17.7, False)
    """
    tolerance = (math.log(2) + blocks / 2 * math.log(2 * r / alphabet)) / 2
    base = math.lgamma(r + 1) + math.log(r / (2 * alphabet))
    queries = -math.log(2) + blocks / 2 * base
    vacuous = not (2 * r < alphabet and base > 0 and tolerance < 0 and queries > 0)
    return SqBound(r, tolerance / LOG10, queries / LOG10, vacuous)


def unmet(bound: SqBound, alphabet: int) -> list[str]:
    """Why a bound is vacuous."""
    r = bound.r
    needs = {
        "2r < N": 2 * r < alphabet,
        "r! r > 2N": math.lgamma(r + 1) + math.log(r / (2 * alphabet)) > 0,
        "2 (2r/N)^{k/2} < 1 (tau^2)": bound.log10_tolerance < 0,
        "(r! r/(2N))^{k/2} > 2 (queries)": bound.log10_queries > 0,
    }
    return [need for need, met in needs.items() if not met]


def useful_r(alphabet: int) -> int:
    """The smallest r with r! r >= 2 N^2, which makes the query count at least N^{k/2}/2."""
    return next(r for r in itertools.count(1) if math.factorial(r) * r >= 2 * alphabet**2)


def printed_r(alphabet: int) -> int:
    """The paper's choice r = log N, rounded down (at least 1)."""
    return max(1, int(math.log(alphabet)))


def vacuous_for_every_r(blocks: int, alphabet: int) -> bool:
    return all(sq_bound(blocks, alphabet, r).vacuous for r in range(1, alphabet + 1))


def log10_tolerance_squared_printed(blocks: int, alphabet: int) -> float:
    """As printed, tau^2 <= 2 (2 log N/N)^{-k/2}: the exponent has the wrong sign, so that the bound exceeds 1."""
    return (math.log(2) - blocks / 2 * math.log(2 * math.log(alphabet) / alphabet)) / LOG10


def log10_queries_printed(blocks: int, alphabet: int) -> float:
    """As printed, q of order N^{(k/2) log N}."""
    return blocks / 2 * math.log(alphabet) ** 2 / LOG10


def log10_queries_at_log(blocks: int, alphabet: int) -> float:
    """(1/2) ((log N)! log N/(2N))^{k/2} with the Gamma function: N^{(k/2)(log log N - 2 + o(1))}."""
    r = math.log(alphabet)
    return (-math.log(2) + blocks / 2 * (math.lgamma(r + 1) + math.log(r / (2 * alphabet)))) / LOG10
