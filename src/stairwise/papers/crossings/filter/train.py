"""Self-training on garbled labels: the annotator labels a pool of longer chains several times, the filter chooses.

A telling names the variables anew and gives the predicates in another order; what is compared is the values. Noise
replaces a value by another, uniformly, step by step and by itself; the clauses around it stay as they were.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, Integer, PRNGKeyArray

from stairwise.measure.accuracy import share
from stairwise.papers.crossings.filter.config import Filtered
from stairwise.papers.lego.evaluate import VALUE
from stairwise.papers.lego.rollout import roll_out
from stairwise.papers.lego.stack import ClauseModel
from stairwise.papers.lego.task import Chain, Lego, relabelled
from stairwise.papers.lego.train import Batch, batch_loss, in_blocks, make_decoder, make_task, measure, stored_model
from stairwise.train.gradient import Training, gradient_training
from stairwise.train.keys import at, role
from stairwise.train.loop import RunningTrial
from stairwise.train.schedules import warm_up_cosine
from stairwise.train.stage import Stage


class Labels(NamedTuple):
    """LEGO's `Labels`, of which `exact` and `step` are over the chains that are kept, and which these are."""

    answers: Int[Array, "pool length 5"]
    exact: Float[Array, ""]
    step: Float[Array, ""]
    kept: Bool[Array, " pool"]


class Lessons(NamedTuple):
    """A batch of sentences, and whether there is anything to learn from."""

    sentences: Integer[Array, "batch clauses 5"]
    some: Bool[Array, ""]


def training(config: Filtered) -> list[Stage]:
    """The one stage: label, filter, train; measured before and after."""
    task = make_task(config.base.task, config.length)
    return [
        gradient_training(
            name="self-training",
            model=lambda trial, key: make_decoder(config.base, key),
            received=lambda trial, carry: stored_model(config.base, carry["base"]),
            prepare=partial(label, task),
            batch=partial(draw, task),
            loss=lambda trial, model, lessons, key: loss(config, model, lessons),
            optimizer=lambda own: optax.adam(warm_up_cosine(own.learning_rate, 0, config.steps, own.final_rate)),
            steps=config.steps,
            measure=look,
            measure_at=(0, config.steps),
            keep=None,
        )
    ]


def pool_key(trial) -> PRNGKeyArray:
    return trial.key("unlabelled chains")


def label(task: Lego, trial: RunningTrial[Filtered], model: ClauseModel, key) -> Labels:
    """Label every chain of the pool, and keep those that the filter lets through."""
    config = trial.config
    labels, right, agree = in_blocks(partial(labelled, task, trial, model), config.samples)
    kept = agree | ~jnp.asarray(config.filter, dtype=bool)
    of_kept = partial(share, where=kept)  # NaN where nothing is kept would end the trial
    some = jnp.any(kept)
    exact, step = of_kept(jnp.all(right, axis=1)), of_kept(share(right, axis=1))
    return Labels(labels, jnp.where(some, exact, 0), jnp.where(some, step, 0), kept)


def labelled(task: Lego, trial: RunningTrial[Filtered], model: ClauseModel, n: Integer[Array, ""]):
    """Chain n: its garbled labels as first told, which of their values are right, and whether all tellings agree."""
    key = at(pool_key(trial), n)
    chain = task.sample(key)
    tell = partial(telling, task, trial, model, chain, role(key, "tellings"))
    labels = [tell(number) for number in range(trial.config.tellings)]
    values = jnp.stack([one[:, VALUE] for one in labels])
    right = values[0] == task.answers(chain)[1:, VALUE]
    return labels[0].astype(jnp.int16), right, jnp.all(values == values[0])


def telling(
    task: Lego, trial: RunningTrial[Filtered], model: ClauseModel, chain: Chain, key: PRNGKeyArray, number: int
) -> Integer[Array, "length 5"]:
    """What the annotator answers to a telling of the chain; the first telling is the chain as it is."""
    own, told, order = at(key, number), chain, jnp.arange(task.length, dtype=jnp.int32)
    if number > 0:
        names = jax.random.permutation(role(own, "names"), jnp.arange(task.variables, dtype=jnp.int32))
        told, order = relabelled(chain, names), task.predicate_order(role(own, "order"))
    answers = roll_out(model, task.predicates(told)[order], task.answers(told)[0], task.length)
    noise = at(role(key, "noise"), jnp.where(trial.config.systematic, 0, number))
    return garbled(task, answers, trial.config.noise, noise)


def garbled(
    task: Lego, answers: Integer[Array, "length 5"], noise: float | Float[Array, ""], key: PRNGKeyArray
) -> Integer[Array, "length 5"]:
    """Each value replaced, with chance `noise`, by another one; a token that is no value stays as it is."""
    wrong = jax.random.uniform(role(key, "wrong"), (task.length,), dtype=jnp.float32) < noise
    by = jax.random.randint(role(key, "by"), (task.length,), 1, task.values, dtype=jnp.int32)
    first = task.starts[2]
    value = answers[:, VALUE]
    moved = first + (value - first + by) % task.values
    return answers.at[:, VALUE].set(jnp.where(wrong & (value >= first), moved, value))


def draw(task: Lego, trial: RunningTrial[Filtered], labels: Labels, model, key, n) -> Lessons:
    """Sentences of the chains that were kept."""
    config = trial.config
    ranks = jnp.cumsum(labels.kept, dtype=jnp.int32)
    drawn = jax.random.randint(key, (config.batch,), 0, jnp.maximum(ranks[-1], 1), dtype=jnp.int32)

    def sentence(rank: Integer[Array, ""]) -> Integer[Array, "clauses 5"]:
        n = jnp.minimum(jnp.searchsorted(ranks, rank + 1), config.samples - 1)
        return task.bootstrapped(task.example(pool_key(trial), n), labels.answers[n])

    return Lessons(jax.vmap(sentence)(drawn), ranks[-1] > 0)


def loss(config: Filtered, model: ClauseModel, lessons: Lessons) -> Float[Array, ""]:
    """LEGO's loss; where no chain was kept, nothing moves."""
    value = batch_loss(config.base, model, Batch(lessons.sentences, None))
    return jnp.where(lessons.some, value, jax.lax.stop_gradient(value))


def look(trial: RunningTrial[Filtered], state: Training, key, t) -> dict[str, Array]:
    """LEGO's tests, how good the labels are that were kept, and how many were."""
    found = measure(trial.with_config(trial.config.base), state, key, t)
    return found | {"kept": jnp.mean(state.aux.kept, dtype=jnp.float32)}
