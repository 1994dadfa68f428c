"""Lemma 10 and Remark 11: how much two composition functions agree, as exact rationals.

<f, f'> = P(f = f') - 1/N under uniform inputs; <pi, rho> of two permutations is the number of places where they agree.
"""

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from jaxtyping import Integer

Tuple = Sequence[Sequence[int]] | np.ndarray  # k permutations of 0..N-1


def every_permutation(alphabet: int) -> Integer[np.ndarray, "count alphabet"]:
    """S_N, one permutation a row, in lexicographic order."""
    return np.array(list(itertools.permutations(range(alphabet))))


def every_tuple(blocks: int, alphabet: int) -> Integer[np.ndarray, "count blocks alphabet"]:
    """(S_N)^k; the last permutation varies fastest.

    >>> every_tuple(2, 3).shape
    (36, 2, 3)
    """
    one = every_permutation(alphabet)
    return one[np.indices([len(one)] * blocks).reshape(blocks, -1).T]


def agreements(hidden: Tuple, other: Tuple) -> list[int]:
    """<pi_i, rho_i> of every block i."""
    return [
        sum(int(a) == int(b) for a, b in zip(one, two, strict=True)) for one, two in zip(hidden, other, strict=True)
    ]


def inner_product(hidden: Tuple, other: Tuple) -> Fraction:
    """<f_pi, f_rho> = prod_i (<pi_i, rho_i> - 1) / (N (N-1)^{k-1}).

    >>> inner_product([[0, 1, 2], [1, 0, 2]], [[0, 1, 2], [1, 0, 2]])
    Fraction(2, 3)
    """
    k, N = len(hidden), len(hidden[0])
    return Fraction(math.prod(a - 1 for a in agreements(hidden, other)), N * (N - 1) ** (k - 1))


def inner_product_printed(hidden: Tuple, other: Tuple) -> Fraction:
    """As printed, with index k in every factor: (<pi_k, rho_k> - 1)^k / (N (N-1)^{k-1})."""
    k, N = len(hidden), len(hidden[0])
    return Fraction((agreements(hidden, other)[-1] - 1) ** k, N * (N - 1) ** (k - 1))


def inner_products(hidden: Integer[np.ndarray, "k N"], others: Integer[np.ndarray, "count k N"]) -> np.ndarray:
    """<f_pi, f_rho> of one tuple with many, in floating point."""
    N = hidden.shape[1]
    factors = (hidden[None] == others).sum(axis=2) - 1
    return np.prod(factors / (N - 1), axis=1) * (N - 1) / N


# --- by running the functions -----------------------------------------------------------------------------------------


def fold(hidden: np.ndarray, inputs: np.ndarray, start: int = 0) -> np.ndarray:
    """sigma_{i+k-1} pi_{i+k-1} ... sigma_i pi_i of every row of `inputs` (count, k, N), as permutations (count, N)."""
    count, k, N = inputs.shape
    value = np.broadcast_to(np.arange(N), (count, N))
    rows = np.arange(count)[:, None]
    for step in range(k):
        block = (start + step) % k
        value = inputs[rows, block, hidden[block][value]]
    return value


def counted(hidden: np.ndarray, other: np.ndarray, inputs: np.ndarray, start: int = 0) -> Fraction:
    """P(f_pi = f_rho) - 1/N over the listed inputs and all x, by counting."""
    agree = int((fold(hidden, inputs, start) == fold(other, inputs, start)).sum())
    count, _, N = inputs.shape
    return Fraction(agree, count * N) - Fraction(1, N)


def sampled(hidden: np.ndarray, other: np.ndarray, samples: int, rng: np.random.Generator) -> tuple[float, float]:
    """The Monte-Carlo mean of 1(f_pi = f_rho) - 1/N over random sequences (all x of each), and its standard error."""
    k, N = hidden.shape
    inputs = rng.permuted(np.broadcast_to(np.arange(N), (samples, k, N)), axis=2)
    each = (fold(hidden, inputs) == fold(other, inputs)).mean(axis=1)
    return float(each.mean() - 1 / N), float(each.std(ddof=min(1, samples - 1)) / math.sqrt(samples))
