"""Theorem 1: weights of the simplified transformer that compute a parity without a chain of thought, on every input.

M (2k x d) has the embeddings of the secret positions as rows; the rows of (M M')^-1 M are their dual vectors u_{j,b}
(Lemma 2). With V the sum of all of them and U of those with b = 1,

    A = 40 ln(n) V e_{n+1,0}',    W[r, :d] = a_r e_{n+1,0},    W[r, d:] = 2k U,    h_r = +-1,

attention spreads over the secret positions evenly, neuron r sees a_r + 2s with s the number of ones among them, and
sum_r h_r ReLU(a_r + 2s) = (-1)^(s+1): a zigzag of slopes +-1 through the odd and even s.
"""

import math
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Integer

from stairwise.papers.parity_cot.simplified import Coefficients

SHARPNESS = 40  # of the scores, in units of ln n
SINGULAR = 1e-9  # a smallest eigenvalue of M M' below this is 0 up to rounding


# --- the readout ------------------------------------------------------------------------------------------------------


def offsets(size: int) -> Integer[np.ndarray, " neurons"]:
    """a_r of the 2m = 2(k+1) neurons.

    >>> offsets(3).tolist()
    [0, 0, -4, -4, 1, -2, -2, -6]
    """
    m = size + 1
    r = np.arange(1, 2 * m + 1)
    upper, lower = -4 * ((r + 1) // 2) + 4, -4 * ((r - m) // 2) + 2
    return np.where(r <= m, upper, np.where(r == m + 1, 1, lower))


def output_signs(size: int) -> Integer[np.ndarray, " neurons"]:
    """h_r: 1 for the first m neurons, -1 for the others."""
    return np.repeat([1, -1], size + 1)


def zigzag(size: int, ones: int) -> int:
    """sum_r h_r ReLU(a_r + 2s), in whole numbers: (-1)^(s+1).

    >>> [zigzag(4, s) for s in range(5)]
    [-1, 1, -1, 1, -1]
    """
    return int(np.sum(output_signs(size) * np.maximum(offsets(size) + 2 * ones, 0)))


# --- the weights ------------------------------------------------------------------------------------------------------


def secret_atoms(secret: Integer[np.ndarray, " size"]) -> Integer[np.ndarray, " atoms"]:
    """The rows of M: both bits of every secret position."""
    return (2 * np.asarray(secret)[:, None] + np.arange(2)).reshape(-1)


def independent(columns: Float[np.ndarray, "atoms secret_atoms"], secret: Integer[np.ndarray, " size"]) -> bool:
    """Are the secret embeddings linearly independent? Only then there are dual vectors."""
    return bool(np.linalg.eigvalsh(columns[secret_atoms(secret)])[0] >= SINGULAR)


class Dual(NamedTuple):
    """V and U as combinations of the secret embeddings, and their inner products with every embedding."""

    V: Float[np.ndarray, " secret_atoms"]
    U: Float[np.ndarray, " secret_atoms"]
    V_on: Float[np.ndarray, " atoms"]
    U_on: Float[np.ndarray, " atoms"]

    @property
    def norm(self) -> float:
        """||V||; its square is 1'(M M')^-1 1."""
        return math.sqrt(max(float(np.sum(self.V)), 0.0))


def dual(columns: Float[np.ndarray, "atoms secret_atoms"], secret: Integer[np.ndarray, " size"]) -> Dual:
    """Solve M M' x = 1 (all rows, and those of bit 1), from the inner products E M'."""
    rows = secret_atoms(secret)
    ones = np.ones(len(rows))
    right = np.stack([ones, np.arange(len(rows)) % 2], axis=1)
    if not independent(columns, secret):
        raise ValueError("the embeddings of the secret are linearly dependent: the width is too small (Theorem 1)")
    V, U = np.linalg.solve(columns[rows], right).T
    return Dual(V, U, columns @ V, columns @ U)


def theorem1(gram: Float[np.ndarray, "atoms atoms"], secret: Integer[np.ndarray, " size"]) -> Coefficients:
    """The weights in coefficient space; the sequence has n inputs and the 0 token, and the query is the last."""
    k, atoms, rows = len(secret), len(gram), secret_atoms(secret)
    query, inputs = atoms - 2, atoms // 2 - 1
    found = dual(gram[:, rows], secret)
    first, second = np.zeros((2 * (k + 1), atoms)), np.zeros((2 * (k + 1), atoms))
    attention = np.zeros((atoms, atoms))
    first[:, query] = offsets(k)
    second[:, rows] = 2 * k * found.U
    attention[rows, query] = SHARPNESS * math.log(inputs) * found.V
    dtype = jnp.result_type(float)
    return Coefficients(*(jnp.asarray(part, dtype=dtype) for part in (first, second, attention)))


def theorem1_readout(size: int) -> Float[Array, " neurons"]:
    return jnp.asarray(output_signs(size), dtype=jnp.result_type(float))


# --- the certificate --------------------------------------------------------------------------------------------------


class Certificate(NamedTuple):
    """A bound on |T(b) - (-1)^(y+1)| over all 2^n inputs, and what goes into it.

    overlap   max of <V, e_{j,b}> over the positions outside the secret
    leak      the largest attention outside the secret, at most
    error     2k leak (1 + max |<U, e_{j,b}>|): below 1 the sign is right on every input
    """

    overlap: float
    leak: float
    error: float


def certificate(found: Dual, secret: Integer[np.ndarray, " size"]) -> Certificate:
    """For every key outside the secret the worse of its two bits; powers of n in logarithms, as they overflow."""
    positions = len(found.V_on) // 2
    inputs, k = positions - 1, len(secret)
    outside = np.setdiff1d(np.arange(positions), secret)
    V, U = found.V_on.reshape(-1, 2)[outside], found.U_on.reshape(-1, 2)[outside]
    V, U = np.where(outside[:, None] == inputs, V[:, :1], V), np.where(outside[:, None] == inputs, U[:, :1], U)
    worst = np.max(V, axis=1)
    log_ratio = np.logaddexp.reduce(SHARPNESS * math.log(inputs) * (worst - 1)) - math.log(k)
    leak = float(np.exp(-np.logaddexp(0, -log_ratio)))
    return Certificate(float(np.max(worst)), leak, 2 * k * leak * (1 + float(np.max(np.abs(U)))))
