"""Gated linear attention: the past fades, coordinate by coordinate, at a rate that each token sets.

    S_t = diag(alpha_t) S_{t-1} + k_t v_t^T,    alpha_t = sigmoid(W x_t)^{1/16} in (0, 1)
    o_t = S_t^T q_t / sqrt(d), divided by its root mean square      per head

Yang, Wang, Shen, Panda, Kim, "Gated Linear Attention Transformers with Hardware-Efficient Training" (2024).
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from stairwise.nn.attention import Linear, Scale, normals
from stairwise.nn.mixers.recurrence import Recurrence, in_heads, linear_scan, merged, wide

TEMPERATURE = 16


class GatedLinearAttention(Recurrence):
    """A matrix per head whose rows fade."""

    qkv: Linear
    gate: Linear
    out: Linear
    heads: int = eqx.field(static=True)

    def __init__(self, width: int, heads: int, *, std: Scale, out_std: Scale, dtype: str, key: PRNGKeyArray):
        qkv, gate, out = normals(key, (width, 3 * width), (width, width), (width, width))
        self.qkv = Linear((std * qkv).astype(dtype))
        self.gate = Linear((std * gate).astype(dtype))
        self.out = Linear((out_std * out).astype(dtype))
        self.heads = heads

    def whole(self, x: Float[Array, "length width"], present: Bool[Array, " length"]) -> Float[Array, "length width"]:
        query, key, value, fade = self._project(x)
        there = present[:, None, None]
        key, fade = jnp.where(there, key, 0), jnp.where(there, fade, 1)
        states = linear_scan(fade[..., None], key[..., :, None] * value[..., None, :])
        return self._read(query, states, x.dtype)

    def empty(self, dtype: Any) -> Any:
        width = len(self.out.weight) // self.heads
        return jnp.zeros((self.heads, width, width), dtype=wide(dtype))

    def advance(self, x: Float[Array, " width"], state: Any) -> tuple[Float[Array, " width"], Any]:
        query, key, value, fade = self._project(x)
        state = fade[..., None] * state + key[:, :, None] * value[:, None, :]
        return self._read(query, state, x.dtype), state

    def _project(self, x: Float[Array, "*places width"]) -> list[Float[Array, "*places heads head_width"]]:
        parts = [in_heads(part, self.heads) for part in jnp.split(self.qkv(x), 3, axis=-1)]
        return [*parts, jax.nn.sigmoid(in_heads(self.gate(x), self.heads)) ** (1 / TEMPERATURE)]

    def _read(self, query: Array, states: Array, dtype: Any) -> Float[Array, "*places width"]:
        read = jnp.einsum("...hd,...hde->...he", query, states) / query.shape[-1] ** 0.5
        return self.out(merged(read, dtype))
