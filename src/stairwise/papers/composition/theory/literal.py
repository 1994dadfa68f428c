"""Definitions 2 and 3 as they are written: full d x d matrices, one sequence at a time."""

import numpy as np
from jaxtyping import Float, Integer

Matrix = Float[np.ndarray, "d d"]


def softmax(scores: Float[np.ndarray, "keys queries"]) -> Float[np.ndarray, "keys queries"]:
    """Column by column."""
    weights = np.exp(scores - scores.max(axis=0))
    return weights / weights.sum(axis=0)


def attention_head(X: Float[np.ndarray, "d T"], key_query: Matrix, value: Matrix) -> Float[np.ndarray, "d T"]:
    """attn(X) = X + W_OV X S(X^T W_KQ X)."""
    return X + value @ X @ softmax(X.T @ key_query @ X)


def transformer(
    X: Float[np.ndarray, "d T"], key_queries: list[np.ndarray], values: list[np.ndarray]
) -> Float[np.ndarray, "d T"]:
    """L heads, one after another."""
    for key_query, value in zip(key_queries, values, strict=True):
        X = attention_head(X, key_query, value)
    return X


def embedding(sequence: Integer[np.ndarray, "k N"], layers: int) -> Float[np.ndarray, "d T"]:
    """Column (i, j) is (E(i, j), E(i, sigma_i(j)), 0, ..., 0)."""
    k, N = sequence.shape
    T = k * N
    X = np.zeros((layers + 2, T, T))
    for i in range(k):
        for j in range(N):
            X[0, i * N + j, i * N + j] = 1
            X[1, i * N + sequence[i, j], i * N + j] = 1
    return X.reshape(-1, T)


def dense_key_query(blocks: Float[np.ndarray, "a b T T"], layers: int) -> Matrix:
    """W_KQ from its first blocks; the others are zero."""
    seen, _, T, _ = blocks.shape
    W = np.zeros((layers + 2, T, layers + 2, T))
    W[:seen, :, :seen, :] = blocks.transpose(0, 2, 1, 3)
    return W.reshape((layers + 2) * T, -1)


def copy_matrix(tokens: int, layers: int, layer: int) -> Matrix:
    """W_OV^(l) = e_{l+2} e_{l+1}^T (x) I (blocks from 1, as in the paper)."""
    unit = np.zeros((layers + 2, layers + 2))
    unit[layer + 1, layer] = 1
    return np.kron(unit, np.eye(tokens))
