"""The LSTM, which has no parallel form: its gates look at the state.

    i, f, g, o = W x_t + R h_{t-1} + b
    c_t = sigmoid(f + 1) c_{t-1} + sigmoid(i) tanh(g),    h_t = sigmoid(o) tanh(c_t)

Hochreiter, Schmidhuber (1997); the 1 keeps the memory open at the start.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from stairwise.nn.attention import Linear, Scale, normals
from stairwise.nn.mixers.recurrence import Recurrence, wide


class LSTM(Recurrence):
    """Hidden state and cell, each as wide as the stream."""

    inputs: Linear
    again: Float[Array, "width gates"]
    out: Linear

    def __init__(self, width: int, *, std: Scale, out_std: Scale, dtype: str, key: PRNGKeyArray):
        inputs, again, out = normals(key, (width, 4 * width), (width, 4 * width), (width, width))
        self.inputs = Linear((std * inputs).astype(dtype))
        self.again = (std * again).astype(dtype)
        self.out = Linear((out_std * out).astype(dtype))

    def whole(self, x: Float[Array, "length width"], present: Bool[Array, " length"]) -> Float[Array, "length width"]:
        def step(state, item):
            given, there = item
            after = self._next(given, state)
            state = jax.tree.map(lambda new, old: jnp.where(there, new, old), after, state)
            return state, after[0]

        _, hidden = lax.scan(step, self.empty(x.dtype), (self.inputs(x), present))
        return self.out(hidden.astype(x.dtype))

    def empty(self, dtype: Any) -> Any:
        nothing = jnp.zeros(len(self.again), dtype=wide(dtype))
        return nothing, nothing

    def advance(self, x: Float[Array, " width"], state: Any) -> tuple[Float[Array, " width"], Any]:
        state = self._next(self.inputs(x), state)
        return self.out(state[0].astype(x.dtype)), state

    def _next(self, given: Float[Array, " gates"], state: Any) -> Any:
        hidden, cell = state
        gates = given.astype(hidden.dtype) + hidden @ self.again.astype(hidden.dtype)
        entry, keep, new, tell = jnp.split(gates, 4)
        cell = jax.nn.sigmoid(keep + 1) * cell + jax.nn.sigmoid(entry) * jnp.tanh(new)
        return jax.nn.sigmoid(tell) * jnp.tanh(cell), cell
