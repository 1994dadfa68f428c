"""Self-training on garbled labels: the annotator labels a pool of longer chains several times, the filter chooses.

A telling names the variables anew and gives the predicates in another order; what is compared is the values. Noise
replaces a value by another, uniformly, step by step and by itself; the clauses around it stay as they were.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Integer, PRNGKeyArray

from stairwise.measure.accuracy import share
from stairwise.papers.crossings.filter.config import Filtered
from stairwise.papers.lego.decoder import Decoder
from stairwise.papers.lego.evaluate import VALUE
from stairwise.papers.lego.rollout import roll_out
from stairwise.papers.lego.task import Chain, Lego, relabelled
from stairwise.papers.lego.train import (
    LABELLED_AT_ONCE,
    State,
    adam_step,
    fresh_memory,
    make_task,
    measure,
    rate,
    stored_model,
)
from stairwise.train.keys import at, role
from stairwise.train.loop import RunningTrial
from stairwise.train.stage import Stage


class Labelled(NamedTuple):
    """The decoder with the labels of its pool, and which chains of the pool are trained on."""

    learner: State
    kept: Bool[Array, " pool"]


def training(config: Filtered) -> list[Stage]:
    """The one stage: label, filter, train; measured before and after."""
    task = make_task(config.base.task, config.length)
    return [
        Stage(
            name="self-training",
            init=partial(init, task),
            tick=partial(tick, task),
            max_ticks=config.steps,
            measure=look,
            measure_at=(0, config.steps),
        )
    ]


def pool_key(trial) -> PRNGKeyArray:
    return trial.key("unlabelled chains")


def init(task: Lego, trial: RunningTrial[Filtered], carry, key) -> Labelled:
    """Label every chain of the pool, and keep those that the filter lets through."""
    config = trial.config
    model: Any = stored_model(config.base, carry["base"])
    label = partial(labelled, task, trial, model)
    numbered = jnp.arange(config.pool, dtype=jnp.int32)
    labels, right, agree = jax.lax.map(label, numbered, batch_size=min(LABELLED_AT_ONCE, config.pool))
    kept = agree | ~jnp.asarray(config.filter, dtype=bool)
    of_kept = partial(share, where=kept)  # NaN where nothing is kept would end the trial
    some = jnp.any(kept)
    exact, step = of_kept(jnp.all(right, axis=1)), of_kept(share(right, axis=1))
    learner = fresh_memory(model)._replace(
        labels=labels, label_exact=jnp.where(some, exact, 0), label_step=jnp.where(some, step, 0)
    )
    return Labelled(learner, kept)


def labelled(task: Lego, trial: RunningTrial[Filtered], model: Decoder, n: Integer[Array, ""]):
    """Chain n: its garbled labels as first told, which of their values are right, and whether all tellings agree."""
    key = at(pool_key(trial), n)
    chain = task.sample(key)
    tell = partial(telling, task, trial, model, chain, role(key, "tellings"))
    labels = [tell(number) for number in range(trial.config.tellings)]
    values = jnp.stack([one[:, VALUE] for one in labels])
    right = values[0] == task.answers(chain)[1:, VALUE]
    return labels[0].astype(jnp.int16), right, jnp.all(values == values[0])


def telling(
    task: Lego, trial: RunningTrial[Filtered], model: Decoder, chain: Chain, key: PRNGKeyArray, number: int
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


def tick(task: Lego, trial: RunningTrial[Filtered], state: Labelled, key, t) -> Labelled:
    """One batch of the chains that were kept; where none was, nothing moves."""
    config = trial.config
    ranks = jnp.cumsum(state.kept, dtype=jnp.int32)
    drawn = jax.random.randint(key, (config.batch,), 0, jnp.maximum(ranks[-1], 1), dtype=jnp.int32)
    labels = state.learner.labels
    assert labels is not None

    def sentence(rank: Integer[Array, ""]) -> Integer[Array, "clauses 5"]:
        n = jnp.minimum(jnp.searchsorted(ranks, rank + 1), config.pool - 1)
        return task.bootstrapped(task.example(pool_key(trial), n), labels[n])

    step = rate(config.learning_rate, config.final_rate, 0, config.steps, t) * (ranks[-1] > 0)
    return state._replace(learner=adam_step(config.base, state.learner, key, jax.vmap(sentence)(drawn), step))


def look(trial: RunningTrial[Filtered], state: Labelled, key, t) -> dict[str, Array]:
    """LEGO's tests, how good the labels are that were kept, and how many were."""
    found = measure(trial.with_config(trial.config.base), state.learner, key, t)
    return found | {"kept": jnp.mean(state.kept, dtype=jnp.float32)}
