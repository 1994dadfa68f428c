"""Linear attention: softmax's kernel replaced by an inner product of features, so that sums over the past suffice.

    S_t = S_{t-1} + phi(k_t) v_t^T,    z_t = z_{t-1} + phi(k_t),    phi(x) = elu(x) + 1
    o_t = S_t^T phi(q_t) / (<z_t, phi(q_t)> + 1e-6)                 per head

Katharopoulos, Vyas, Pappas, Fleuret, "Transformers are RNNs" (2020).
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from stairwise.nn.attention import Linear, Scale, normals
from stairwise.nn.mixers.recurrence import Recurrence, in_heads, wide

FLOOR = 1e-6


class LinearAttention(Recurrence):
    """Sums of keys and of key-value products."""

    qkv: Linear
    out: Linear
    heads: int = eqx.field(static=True)

    def __init__(self, width: int, heads: int, *, std: Scale, out_std: Scale, dtype: str, key: PRNGKeyArray):
        qkv, out = normals(key, (width, 3 * width), (width, width))
        self.qkv = Linear((std * qkv).astype(dtype))
        self.out = Linear((out_std * out).astype(dtype))
        self.heads = heads

    def whole(self, x: Float[Array, "length width"], present: Bool[Array, " length"]) -> Float[Array, "length width"]:
        query, key, value = self._project(x)
        scores = jnp.einsum("qhd,khd->hqk", query, key)
        seen = jnp.tril(jnp.broadcast_to(present, (len(x), len(x))))
        scores = jnp.where(seen, scores, 0)
        total = jnp.sum(scores, axis=-1).T[..., None]
        mixed = jnp.einsum("hqk,khd->qhd", scores, value) / (total + FLOOR)
        return self.out(mixed.reshape(len(x), -1).astype(x.dtype))

    def empty(self, dtype: Any) -> Any:
        width = len(self.out.weight) // self.heads
        sums = jnp.zeros((self.heads, width, width), dtype=wide(dtype))
        return sums, sums[..., 0]

    def advance(self, x: Float[Array, " width"], state: Any) -> tuple[Float[Array, " width"], Any]:
        query, key, value = self._project(x)
        sums, total = state[0] + key[:, :, None] * value[:, None, :], state[1] + key
        mixed = jnp.einsum("hd,hde->he", query, sums) / (jnp.sum(query * total, axis=-1, keepdims=True) + FLOOR)
        return self.out(mixed.reshape(-1).astype(x.dtype)), (sums, total)

    def _project(self, x: Float[Array, "*places width"]) -> list[Float[Array, "*places heads head_width"]]:
        query, key, value = (in_heads(part, self.heads) for part in jnp.split(self.qkv(x), 3, axis=-1))
        return [jax.nn.elu(query) + 1, jax.nn.elu(key) + 1, value]
