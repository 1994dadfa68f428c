"""The minimal gated recurrent unit, whose gate looks at the token alone, so that a scan computes all states.

    z_t = sigmoid(W_z x_t),    h_t = (1 - z_t) h_{t-1} + z_t W_h x_t

Feng, Tung, Ahmed, Bengio, Hajimirsadeghi, "Were RNNs All We Needed?" (2024).
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from stairwise.nn.attention import Linear, Scale, normals
from stairwise.nn.mixers.recurrence import Recurrence, linear_scan, wide


class MinGRU(Recurrence):
    """A state as wide as the stream."""

    inputs: Linear
    out: Linear

    def __init__(self, width: int, *, std: Scale, out_std: Scale, dtype: str, key: PRNGKeyArray):
        inputs, out = normals(key, (width, 2 * width), (width, width))
        self.inputs = Linear((std * inputs).astype(dtype))
        self.out = Linear((out_std * out).astype(dtype))

    def whole(self, x: Float[Array, "length width"], present: Bool[Array, " length"]) -> Float[Array, "length width"]:
        gate, candidate = self._project(x)
        gate = jnp.where(present[:, None], gate, 0)
        return self.out(linear_scan(1 - gate, gate * candidate).astype(x.dtype))

    def empty(self, dtype: Any) -> Any:
        return jnp.zeros(len(self.out.weight), dtype=wide(dtype))

    def advance(self, x: Float[Array, " width"], state: Any) -> tuple[Float[Array, " width"], Any]:
        gate, candidate = self._project(x)
        state = (1 - gate) * state + gate * candidate
        return self.out(state.astype(x.dtype)), state

    def _project(self, x: Float[Array, "*places width"]) -> tuple[Array, Array]:
        gate, candidate = jnp.split(self.inputs(x).astype(wide(x.dtype)), 2, axis=-1)
        return jax.nn.sigmoid(gate), candidate
