"""Attention that selects: the construction of Sanford, Hsu and Telgarsky (Theorem C.3).

Columns [x_i; 0 or e_y; e_i] of width d + 2 d_e; the query reads e_y times a scale, keys read e_i, values read x_i.
With u the attention that leaks off y, the worst error over tokens in the unit ball is exactly 2u.
"""

import math

import numpy as np
from jaxtyping import Float

Overlaps = Float[np.ndarray, "pairs others"]


def scale_printed(length: int, epsilon: float) -> int:
    """ceil(2 log(2T)/epsilon)."""
    return math.ceil(2 * math.log(2 * length) / epsilon)


def scale_sufficient(length: int, epsilon: float) -> float:
    """2 log(2T/epsilon), which is enough."""
    return 2 * math.log(2 * length / epsilon)


def named_least(length: int, sparsity: int, scale: float) -> float:
    """1/q - (T/q^2) e^{-alpha/2}: below no attention on a named position, where overlaps are at most 1/2."""
    return 1 / sparsity - length / sparsity**2 * math.exp(-scale / 2)


def named_least_printed(length: int, sparsity: int, scale: float) -> float:
    """The same with e^{-alpha}, as the proof of Theorem C.3 prints it."""
    return 1 / sparsity - length / sparsity**2 * math.exp(-scale)


def worst_error(overlaps: Overlaps, sparsity: int, scale: float) -> float:
    """sup over tokens in the unit ball and over the given pairs (E, y) of ||f - STS_q|| = sum_i |Y_i/q - S_i| = 2u."""
    decay = np.exp(scale * (overlaps - 1)).sum(axis=1)
    return float(np.max(2 * decay / (sparsity + decay)))


def error_bound(length: int, sparsity: int, scale: float, gamma: float) -> float:
    """2 ((T-q)/q) e^{-(1-gamma) scale}, for overlaps of at most gamma."""
    return 2 * (length - sparsity) / sparsity * math.exp(-(1 - gamma) * scale)


def attend(
    tokens: Float[np.ndarray, "length width"],
    encodings: Float[np.ndarray, "length encoding"],
    subset_encoding: Float[np.ndarray, " encoding"],
    scale: float,
) -> Float[np.ndarray, " width"]:
    """The construction itself, written out: V X softmax(X^T K^T Q X) read at the last column."""
    (length, width), encoding = tokens.shape, encodings.shape[1]
    query_block = np.zeros((encoding, length))
    query_block[:, -1] = subset_encoding
    X = np.vstack([tokens.T, query_block, encodings.T])
    Q = np.hstack([np.zeros((encoding, width)), scale * np.eye(encoding), np.zeros((encoding, encoding))])
    K = np.hstack([np.zeros((encoding, width + encoding)), np.eye(encoding)])
    V = np.eye(width, width + 2 * encoding)
    scores = X.T @ K.T @ Q @ X
    S = np.exp(scores - scores.max(axis=0))
    return (V @ X @ (S / S.sum(axis=0)))[:, -1]
