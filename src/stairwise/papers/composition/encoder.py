"""A standard transformer on composition (Figure 3 right): a mixture of hops against the hardest hop alone.

The hop to compute is the first token; the answer hop_i^r(j) is read at the token that holds sigma_i(j). The pool of
training examples is fixed: example n is a function of the seed and n, and its hop is that of n modulo their number.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Integer, PRNGKeyArray

from stairwise.measure.accuracy import share
from stairwise.nn.transformer import Transformer
from stairwise.papers.composition.config import Encoder
from stairwise.papers.composition.rules import cross_entropy
from stairwise.papers.composition.task import Composition, token_form
from stairwise.papers.composition.train import hidden_of
from stairwise.train.keys import at, role
from stairwise.train.loop import RunningTrial
from stairwise.train.stage import Stage, every


class State(NamedTuple):
    """The transformer, Adam's memory, and the loss of the last batch."""

    model: Any
    optimizer: Any
    loss: Float[Array, ""]


class Lesson(NamedTuple):
    """What the transformer reads and what it should say at every value token."""

    tokens: Integer[Array, " length"]
    labels: Integer[Array, " values"]


def training(config: Encoder) -> list[Stage]:
    """The one stage of training."""
    return [
        Stage(
            name="train",
            init=init,
            tick=tick,
            max_ticks=config.steps,
            measure=measure,
            measure_at=every(config.measure_every, config.steps),
            finish=lambda trial, state, key: (None, {}),
        )
    ]


def make_encoder(config: Encoder, key: PRNGKeyArray) -> Transformer:
    task = config.task
    return Transformer(
        vocab=task.alphabet + len(config.kinds),
        width=config.width,
        layers=config.layers,
        heads=config.heads,
        causal=False,
        positions="learned",
        max_length=1 + task.tokens,
        outputs=task.alphabet,
        hidden_multiple=config.hidden_multiple,
        compute_dtype=config.compute,
        key=key,
    )


def adam(config: Encoder) -> optax.GradientTransformation:
    return optax.scale_by_adam(b1=0.9, b2=config.beta2)


def init(trial: RunningTrial[Encoder], carry, key) -> State:
    model: Any = make_encoder(trial.config, role(key, "model"))
    return State(model, adam(trial.config).init(model), jnp.float32(0))


def rate(trial: RunningTrial[Encoder], t) -> Float[Array, ""]:
    """Linear warm-up, then a cosine from the peak to final_rate times the peak."""
    config = trial.config
    warm = (t + 1) / config.warm_up
    done = jnp.clip((t - config.warm_up) / max(1, config.steps - config.warm_up), 0, 1)
    low = config.final_rate
    return config.learning_rate * jnp.minimum(warm, low + (1 - low) * 0.5 * (1 + jnp.cos(jnp.pi * done)))


def task_of(trial: RunningTrial[Encoder]) -> Composition:
    return Composition(hidden_of(trial.config.task, trial), allow_repeats=trial.config.allow_repeats)


def tick(trial: RunningTrial[Encoder], state: State, key, t) -> State:
    """One batch out of the pool (or of fresh examples): draw, differentiate, Adam step."""
    config = trial.config
    task, size = task_of(trial), config.samples
    drawn = jax.random.randint(key, (config.batch,), 0, jnp.maximum(size, 1), dtype=jnp.int32)
    new = t * config.batch + jnp.arange(config.batch, dtype=jnp.int32)
    lessons = jax.vmap(partial(training_lesson, trial, task))(jnp.where(size > 0, drawn, new))
    loss, gradient = jax.value_and_grad(partial(batch_loss, config))(state.model, lessons)
    direction, memory = adam(config).update(gradient, state.optimizer)
    step = rate(trial, t)
    return State(jax.tree.map(lambda p, d: p - step * d, state.model, direction), memory, loss)


def training_lesson(trial: RunningTrial[Encoder], task: Composition, number) -> Lesson:
    """Example `number` of the pool."""
    config = trial.config
    sequence = task.sequence(at(trial.key("pool"), number))
    chosen = number % len(config.hops)
    kinds = jnp.array([config.kinds.index(hops) for hops in config.hops], dtype=jnp.int32)
    answers = jnp.stack([task.hop(sequence, hops).reshape(-1) for hops in config.hops])
    return Lesson(token_form(sequence, kinds[chosen]), answers[chosen])


def batch_loss(config: Encoder, model: Transformer, lessons: Lesson) -> Float[Array, ""]:
    """Mean cross-entropy over the supervised positions."""
    counted = config.task.tokens if config.supervise == "all" else config.task.alphabet
    losses = jax.vmap(lambda lesson: cross_entropy(model(lesson.tokens)[1:], lesson.labels))(lessons)
    return jnp.mean(losses[:, :counted])


def measure(trial: RunningTrial[Encoder], state: State, key, t) -> dict[str, Array]:
    """Loss and accuracy of every tested hop on fresh sequences (at the supervised positions)."""
    config = trial.config
    task = task_of(trial)
    counted = config.task.tokens if config.supervise == "all" else config.task.alphabet
    keys = jax.vmap(partial(at, trial.key("test")))(jnp.arange(config.test_sequences, dtype=jnp.int32))
    sequences = jax.vmap(task.sequence)(keys)

    def of_kind(kind):
        return jax.vmap(lambda sequence: state.model(token_form(sequence, kind))[1:])(sequences)[:, :counted]

    logits = jax.lax.map(of_kind, jnp.array([config.kinds.index(h) for h in config.test_hops], dtype=jnp.int32))
    metrics: dict[str, Array] = {"train_loss": state.loss}
    for place, hops in enumerate(config.test_hops):
        labels = jax.vmap(lambda sequence, hops=hops: task.hop(sequence, hops).reshape(-1))(sequences)[:, :counted]
        right = jnp.argmax(logits[place], axis=-1) == labels
        metrics[f"loss {hops}"] = jnp.mean(cross_entropy(logits[place], labels))
        metrics[f"accuracy {hops}"] = share(right)
    return metrics
