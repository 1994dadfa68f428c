"""The network and its loss as they are written: full d x d matrices, in NumPy, without the structured form.

Everything takes complex numbers too, so that `slope` has derivatives to the last digit without a gradient formula.
"""

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float, Inexact, Integer

Matrix = Inexact[np.ndarray, "d d"]
STEP = 1e-30  # of the complex step; its square is 0 beside 1


def softmax(scores: Inexact[np.ndarray, "*batch keys queries"]) -> Inexact[np.ndarray, "*batch keys queries"]:
    """Column by column."""
    weights = np.exp(scores - np.real(scores).max(axis=-2, keepdims=True))
    return weights / weights.sum(axis=-2, keepdims=True)


def attention_head(X: Inexact[np.ndarray, "*batch d T"], key_query: Matrix, value: Matrix):
    """attn(X) = X + W_OV X S(X^T W_KQ X) (Definition 2)."""
    return X + value @ X @ softmax(X.swapaxes(-1, -2) @ key_query @ X)


def transformer(X: Inexact[np.ndarray, "*batch d T"], key_queries: Sequence[np.ndarray], values: Sequence[np.ndarray]):
    """L heads, one after another (Definition 3)."""
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


def first_readout(blocks: int, alphabet: int, layers: int, head: int, beta0: float) -> Float[np.ndarray, "d N"]:
    """Psi_l(0) = beta0 e_{l+2} (x) 1_k (x) I."""
    unit = np.zeros(layers + 2)
    unit[head + 1] = beta0
    return np.kron(np.kron(unit[:, None], np.ones((blocks, 1))), np.eye(alphabet))


# --- the loss and its derivatives -------------------------------------------------------------------------------------


def hop(hidden: np.ndarray, sequence: np.ndarray, token: int, hops: int) -> int:
    """hop_i^r(j) at token (i, j), one permutation after another."""
    k, N = sequence.shape
    i, j = divmod(token, N)
    for step in range(hops):
        block = (i + step) % k
        j = sequence[block][hidden[block][j]]
    return int(j)


def cross_entropies(
    outputs: Inexact[np.ndarray, "count d"], readout: Inexact[np.ndarray, "d N"], labels: Integer[np.ndarray, " count"]
):
    """-log S(Psi^T x)_y of every row x, a label y each."""
    logits = outputs @ readout
    shifted = logits - np.real(logits).max(axis=1, keepdims=True)
    return np.log(np.exp(shifted).sum(axis=1)) - shifted[np.arange(len(labels)), labels]


def slope(function: Callable[[np.ndarray], complex], point: np.ndarray, direction: np.ndarray) -> float:
    """d/dh function(point + h direction) at 0, by the imaginary part of one complex step."""
    return float(np.imag(function(point + 1j * STEP * direction)) / STEP)


def sample_signal(X: Float[np.ndarray, "d T"], blocks: int, layer: int, query: int, label: int) -> Matrix:
    """g-hat of one sample on ideal inputs, eqs. (6) and (8): X (I - 1 1^T/(kN)) X^T (e_{l+1} (x) 1_k (x) e_y) X_q^T."""
    T = X.shape[1]
    shown = X.reshape(-1, blocks, T // blocks, T)[layer, :, label].sum(axis=0)  # X^T (e_{l+1} (x) 1_k (x) e_y)
    return np.outer(X @ (shown - shown.mean()), X[:, query])


def own_gradient(
    X: Float[np.ndarray, "d T"], key_query: Matrix, value: Matrix, readout: np.ndarray, query: int, label: int
) -> Matrix:
    """Appendix C.2: the gradient of loss^(l) in W_KQ^(l) at one sample, X being the input of layer l.

    -sum_s (1{s = y} - P_s) X J X^T (Psi^T W_OV)_s^T X_q^T with J = diag(S) - S S^T.
    """
    S = softmax(X.T @ key_query @ X)[:, query]
    P = softmax((readout.T @ value @ X @ S)[:, None])[:, 0]
    J = np.diag(S) - np.outer(S, S)
    wanted = np.eye(len(P))[label] - P
    return -np.outer(X @ J @ X.T @ (readout.T @ value).T @ wanted, X[:, query])


def own_readout_gradient(column: Float[np.ndarray, " d"], readout: np.ndarray, label: int) -> np.ndarray:
    """Appendix C.2: the gradient of loss^(l) in Psi_l at one sample, -x (e_y - S(Psi^T x))^T."""
    P = softmax((readout.T @ column)[:, None])[:, 0]
    return -np.outer(column, np.eye(len(P))[label] - P)
