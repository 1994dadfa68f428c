"""Sentences of 2L clauses and a chain of L answers, told with names or without; the decoder of LEGO reads both.

A sentence is its clauses, then answers 0..L; the clause after answer l is what row l must say, all five slots of it.
All answers of a sentence are right here exactly when they are in a greedy roll-out: up to the first error both read the
same clauses.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Integer, PRNGKeyArray

from stairwise.measure.accuracy import share
from stairwise.measure.attention import mean_row
from stairwise.papers.crossings.learning import in_looks
from stairwise.papers.crossings.retrieval.config import Tracking
from stairwise.papers.lego.decoder import Decoder
from stairwise.papers.lego.evaluate import VALUE, clause_losses
from stairwise.papers.lego.task import SLOTS, Lego, lego
from stairwise.tasks.parity import coin_flips
from stairwise.train.gradient import fresh
from stairwise.train.keys import at, role
from stairwise.train.loop import RunningTrial
from stairwise.train.stage import Stage, every

ACTION = 1  # the slot of a clause


class Sentence(NamedTuple):
    """Clauses to look at, and answers 0..L to give."""

    clauses: Integer[Array, "clauses 5"]
    answers: Integer[Array, "points 5"]


def training(config: Tracking) -> list[Stage]:
    """The one stage; it goes on after success, so that attention and longer chains are seen at equal budgets."""
    return [
        in_looks(
            model=lambda trial, key: initial(trial),
            batch=fresh(lambda trial, key: sentence(trial, key, config.length), config.batch),
            loss=batch_loss,
            look=look,
            key_role="batch",
            steps=config.look // config.batch,
            looks=config.looks,
            threshold=config.threshold,
            measure_at=every(1, config.looks),
            stop=False,
        )
    ]


# --- sentences --------------------------------------------------------------------------------------------------------


def sentence(trial: RunningTrial[Tracking], key: PRNGKeyArray, length: int) -> Sentence:
    """A fresh sentence of the trial's kind."""
    config = trial.config
    if config.retrieval == "name":
        return named(task_of(config, length), key)
    return placed(config, secret_places(trial), key, length)


def task_of(config: Tracking, length: int) -> Lego:
    return lego("C2", config.names, length)


def named(task: Lego, key: PRNGKeyArray) -> Sentence:
    """Two chains over different names; the second is there to distract."""
    chains = task.disjoint(key, 2)
    clauses = jax.vmap(task.predicates)(chains).reshape(-1, SLOTS)
    return Sentence(clauses, task.answers(jax.tree.map(lambda leaf: leaf[0], chains)))


def secret_places(trial: RunningTrial[Tracking]) -> Integer[Array, " longest"]:
    """Where step l finds its bit: L of the first 2L places, and for longer chains L of the next 2L, in random order."""
    key, length = trial.key("secret"), trial.config.length
    near, far = (jax.random.permutation(role(key, half), 2 * length)[:length] for half in ("near", "far"))
    return jnp.concatenate([near, 2 * length + far]).astype(jnp.int32)


def placed(config: Tracking, secret: Integer[Array, " longest"], key: PRNGKeyArray, length: int) -> Sentence:
    """2 `length` clauses with a bit each."""
    task = task_of(config, length)
    _, action, value = task.starts
    bits = coin_flips(role(key, "bits"), 2 * length).astype(jnp.int32)
    start = coin_flips(role(key, "start"), 1).astype(jnp.int32)[0]
    values = task.track(start, bits[secret[:length]])
    clauses = jnp.zeros((2 * length, SLOTS), dtype=jnp.int32).at[:, ACTION].set(action + bits)
    answers = jnp.zeros((length + 1, SLOTS), dtype=jnp.int32).at[:, VALUE].set(value + values)
    return Sentence(clauses, answers)


def places(config: Tracking, length: int) -> Integer[Array, " read"]:
    """Where clauses and answers stand; where places are all there is, answers do so whatever the length."""
    first = 2 * (length if config.retrieval == "name" else config.longest)
    return jnp.concatenate([jnp.arange(2 * length, dtype=jnp.int32), first + jnp.arange(length, dtype=jnp.int32)])


# --- training ---------------------------------------------------------------------------------------------------------


def initial(trial: RunningTrial[Tracking]) -> Decoder:
    config = trial.config
    return Decoder(
        vocabulary=task_of(config, config.length).vocabulary,
        width=config.model.width,
        heads=config.model.heads,
        positions="none" if config.retrieval == "name" else "learned",
        max_clauses=3 * config.longest + 1,
        key=trial.key("model"),
    )


def read(config: Tracking, model: Decoder, told: Sentence):
    """Logits of the clause after each answer but the last, and the attention that they rest on."""
    sequence = jnp.concatenate([told.clauses, told.answers[:-1]])
    return model.with_attention(sequence, len(told.clauses), positions=places(config, len(told.answers) - 1))


def batch_loss(trial: RunningTrial[Tracking], model: Decoder, told: Sentence, key) -> Float[Array, ""]:
    """-log p of the answers, averaged over answers and sentences."""

    def one(told: Sentence) -> Float[Array, ""]:
        return jnp.mean(clause_losses(read(trial.config, model, told)[0], told.answers[1:]))

    return jnp.mean(jax.vmap(one)(told))


def look(trial: RunningTrial[Tracking], model: Decoder) -> dict[str, Float[Array, ""]]:
    """Exact match and normalised entropy at the length of training, and exact match at twice the length."""
    within, entropy = tested(trial, model, trial.config.length)
    return {"accuracy": within, "entropy": entropy, "beyond": tested(trial, model, trial.config.longest)[0]}


def tested(trial: RunningTrial[Tracking], model: Decoder, length: int):
    """The share of fresh sentences of a length with every answer right, and the mean entropy of the answers' rows."""
    place = jnp.arange(3 * length, dtype=jnp.int32)
    mask = place <= place[2 * length :, None]

    def one(number: Integer[Array, ""]):
        told = sentence(trial, at(trial.key("test"), number), length)
        logits, weights = read(trial.config, model, told)
        right = jnp.all(jnp.argmax(logits, axis=-1) == told.answers[1:])
        return right, jnp.mean(mean_row(weights, mask))

    right, entropy = jax.vmap(one)(jnp.arange(trial.config.test_examples, dtype=jnp.int32))
    return share(right), jnp.mean(entropy)
