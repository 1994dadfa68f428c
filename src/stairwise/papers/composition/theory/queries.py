"""Theorem 5: what a statistical query can rule out, and the tolerance or the number of queries that a learner needs.

A query is a function g(sigma, x, y) with E_sigma g = 0 and sum_y E g^2 = 1; its answer on f is E g(sigma, x, f).
From the packing of Lemma 12: either tau^2 <= 2 (2r/N)^{k/2}, or q >= (1/2) (r! r/(2N))^{k/2}, for any r.
"""

import itertools
import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

LOG10 = math.log(10)


def answers(gram: Float[np.ndarray, "n n"], weights: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """The answers on n functions to the normalised query sum_f w_f (1(y = f) - 1/N): G w/sqrt(w^T G w).

    What a query says about n functions is its projection on their span, so these are all queries there are.
    """
    products = gram @ weights
    return products / math.sqrt(weights @ products)


def centre(g: Float[np.ndarray, "sequences N N"]) -> float:
    """What centring a query takes from every answer: (1/N^2) sum_{x, y} E_sigma g(sigma, x, y)."""
    return float(g.mean(axis=0).sum() / g.shape[1] ** 2)


def gradient_parts(
    slopes: Float[np.ndarray, "parameters sequences N N"], logits: Float[np.ndarray, "sequences N N"]
) -> tuple[np.ndarray, np.ndarray]:
    """The gradient of -E log S(F)_y is the second part less the answers to the first.

    The query g(sigma, x, y) = dF_y, one for each parameter, and E[sum_m S(F)_m dF_m], which does not depend on pi.
    """
    weights = np.exp(logits - logits.max(axis=2, keepdims=True))
    shares = weights / weights.sum(axis=2, keepdims=True)
    return slopes, (shares * slopes).sum(axis=3).mean(axis=(1, 2))


def most_ruled_out(tolerance: float, overlap: float) -> float:
    """|A^+| <= 1/(tau^2 - overlap): functions with an answer of tau or more, where |<f, f'>| <= overlap."""
    return 1 / (tolerance**2 - overlap)


def fewest_queries(functions: int, tolerance: float, overlap: float) -> float:
    """|F_r| (tau^2 - overlap)/2: each query rules out twice `most_ruled_out` at most."""
    return functions * (tolerance**2 - overlap) / 2


def least_loss(alphabet: int, product: float) -> float:
    """(1 - 1/N - <f, f'>)/2: the 0-1 loss of any predictor on one of two functions."""
    return (1 - 1 / alphabet - product) / 2


class SqBound(NamedTuple):
    """Either tolerance <= 10^log10_tolerance or queries >= 10^log10_queries; `vacuous` when that says nothing."""

    r: int
    log10_tolerance: float
    log10_queries: float
    vacuous: bool


def sq_bound(blocks: int, alphabet: int, r: int) -> SqBound:
    """The two sides of Theorem 5 at one r; vacuous unless 2r < N, r! r > 2N, tau^2 < 1 and q > 1.

    >>> bound = sq_bound(16, 100, 7)
    >>> round(bound.log10_queries, 1), bound.vacuous
    (17.7, False)
    """
    tolerance = (math.log(2) + blocks / 2 * math.log(2 * r / alphabet)) / 2
    base = math.lgamma(r + 1) + math.log(r / (2 * alphabet))
    queries = -math.log(2) + blocks / 2 * base
    vacuous = not (2 * r < alphabet and base > 0 and tolerance < 0 and queries > 0)
    return SqBound(r, tolerance / LOG10, queries / LOG10, vacuous)


def useful_r(alphabet: int) -> int:
    """The smallest r with r! r >= 2 N^2, which makes the query count at least N^{k/2}/2."""
    return next(r for r in itertools.count(1) if math.factorial(r) * r >= 2 * alphabet**2)


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
