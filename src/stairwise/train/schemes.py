"""Schemes make stages from a task and a model: online or finite data, curricula, mixtures, self-labelling.

All take per-example functions: `sample(key) -> example`, `loss(model, example) -> scalar`, `init(key) -> model`; any
pytree of arrays is a model. A later stage goes on with the model that the stage before it hands over.

>>> import jax, jax.numpy as jnp, optax
>>> from stairwise.train.loop import Member, Program
>>> stage = online(
...     init=lambda key: jnp.zeros(2, dtype=jnp.float32),
...     sample=lambda key: jax.random.normal(key, (2,), dtype=jnp.float32),
...     loss=lambda w, x: 0.5 * ((w - jnp.array([1.0, -2.0], dtype=jnp.float32)) @ x) ** 2,
...     optimizer=optax.sgd(0.1), batch=64, steps=200,
... )
>>> Program([stage]).run([Member(seed=0)])[0].arrays["train/0"].round(2)
array([ 1., -2.], dtype=float32)
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from stairwise.train.keys import at, role, role_key
from stairwise.train.stage import Stage, every

Sampler = Callable[..., Any]
Optimizer = optax.GradientTransformation | Callable[[Any], optax.GradientTransformation]


class Training(NamedTuple):
    """The state of a gradient scheme; `annotator` is the frozen model that labels data, where there is one."""

    model: Any
    optimizer: Any
    gradient: Any
    loss: Float[Array, ""]
    annotator: Any


def online(
    *,
    init: Callable[[PRNGKeyArray], Any],
    sample: Sampler,
    loss: Callable[[Any, Any], Float[Array, ""]],
    optimizer: Optimizer,
    batch: int,
    steps: int,
    name: str = "train",
    micro_batches: int = 1,
    measure: Mapping[str, Callable[[Any, PRNGKeyArray], Array]] | None = None,
    measure_every: int = 100,
    done: Callable[[Training], Bool[Array, ""]] | None = None,
    trainable: Callable[[Any], Any] | None = None,
    annotated: bool = False,
) -> Stage:
    """Mini-batch training on fresh examples.

    optimizer      an Optax transformation, or a function of the trial's config that gives one (for traced rates)
    micro_batches  ticks that accumulate one gradient step; `steps` counts steps, a tick sees `batch` examples
    measure        {name: f(model, key)}; the batch loss is always measured as "loss"
    trainable      model -> pytree of booleans (a prefix of it): what is False keeps its value
    annotated      sample(key, annotator) also sees the model as it was when the stage began
    """
    make = optimizer if callable(optimizer) else lambda config: optimizer

    def start(trial, carry, key):
        model = init(role(key, "model")) if carry is None else carry
        nothing = jax.tree.map(jnp.zeros_like, model)
        annotator = model if annotated else None
        return Training(model, make(trial.config).init(model), nothing, jnp.float32(0), annotator)

    def tick(trial, state: Training, key, t):
        draw = partial(_draw, sample, state.annotator, annotated, key)
        examples = jax.vmap(draw)(jnp.arange(batch, dtype=jnp.int32))
        value, gradient = jax.value_and_grad(lambda m: jnp.mean(jax.vmap(partial(loss, m))(examples)))(state.model)
        total = jax.tree.map(lambda a, g: a + g / micro_batches, state.gradient, gradient)
        if micro_batches == 1:
            return _step(make(trial.config), trainable, state._replace(loss=value), gradient)
        waiting = state._replace(loss=value, gradient=total)
        return jax.lax.cond(
            (t + 1) % micro_batches == 0,
            lambda s: _step(make(trial.config), trainable, s, s.gradient),
            lambda s: s,
            waiting,
        )

    def metrics(trial, state: Training, key, t):
        extra = {label: f(state.model, role(key, label)) for label, f in (measure or {}).items()}
        return {"loss": state.loss} | extra

    def finish(trial, state: Training, key):
        return state.model, {str(k): leaf for k, leaf in enumerate(jax.tree.leaves(state.model))}

    ticks = steps * micro_batches
    return Stage(
        name=name,
        init=start,
        tick=tick,
        max_ticks=ticks,
        measure=metrics,
        measure_at=every(measure_every * micro_batches, ticks)[1:],
        done=None if done is None else lambda trial, state: done(state),
        finish=finish,
    )


def _draw(sample: Sampler, annotator, annotated: bool, key, b):
    return sample(at(key, b), annotator) if annotated else sample(at(key, b))


def _step(optimizer: optax.GradientTransformation, trainable, state: Training, gradient) -> Training:
    updates, memory = optimizer.update(gradient, state.optimizer, state.model)
    if trainable is not None:
        mask = trainable(state.model)
        updates = jax.tree.map(lambda keep, part: jax.tree.map(lambda u: jnp.where(keep, u, 0), part), mask, updates)
    model = optax.apply_updates(state.model, updates)
    return state._replace(model=model, optimizer=memory, gradient=jax.tree.map(jnp.zeros_like, state.gradient))


def finite(sample: Sampler, samples: int, seed: int = 0) -> Sampler:
    """A finite data set without storage: example i is a function of the data seed and i; drawn with replacement."""
    if samples < 1:
        raise ValueError(f"samples={samples} must be at least 1 (finite)")
    data = role_key(seed, "finite data")

    def draw(key):
        index = jax.random.randint(key, (), 0, samples, dtype=jnp.int32)
        return sample(at(data, index))

    return draw


def mixture(samplers: Sequence[Sampler], weights: Sequence[float] | None = None) -> Sampler:
    """An example of one of several distributions of the same shape, chosen with the given weights (default: equal)."""
    shares = jnp.ones(len(samplers), dtype=jnp.float32) if weights is None else jnp.asarray(weights, dtype=jnp.float32)

    def draw(key):
        which = jax.random.choice(role(key, "which"), len(samplers), p=shares / jnp.sum(shares))
        return jax.lax.switch(which, samplers, role(key, "example"))

    return draw


def curriculum(samplers: Mapping[str, Sampler], **common: Any) -> list[Stage]:
    """One stage after another along the difficulty axis, each going on with the model of the one before."""
    return [online(name=name, sample=sample, **common) for name, sample in samplers.items()]


def self_training(samplers: Mapping[str, Sampler], annotate: Callable[[Any, Any], Any], **common: Any) -> list[Stage]:
    """Stages whose labels come from the model as it was when the stage began: annotate(model, example) -> example."""

    def labelled(sample: Sampler) -> Sampler:
        return lambda key, annotator: annotate(annotator, sample(key))

    return [online(name=name, sample=labelled(sample), annotated=True, **common) for name, sample in samplers.items()]
