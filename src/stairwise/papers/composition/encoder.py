"""A standard transformer on composition (Figure 3 right): a mixture of hops against the hardest hop alone.

The hop to compute is the first token; the answer hop_i^r(j) is read at the token that holds sigma_i(j). The pool of
training examples is fixed: example n is a function of the seed and n, and its hop is that of n modulo their number.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Integer, PRNGKeyArray

from stairwise.measure.accuracy import share
from stairwise.nn import parts
from stairwise.nn.transformer import Transformer
from stairwise.papers.composition.config import Encoder
from stairwise.papers.composition.rules import cross_entropy
from stairwise.papers.composition.task import Composition, token_form
from stairwise.papers.composition.train import hidden_of
from stairwise.train.gradient import Training, gradient_training, with_replacement
from stairwise.train.keys import at, role
from stairwise.train.loop import RunningTrial
from stairwise.train.schedules import warm_up_cosine
from stairwise.train.stage import Stage, every


class Lesson(NamedTuple):
    """What the transformer reads, what it should say at every value token, and the one that its example asks about."""

    tokens: Integer[Array, " length"]
    labels: Integer[Array, " values"]
    query: Integer[Array, ""]


def training(config: Encoder) -> list[Stage]:
    """The one stage of training."""
    return [
        gradient_training(
            model=lambda trial, key: make_encoder(config, role(key, "model")),
            batch=batch,
            loss=lambda trial, model, lessons, key: batch_loss(config, model, lessons),
            optimizer=optimizer,
            steps=config.steps,
            measure=measure,
            measure_at=every(config.measure_every, config.steps),
            keep=None,
        )
    ]


def make_encoder(config: Encoder, key: PRNGKeyArray) -> Transformer:
    task = config.task
    return Transformer(
        vocab=task.alphabet + len(config.kinds),
        width=config.model.width,
        layers=config.model.layers,
        heads=config.model.heads,
        causal=False,
        positions=config.model.positions,
        max_length=1 + task.tokens,
        outputs=task.alphabet,
        hidden_multiple=config.model.hidden_multiple,
        norm=config.model.norm,
        attention_residual=config.model.residual,
        mlp_residual=config.model.residual,
        compute_dtype=config.model.compute,
        key=key,
        **parts.chosen(config.model),
    )


def optimizer(config: Encoder) -> optax.GradientTransformation:
    rate = warm_up_cosine(config.learning_rate, config.warm_up, config.steps, config.final_rate)
    return optax.adam(rate, b2=config.beta2)


def task_of(trial: RunningTrial[Encoder]) -> Composition:
    return Composition(hidden_of(trial.config.task, trial), allow_repeats=trial.config.allow_repeats)


def batch(trial: RunningTrial[Encoder], aux, model, key, n) -> Lesson:
    """Examples of the pool, or fresh ones where it is empty."""
    numbers = with_replacement(trial.config.batch, trial.config.samples)
    return jax.vmap(partial(training_lesson, trial, task_of(trial)))(numbers(trial, key, n))


def training_lesson(trial: RunningTrial[Encoder], task: Composition, number) -> Lesson:
    """Example `number` of the pool."""
    config = trial.config
    key = at(trial.key("pool"), number)
    sequence = task.sequence(key)
    chosen = number % len(config.hops)
    kinds = jnp.array([config.kinds.index(hops) for hops in config.hops], dtype=jnp.int32)
    answers = jnp.stack([task.hop(sequence, hops).reshape(-1) for hops in config.hops])
    return Lesson(token_form(sequence, kinds[chosen]), answers[chosen], task.query(role(key, "query")))


def batch_loss(config: Encoder, model: Transformer, lessons: Lesson) -> Float[Array, ""]:
    """Mean cross-entropy over the supervised positions."""

    def at_query(lesson: Lesson) -> Float[Array, ""]:
        return cross_entropy(model.at(lesson.tokens, 1 + lesson.query), lesson.labels[lesson.query])

    def everywhere(lesson: Lesson) -> Float[Array, " values"]:
        return cross_entropy(model(lesson.tokens)[1:], lesson.labels)

    if config.supervise == "one":
        return jnp.mean(jax.vmap(at_query)(lessons))
    return jnp.mean(jax.vmap(everywhere)(lessons)[:, : counted(config)])


def counted(config: Encoder) -> int:
    """How many positions are tested: those of the first block where the loss is taken there, else all."""
    return config.task.alphabet if config.supervise == "first" else config.task.tokens


def measure(trial: RunningTrial[Encoder], state: Training, key, t) -> dict[str, Array]:
    """Loss and accuracy of every tested hop on fresh sequences, at all positions that may be asked about."""
    config = trial.config
    task = task_of(trial)
    keys = jax.vmap(partial(at, trial.key("test")))(jnp.arange(config.test_examples, dtype=jnp.int32))
    sequences = jax.vmap(task.sequence)(keys)

    def of_kind(kind):
        return jax.vmap(lambda sequence: state.model(token_form(sequence, kind))[1:])(sequences)[:, : counted(config)]

    logits = jax.lax.map(of_kind, jnp.array([config.kinds.index(h) for h in config.test_hops], dtype=jnp.int32))
    metrics: dict[str, Array] = {"train_loss": state.loss}
    for place, hops in enumerate(config.test_hops):
        labels = jax.vmap(lambda sequence, hops=hops: task.hop(sequence, hops).reshape(-1))(sequences)[
            :, : counted(config)
        ]
        right = jnp.argmax(logits[place], axis=-1) == labels
        metrics[f"loss {hops}"] = jnp.mean(cross_entropy(logits[place], labels))
        metrics[f"accuracy {hops}"] = share(right)
    return metrics
