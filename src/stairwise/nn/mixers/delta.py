"""DeltaNet, and products of several Householder steps per token.

    S <- (I - beta_j k_j k_j^T) S + beta_j k_j v_j^T     for j = 1..m, |k_j| = 1
    o_t = S_t^T q_t, divided by its root mean square     per head

A step's eigenvalue along k_j is 1 - beta_j: in [0, 1] where beta = sigmoid, in [-1, 1] where it is twice that. With
beta = 2 a step is a reflection, so a token with m steps can act as a product of m reflections.

Whole sequences are taken in chunks. Within one, step i adds k_i u_i^T to the state, where the u solve a triangular
system:

    u_i = beta_i (v_i - S_0^T k_i - sum_{j<i} <k_i, k_j> u_j)

Yang, Wang, Zhang, Shen, Kim, "Parallelizing Linear Transformers with the Delta Rule over Sequence Length" (2024);
Siems et al., "DeltaProduct" (2025); Grazzi et al., "Unlocking State-Tracking in Linear RNNs Through Negative
Eigenvalues" (2025).
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from stairwise.nn.attention import Linear, Scale, normals
from stairwise.nn.mixers.recurrence import Recurrence, in_heads, merged, wide

CHUNK = 64  # tokens of one triangular system


class Steps(NamedTuple):
    """What tokens ask for, and the m steps that each makes."""

    query: Float[Array, "*places heads head_width"]
    keys: Float[Array, "*places steps heads head_width"]
    values: Float[Array, "*places steps heads head_width"]
    strengths: Float[Array, "*places steps heads"]


class DeltaNet(Recurrence):
    """A matrix per head, written to by the delta rule."""

    query: Linear
    key_value: Linear
    strength: Linear
    out: Linear
    heads: int = eqx.field(static=True)
    householders: int = eqx.field(static=True)
    signed: bool = eqx.field(static=True)

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        householders: int = 1,
        signed: bool = False,
        std: Scale,
        out_std: Scale,
        dtype: str,
        key: PRNGKeyArray,
    ):
        query, key_value, strength, out = normals(
            key, (width, width), (width, 2 * householders * width), (width, householders * heads), (width, width)
        )
        self.query = Linear((std * query).astype(dtype))
        self.key_value = Linear((std * key_value).astype(dtype))
        self.strength = Linear((std * strength).astype(dtype))
        self.out = Linear((out_std * out).astype(dtype))
        self.heads = heads
        self.householders = householders
        self.signed = signed

    def whole(self, x: Float[Array, "length width"], present: Bool[Array, " length"]) -> Float[Array, "length width"]:
        steps = self._project(x)
        steps = steps._replace(strengths=jnp.where(present[:, None, None], steps.strengths, 0))
        chunks = -(-len(x) // CHUNK)
        size = -(-len(x) // chunks)

        def cut(part: Array) -> Array:  # padding has strength 0, which changes no state
            filled = jnp.pad(part, [(0, chunks * size - len(x)), *[(0, 0)] * (part.ndim - 1)])
            return filled.reshape(chunks, size, *part.shape[1:])

        _, read = lax.scan(chunk, self.empty(x.dtype), jax.tree.map(cut, steps))
        return self.out(merged(read.reshape(chunks * size, *read.shape[2:])[: len(x)], x.dtype))

    def empty(self, dtype: Any) -> Any:
        width = len(self.out.weight) // self.heads
        return jnp.zeros((self.heads, width, width), dtype=wide(dtype))

    def advance(self, x: Float[Array, " width"], state: Any) -> tuple[Float[Array, " width"], Any]:
        query, keys, values, strengths = self._project(x)
        for key, value, strength in zip(keys, values, strengths, strict=True):
            error = value - jnp.einsum("hd,hde->he", key, state)
            state = state + strength[:, None, None] * key[:, :, None] * error[:, None, :]
        return self.out(merged(jnp.einsum("hd,hde->he", query, state), x.dtype)), state

    def _project(self, x: Float[Array, "*places width"]) -> Steps:
        places, steps = x.shape[:-1], self.householders
        key, value = jnp.split(self.key_value(x), 2, axis=-1)
        strength = self.strength(x).reshape(*places, steps, self.heads).astype(wide(x.dtype))
        return Steps(
            unit(in_heads(self.query(x), self.heads)),
            unit(in_heads(key.reshape(*places, steps, -1), self.heads)),
            in_heads(value.reshape(*places, steps, -1), self.heads),
            (2 if self.signed else 1) * jax.nn.sigmoid(strength),
        )


def unit(vectors: Float[Array, "*places width"]) -> Float[Array, "*places width"]:
    """Vectors of norm 1, or below where they are tiny."""
    return vectors * lax.rsqrt(jnp.sum(vectors**2, axis=-1, keepdims=True) + 1e-12)


def chunk(
    state: Float[Array, "heads head_width head_width"], steps: Steps
) -> tuple[Float[Array, "heads head_width head_width"], Float[Array, "length heads head_width"]]:
    """The state after some tokens, and what each of them reads."""
    length, count = steps.strengths.shape[:2]
    query = jnp.moveaxis(steps.query, 1, 0)
    keys, values = (jnp.moveaxis(part.reshape(length * count, *part.shape[2:]), 1, 0) for part in steps[1:3])
    strengths = steps.strengths.reshape(length * count, -1).T[..., None]
    system = jnp.eye(length * count, dtype=keys.dtype) + jnp.tril(strengths * (keys @ jnp.swapaxes(keys, 1, 2)), -1)
    updates = solve_triangular(system, strengths * (values - keys @ state), lower=True, unit_diagonal=True)
    token = jnp.arange(length * count, dtype=jnp.int32) // count
    seen = token <= jnp.arange(length, dtype=jnp.int32)[:, None]
    read = query @ state + jnp.where(seen, query @ jnp.swapaxes(keys, 1, 2), 0) @ updates
    return state + jnp.swapaxes(keys, 1, 2) @ updates, jnp.moveaxis(read, 0, 1)
