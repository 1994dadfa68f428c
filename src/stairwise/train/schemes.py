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
>>> Program([stage]).run([Member(seed=0)])[0].arrays["train/model"].round(2)
array([ 1., -2.], dtype=float32)
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from stairwise.tasks.protocols import ANSWER, Sentence, SequenceTask, Task, VectorTask, sentence_loss
from stairwise.train.gradient import Optimizer, Training, fresh, gradient_training
from stairwise.train.keys import at, role, role_key
from stairwise.train.stage import Stage, every

Sampler = Callable[[PRNGKeyArray], Any]


def online(
    *,
    init: Callable[[PRNGKeyArray], Any],
    sample: Sampler,
    loss: Callable[[Any, Any], Float[Array, ""]],
    optimizer: Optimizer,
    batch: int,
    steps: int,
    measure: Mapping[str, Callable[[Any, PRNGKeyArray], Array]] | None = None,
    measure_every: int = 100,
    micro_batches: int = 1,
    annotate: Callable[[Any, Any], Any] | None = None,
    **more: Any,
) -> Stage:
    """Mini-batch training on fresh examples.

    optimizer   an Optax transformation, or a function of the trial's config that gives one (for traced rates)
    measure     {name: f(model, key)}; the batch loss is always measured as "loss"
    annotate    annotate(annotator, example) -> example, by the model as it was when the stage began
    more        what else `gradient_training` takes: name, until, train_only, keep, ...
    """

    def draw(trial, annotator, model, key, n):
        examples = fresh(lambda trial, key: sample(key), batch)(trial, annotator, model, key, n)
        return examples if annotate is None else jax.vmap(partial(annotate, annotator))(examples)

    def metrics(trial, state: Training, key, t):
        return {"loss": state.loss} | {name: f(state.model, role(key, name)) for name, f in (measure or {}).items()}

    return gradient_training(
        model=lambda trial, key: init(role(key, "model")),
        batch=draw,
        loss=lambda trial, model, examples, key: jnp.mean(jax.vmap(partial(loss, model))(examples)),
        optimizer=optimizer,
        steps=steps,
        micro_batches=micro_batches,
        prepare=None if annotate is None else lambda trial, model, key: model,
        measure=metrics,
        measure_at=every(measure_every * micro_batches, steps * micro_batches)[1:],
        **more,
    )


def supervised(task: Task | Callable[[Any], Task], batch: int, supervision: str = ANSWER) -> dict[str, Any]:
    """What `gradient_training` needs to train on a task: fresh batches, and the loss of a model that reads them.

    A model maps the tokens of a `SequenceTask` to logits, or the inputs of a `VectorTask` to a vector per position, of
    which the last is the answer (squared loss, halved). Where the secret depends on the seed, `task` is a function of
    the trial.

        gradient_training(**supervised(task, batch=64, supervision="chain"), model=..., optimizer=..., steps=...)
    """

    def lesson(trial, key):
        chosen = task if isinstance(task, Task) else task(trial)
        example = chosen.sample(role(key, "example"))
        if isinstance(chosen, SequenceTask):
            return chosen.sentence(example, supervision, role(key, "sentence"))
        if isinstance(chosen, VectorTask) and supervision == ANSWER:
            return chosen.inputs(example), chosen.answer(example)
        raise ValueError(f"{type(chosen).__name__} tells no sentences, so it has no supervision={supervision}")

    def one(model, lesson) -> Float[Array, ""]:
        if isinstance(lesson, Sentence):
            return sentence_loss(model(lesson.tokens), lesson)
        inputs, answer = lesson
        return 0.5 * jnp.sum((model(inputs)[-1] - answer) ** 2)

    return {
        "batch": fresh(lesson, batch),
        "loss": lambda trial, model, lessons, key: jnp.mean(jax.vmap(partial(one, model))(lessons)),
    }


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
    return [online(name=name, sample=sample, annotate=annotate, **common) for name, sample in samplers.items()]
