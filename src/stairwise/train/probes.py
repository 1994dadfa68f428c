"""Probes inside the training loop: small pytrees in a stage's state, updated with (what is seen, tick).

A probe watches one scalar or an array of them (a loss, every head, every unit) and costs a comparison per tick.

>>> probe = FirstPassage.start()
>>> for tick, loss in enumerate([0.9, 0.4, 0.6, 0.3]):
...     probe = probe.update(jnp.asarray(loss < 0.5, dtype=bool), tick)
>>> int(probe.tick), bool(probe.reached)
(1, True)
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

NEVER = -1


class FirstPassage(eqx.Module):
    """The first tick at which a condition holds, NEVER (-1) before; once set it is frozen."""

    tick: Int[Array, "*shape"]

    @staticmethod
    def start(shape: tuple[int, ...] = ()) -> "FirstPassage":
        """A probe that has seen nothing, one entry for each condition it will watch."""
        return FirstPassage(jnp.full(shape, NEVER, dtype=jnp.int32))

    def update(self, condition: Bool[Array, "*shape"], tick: int | Int[Array, ""]) -> "FirstPassage":
        """Note `tick` where the condition holds for the first time."""
        first = condition & (self.tick == NEVER)
        return FirstPassage(jnp.where(first, jnp.asarray(tick, dtype=jnp.int32), self.tick))

    @property
    def reached(self) -> Bool[Array, "*shape"]:
        return self.tick != NEVER

    def winner(self) -> Int[Array, "*leading"]:
        """Which entry of the last axis passed first: the lowest index among equals, NEVER where none has."""
        late = jnp.iinfo(jnp.int32).max
        first = jnp.argmin(jnp.where(self.reached, self.tick, late), axis=-1).astype(jnp.int32)
        return jnp.where(jnp.any(self.reached, axis=-1), first, NEVER)


class Extremes(eqx.Module):
    """The smallest and the largest value so far, and the tick at which each was first seen; NaN is not a value."""

    low: Float[Array, "*shape"]
    high: Float[Array, "*shape"]
    low_tick: Int[Array, "*shape"]
    high_tick: Int[Array, "*shape"]

    @staticmethod
    def start(shape: tuple[int, ...] = (), dtype=jnp.float32) -> "Extremes":
        """No value yet: low is +infinity, high is -infinity."""
        never = jnp.full(shape, NEVER, dtype=jnp.int32)
        infinity = jnp.full(shape, jnp.inf, dtype=dtype)
        return Extremes(infinity, -infinity, never, never)

    def update(self, value: Float[Array, "*shape"], tick: int | Int[Array, ""]) -> "Extremes":
        """Take one more value into account."""
        tick = jnp.asarray(tick, dtype=jnp.int32)
        lower, higher = value < self.low, value > self.high
        return Extremes(
            jnp.where(lower, value, self.low),
            jnp.where(higher, value, self.high),
            jnp.where(lower, tick, self.low_tick),
            jnp.where(higher, tick, self.high_tick),
        )
