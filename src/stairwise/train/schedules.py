"""Learning rates as functions of the step, whose peak may be traced (Optax's own warm-up refuses a traced one).

Steps count from 0, as Optax counts them: `optax.adam(warm_up_cosine(peak, warm_up, steps))`. Schedules that Optax has
and that take a traced peak are used as they are, for example `optax.cosine_decay_schedule`.

>>> rate = warm_up_cosine(2.0, warm_up=2, steps=6, final=0.1)
>>> [round(float(rate(step)), 3) for step in range(7)]
[1.0, 2.0, 2.0, 1.736, 1.1, 0.464, 0.2]
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

Number = Any  # a Python number or a traced scalar
Schedule = Callable[[Any], Any]


def constant(peak: Number) -> Schedule:
    """The same rate at every step."""
    return lambda step: peak


def warm_up(peak: Number, steps: int) -> Schedule:
    """Up linearly: (step + 1) / steps of the peak, and the peak from then on."""
    return lambda step: peak * jnp.minimum((step + 1) / max(1, steps), 1)


def warm_up_cosine(peak: Number, warm_up: int, steps: int, final: Number = 0.0) -> Schedule:
    """Up linearly over `warm_up` steps, then a cosine from the peak to `final` times the peak at `steps`."""

    def rate(step):
        done = jnp.clip((step - warm_up) / max(1, steps - warm_up), 0, 1)
        cosine = final + (1 - final) * 0.5 * (1 + jnp.cos(jnp.pi * done))
        return peak * jnp.minimum((step + 1) / max(1, warm_up), cosine)

    return rate


def warm_up_linear(peak: Number, warm_up: int, steps: int) -> Schedule:
    """Up linearly over `warm_up` steps, then down linearly to 0 at `steps`, and 0 from then on."""
    rising, falling = max(1, warm_up), max(1, steps - warm_up)

    def rate(step):
        left = jnp.maximum(steps - step, 0)
        return peak * jnp.minimum((step + 1) / rising, left / falling).astype(jnp.float32)

    return rate


def linear_decay(peak: Number, steps: int, share: Number = 1.0) -> Schedule:
    """Down linearly from the peak; `share` of it is gone at `steps`, and no more of it after that."""
    return lambda step: peak * (1 - share * jnp.minimum(step, steps) / steps)


def drop(peak: Number, at: Number, by: Number) -> Schedule:
    """The peak, divided by `by` from step `at` on."""
    return lambda step: peak / jnp.where(step >= at, by, 1.0)


def descent(rate: Schedule) -> optax.GradientTransformation:
    """-rate(step) times the updates, rounded once; `optax.adam` rounds the rate to the weights' precision before."""

    def init(params: Any) -> Any:
        return optax.ScaleByScheduleState(jnp.zeros((), dtype=jnp.int32))

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        now = rate(state.count)
        scaled = jax.tree.map(lambda change: (-now * change).astype(change.dtype), updates)
        return scaled, optax.ScaleByScheduleState(optax.safe_increment(state.count))

    return optax.GradientTransformation(init, update)
