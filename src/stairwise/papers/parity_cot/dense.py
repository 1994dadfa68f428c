"""The simplified transformer of Definitions 3 to 6 written out: its embeddings and weights as plain matrices."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Integer


class SimplifiedTransformer(eqx.Module):
    """T(b)[i] = h' ReLU(W [x_i; X softmax(C + X' A x_i)]) with x_i = e_{i, b_i}, at every position.

    E   the embedding of bit b at position p is row 2p + b
    A   keys by queries: the score of x_j for x_i is x_j' A x_i
    W   a row a neuron: its own token, then what it attends to
    h   the readout
    """

    E: Float[Array, "atoms width"]
    A: Float[Array, "width width"]
    W: Float[Array, "neurons joint"]
    h: Float[Array, " neurons"]

    def __call__(self, tokens: Integer[Array, " positions"]) -> Float[Array, " positions"]:
        """The outputs; the sign of the last one is the answer where there is no chain of thought."""
        place = jnp.arange(len(tokens), dtype=jnp.int32)
        x = self.E[2 * place + tokens]
        scores = jnp.where(place[None, :] <= place[:, None], (x @ self.A @ x.T).T, -jnp.inf)
        seen = jax.nn.softmax(scores) @ x
        return jax.nn.relu(jnp.concatenate([x, seen], axis=1) @ self.W.T) @ self.h
