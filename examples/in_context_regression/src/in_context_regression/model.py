"""One layer of linear self-attention, f(E) = E + W_PV E (E^T W_KQ E) / N, on the tokens (x_i, y_i) and (x_query, 0).

The prediction is the last entry of the last token. With W_KQ = [[A, 0], [0, 0]] and W_PV = [[0, 0], [0, 1]] it is
<x_query, A^T b> with b = (1/N) sum_i y_i x_i: one step of gradient descent from zero, preconditioned by A^T.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from in_context_regression.task import Prompt


class LinearSelfAttention(eqx.Module):
    """W_PV and W_KQ, both (d+1) x (d+1), without softmax, mask or bias."""

    value: Float[Array, "joint joint"]
    key_query: Float[Array, "joint joint"]

    def __call__(self, prompt: Prompt) -> Float[Array, ""]:
        """The prediction; only the last token of f(E) is computed."""
        tokens = jnp.concatenate([prompt.inputs, prompt.query[None]])
        labels = jnp.append(prompt.labels, jnp.zeros((), dtype=prompt.labels.dtype))
        E = jnp.concatenate([tokens, labels[:, None]], axis=1)  # one token a row: the paper's E transposed
        scores = E @ (self.key_query @ E[-1]) / prompt.labels.shape[0]
        return (E[-1] + self.value @ (scores @ E))[-1]

    def preconditioner(self) -> Float[Array, "width width"]:
        """The matrix P such that the prediction is <x_query, P b>, where only the two corner blocks are not zero."""
        return self.value[-1, -1] * self.key_query[:-1, :-1].T


def gradient_step(preconditioner: Float[Array, "width width"]) -> LinearSelfAttention:
    """The layer whose prediction is <x_query, P b>."""
    return corner_blocks(preconditioner.T, jnp.ones((), dtype=preconditioner.dtype))


def corner_blocks(U: Float[Array, "width width"], u: Float[Array, ""]) -> LinearSelfAttention:
    """W_KQ = [[U, 0], [0, 0]] and W_PV = [[0, 0], [0, u]]."""
    empty = jnp.zeros((U.shape[0] + 1, U.shape[0] + 1), dtype=U.dtype)
    return LinearSelfAttention(value=empty.at[-1, -1].set(u), key_query=empty.at[:-1, :-1].set(U))


def loss(model: LinearSelfAttention, prompt: Prompt) -> Float[Array, ""]:
    """Half the squared error."""
    return (model(prompt) - prompt.target) ** 2 / 2
