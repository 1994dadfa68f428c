"""Training in looks: some steps of Adam, then an evaluation; the first look that is good enough is the hit.

Every crossing trains this way, so that samples to success mean the same thing in all of them.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import optax
from jaxtyping import Array, Float

from stairwise.measure.probes import FirstPassage
from stairwise.train.stage import Stage

ADAM = optax.scale_by_adam(b1=0.9, b2=0.999, eps=1e-8)


class Learning(NamedTuple):
    """The model, Adam's memory, what the last look found, and the look of the first success."""

    model: Any
    memory: Any
    found: Mapping[str, Float[Array, ""]]
    hit: FirstPassage


def in_looks(
    *,
    init: Callable[[Any], Any],
    loss: Callable[[Any, Any, Array], Float[Array, ""]],
    look: Callable[[Any, Any], Mapping[str, Float[Array, ""]]],
    steps: int,
    looks: int,
    threshold: float,
    measure_at: tuple[int, ...],
    stop: bool,
) -> Stage:
    """A tick is `steps` steps of Adam at `trial.config.rate` and a look; `stop` ends the run at its first success.

    init(trial) -> model;  loss(trial, model, number) of the batch that step `number` sees;
    look(trial, model) -> metrics, of which "accuracy" must reach the threshold.
    """

    def start(trial, carry, key) -> Learning:
        model = init(trial)
        return Learning(model, ADAM.init(model), look(trial, model), FirstPassage.start())

    def tick(trial, state: Learning, key, t) -> Learning:
        def step(place, trained):
            model, memory = trained
            gradient = jax.grad(lambda model: loss(trial, model, t * steps + place))(model)
            updates, memory = ADAM.update(gradient, memory)
            return jax.tree.map(lambda p, u: p - trial.config.rate * u, model, updates), memory

        model, memory = jax.lax.fori_loop(0, steps, step, (state.model, state.memory))
        found = look(trial, model)
        return Learning(model, memory, found, state.hit.update(found["accuracy"] >= threshold, t + 1))

    return Stage(
        name="train",
        init=start,
        tick=tick,
        max_ticks=looks,
        measure=lambda trial, state, key, t: {**state.found, "hit": state.hit.tick},
        measure_at=measure_at,
        done=(lambda trial, state: state.hit.reached) if stop else None,
    )
