"""The Gram operator of all composition functions, and what it says about statistical queries on average over pi.

For one block the matrix <pi, rho> - 1 over S_N is the projection on the (N-1)^2-dimensional standard representation,
times N!/(N-1); Lemma 10 makes the Gram matrix of k blocks its k-fold tensor power. So the operator with kernel
<f_pi, f_rho> under uniform pi has one nonzero eigenvalue, and every normalised query has the same small mean square.
"""

import math
from fractions import Fraction

import numpy as np
from jaxtyping import Float

from stairwise.papers.composition.theory import packing
from stairwise.papers.composition.theory.inner import every_tuple


def gram_eigenvalue(blocks: int, alphabet: int) -> Fraction:
    """The one nonzero eigenvalue 1/(N (N-1)^{2k-1}).

    >>> gram_eigenvalue(2, 3)
    Fraction(1, 24)
    """
    return Fraction(1, alphabet * (alphabet - 1) ** (2 * blocks - 1))


def gram_multiplicity(blocks: int, alphabet: int) -> int:
    """(N-1)^{2k}."""
    return (alphabet - 1) ** (2 * blocks)


def gram(blocks: int, alphabet: int) -> Float[np.ndarray, "count count"]:
    """<f_pi, f_rho> / (N!)^k over all pairs."""
    tuples = every_tuple(blocks, alphabet)
    return packing.gram(tuples) / len(tuples)


def rms_inner_product(blocks: int, alphabet: int) -> float:
    """The root mean square of <f_pi, f_rho> over independent uniform pairs: (N-1)^{1-k}/N."""
    return (alphabet - 1) ** (1 - blocks) / alphabet


def average_queries(blocks: int, alphabet: int, tolerance: float, probability: float) -> float:
    """Queries needed so that with `probability` over uniform pi one answer exceeds the tolerance.

    E_pi[answer^2] <= 1/(N (N-1)^{2k-1}) for each normalised query, so q >= delta tau^2 N (N-1)^{2k-1}.
    """
    return probability * tolerance**2 / float(gram_eigenvalue(blocks, alphabet))


def log10_average_queries(blocks: int, alphabet: int) -> float:
    """log10 of N (N-1)^{2k-1}: the same at delta = tau = 1, at sizes where the eigenvalue rounds to 0 too.

    >>> round(log10_average_queries(1000, 5), 2)
    1204.22
    """
    return math.log10(alphabet) + (2 * blocks - 1) * math.log10(alphabet - 1)
