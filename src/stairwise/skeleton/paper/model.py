"""One head of softmax attention whose only weight is its query, f(v, m) = sum_i a_i v_i.

The key of token i is k_i = (v_i, 1{i = m}), its value v_i, and a = softmax(<q, k_i> / sqrt 2).

To change: the architecture, as an `equinox.Module` that maps one example to its output. `stairwise.nn` has attention,
positions and the standard transformer.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from stairwise.nn.attention import attention_weights

from stairwise.skeleton.paper.task import Example


class MarkAttention(eqx.Module):
    """The query q = (what it asks of the value, what it asks of the mark)."""

    query: Float[Array, "2"]

    def __call__(self, example: Example) -> Float[Array, ""]:
        """The attended value."""
        return self.attention(example) @ example.values

    def attention(self, example: Example) -> Float[Array, " length"]:
        """How much each token is attended to."""
        marked = jax.nn.one_hot(example.mark, example.values.shape[0], dtype=example.values.dtype)
        keys = jnp.stack([example.values, marked], axis=1)
        return attention_weights(self.query[None, None], keys[:, None])[0, 0]


def loss(model: MarkAttention, example: Example) -> Float[Array, ""]:
    """Half the squared error, 1/2 (f(v, m) - v_m)^2."""
    return (model(example) - example.values[example.mark]) ** 2 / 2
