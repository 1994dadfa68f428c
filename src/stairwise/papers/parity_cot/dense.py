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
        return Block(self.A, self.W, self.h[None])(self.E[2 * place + tokens])[:, 0]


class Block(eqx.Module):
    """FFN([x; A(x)]): one layer of Definition 6 on vectors, whose readout H has a row per dimension of its output."""

    A: Float[Array, "width width"]
    W: Float[Array, "neurons joint"]
    H: Float[Array, "out neurons"]

    def __call__(self, x: Float[Array, "positions width"]) -> Float[Array, "positions out"]:
        place = jnp.arange(len(x), dtype=jnp.int32)
        scores = jnp.where(place[None, :] <= place[:, None], (x @ self.A @ x.T).T, -jnp.inf)
        seen = jax.nn.softmax(scores) @ x
        return jax.nn.relu(jnp.concatenate([x, seen], axis=1) @ self.W.T) @ self.H.T


class DeepTransformer(eqx.Module):
    """L blocks, one on the outputs of the other; the embeddings are seen by the first one only."""

    E: Float[Array, "atoms width"]
    blocks: tuple[Block, ...]

    def __call__(self, tokens: Integer[Array, " positions"]) -> Float[Array, " positions"]:
        x = self.E[2 * jnp.arange(len(tokens), dtype=jnp.int32) + tokens]
        for block in self.blocks:
            x = block(x)
        return x[:, 0]


def identity(width: int, dtype: jnp.dtype) -> Block:
    """A block of 2d neurons that hands its input on: x = ReLU(x) - ReLU(-x), whatever is attended to."""
    one, none = jnp.eye(width, dtype=dtype), jnp.zeros((width, width), dtype=dtype)
    W = jnp.concatenate([jnp.concatenate([one, -one]), jnp.zeros((2 * width, width), dtype=dtype)], axis=1)
    return Block(none, W, jnp.concatenate([one, -one], axis=1))
