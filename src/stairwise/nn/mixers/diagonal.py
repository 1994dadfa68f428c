"""A selective diagonal state-space layer: every channel has several states, each fading at a rate that the token sets.

    h_t[c, n] = a_t[c, n] h_{t-1}[c, n] + delta_t[c] B_t[n] u_t[c],    a = exp(-delta_t[c] A[c, n]) in (0, 1)
    y_t[c]    = sum_n C_t[n] h_t[c, n] + D[c] u_t[c]

with u, B, C linear in x_t, delta = softplus of a linear map, A = exp(log A) > 0 from 1, 2, ..., N. Signed: 2 a - 1 in
(-1, 1) takes the place of a.

Gu, Dao, "Mamba" (2023); Grazzi et al. (2025) for the signs.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from stairwise.nn.attention import Linear, Scale, normals
from stairwise.nn.mixers.recurrence import Recurrence, linear_scan, wide

STATES = 8
START = -2.25  # softplus of it is 0.1: at the start the slowest state forgets a tenth per token


class DiagonalStateSpace(Recurrence):
    """Width times STATES numbers that never meet but in the output."""

    inputs: Linear
    rate: Linear
    read_write: Linear
    log_decay: Float[Array, "width states"]
    skip: Float[Array, " width"]
    out: Linear
    signed: bool = eqx.field(static=True)

    def __init__(self, width: int, *, signed: bool = False, std: Scale, out_std: Scale, dtype: str, key: PRNGKeyArray):
        inputs, rate, read_write, out = normals(
            key, (width, width), (width, width), (width, 2 * STATES), (width, width)
        )
        self.inputs = Linear((std * inputs).astype(dtype))
        self.rate = Linear((std * rate).astype(dtype))
        self.read_write = Linear((std * read_write).astype(dtype))
        self.log_decay = jnp.tile(jnp.log(jnp.arange(1, STATES + 1, dtype=dtype)), (width, 1))
        self.skip = jnp.ones(width, dtype=dtype)
        self.out = Linear((out_std * out).astype(dtype))
        self.signed = signed

    def whole(self, x: Float[Array, "length width"], present: Bool[Array, " length"]) -> Float[Array, "length width"]:
        decay, update, read, own = self._project(x)
        there = present[:, None, None]
        states = linear_scan(jnp.where(there, decay, 1), jnp.where(there, update, 0))
        return self._read(states, read, own, x.dtype)

    def empty(self, dtype: Any) -> Any:
        return jnp.zeros(self.log_decay.shape, dtype=wide(dtype))

    def advance(self, x: Float[Array, " width"], state: Any) -> tuple[Float[Array, " width"], Any]:
        decay, update, read, own = self._project(x)
        state = decay * state + update
        return self._read(state, read, own, x.dtype), state

    def _project(self, x: Float[Array, "*places width"]) -> tuple[Array, Array, Array, Array]:
        """a_t, what is added, C_t, and u_t."""
        dtype = wide(x.dtype)
        own = self.inputs(x).astype(dtype)
        delta = jax.nn.softplus(self.rate(x).astype(dtype) + START)[..., None]
        write, read = jnp.split(self.read_write(x).astype(dtype)[..., None, :], 2, axis=-1)
        decay = jnp.exp(-delta * jnp.exp(self.log_decay.astype(dtype)))
        return 2 * decay - 1 if self.signed else decay, delta * write * own[..., None], read, own

    def _read(self, states: Array, read: Array, own: Array, dtype: Any) -> Float[Array, "*places width"]:
        told = jnp.sum(states * read, axis=-1) + self.skip.astype(own.dtype) * own
        return self.out(told.astype(dtype))
