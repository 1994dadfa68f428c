"""Appendix E: what the first value matrix learns while attention is still uniform, and what it does to the signal.

With W_KQ = 0 layer 1 adds the same vector W_OV X 1/T to every token; X 1/T is 1/T on blocks 1 and 2 whatever sigma is.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Integer


def first_loss(
    value: Float[Array, "d d"],
    readout: Float[Array, "d N"],
    X: Float[Array, "d T"],
    query: Integer[Array, ""],
    label: Integer[Array, ""],
) -> Float[Array, ""]:
    """loss^(1) of one example at W_KQ = 0, with a full W_OV^(1)."""
    column = X[:, query] + value @ jnp.mean(X, axis=1)
    return -jax.nn.log_softmax(readout.T @ column)[label]


def signal_factors(V: Float[np.ndarray, "T T"], blocks: int, alphabet: int) -> Float[np.ndarray, " blocks"]:
    """a_i - b_i: what a value block V multiplies the first layer's signal of position i by.

    With w_s = sum_p V[(p, s), .]: a_i = mean_s w_s[(i, s)], b_i = mean_{s != u} w_s[(i, u)]. It is 1 for V = I.
    """
    W = V.reshape(blocks, alphabet, blocks, alphabet).sum(axis=0)  # [s, i, u]
    total, diagonal = W.sum(axis=(0, 2)), np.einsum("sis->i", W)
    return diagonal / alphabet - (total - diagonal) / (alphabet * (alphabet - 1))
