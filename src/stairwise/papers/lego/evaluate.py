"""What is measured of a decoder: roll-outs at several lengths, eq. (5), mean attention, equivariance."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Integer, Key, PRNGKeyArray

from stairwise.measure.accuracy import exact_match, share
from stairwise.nn.fused import on_gpu
from stairwise.nn.positions import random_places
from stairwise.papers.lego.own import OwnDecoder
from stairwise.papers.lego.rollout import VARIABLE, roll_out
from stairwise.papers.lego.stack import ClauseModel
from stairwise.papers.lego.task import Chain, Lego

VALUE = 4  # the slot of an answer that holds its value


class Tested(NamedTuple):
    """One length: the paper's number (`exact`: every value of a roll-out is right), and four others.

    final     the last value is right
    step      values that are right, on average over steps
    clause    every token of every clause is right
    expected  eq. (5): teacher-forced probability of the true clause, on average over steps
    """

    exact: Float[Array, "*lengths"]
    final: Float[Array, "*lengths"]
    step: Float[Array, "*lengths"]
    clause: Float[Array, "*lengths"]
    expected: Float[Array, "*lengths"]


def cut(chains: Chain, length: int) -> Chain:
    """The first `length` steps of chains, which are chains of that length."""
    return Chain(chains.variables[..., : length + 1], chains.actions[..., :length], chains.values[..., : length + 1])


def places_of(key: PRNGKeyArray | None, length: int | Integer[Array, ""], longest: int) -> Integer[Array, " places"]:
    """The positions of a sentence's clauses: 0, 1, ..., or (given a key) a random increasing choice among as many as
    the longest sentence has."""
    clauses = 2 * longest + 1
    return jnp.arange(clauses, dtype=jnp.int32) if key is None else random_places(key, 2 * length + 1, clauses)


def rolled_out(
    model: ClauseModel | OwnDecoder,
    task: Lego,
    chains: Chain,
    lengths: Sequence[int],
    keys: Key[Array, " chains"] | None = None,
) -> Tested:
    """Each length on the same chains, cut to it; `task.length` is theirs. `keys`, one a chain, draw random places."""

    def of_length(length: Integer[Array, ""]) -> Tested:
        one = partial(_one_sentence, model, task, length)
        return jax.tree.map(share, jax.vmap(one)(chains, keys))

    return jax.lax.map(of_length, jnp.array(lengths, dtype=jnp.int32))


def told_variables(
    model: ClauseModel, task: Lego, chains: Chain, lengths: Sequence[int], keys: Key[Array, " chains"] | None = None
) -> Float[Array, " lengths"]:
    """Exact match of all values, as in `rolled_out`, where every answer that is fed back has its true variable."""

    def one(length: Integer[Array, ""], chain: Chain, key: PRNGKeyArray | None) -> Float[Array, ""]:
        answers = task.answers(chain)
        places = places_of(key, length, task.length)
        made = roll_out(model, task.predicates(chain), answers[0], length, places, answers[1:, VARIABLE])
        counted = jnp.arange(task.length, dtype=jnp.int32) < length
        return exact_match(made[:, VALUE], answers[1:, VALUE], counted).astype(jnp.float32)

    def of_length(length: Integer[Array, ""]) -> Float[Array, ""]:
        return share(jax.vmap(partial(one, length))(chains, keys))

    return jax.lax.map(of_length, jnp.array(lengths, dtype=jnp.int32))


def _one_sentence(
    model: ClauseModel | OwnDecoder, task: Lego, length: Integer[Array, ""], chain: Chain, key: PRNGKeyArray | None
) -> Tested:
    places = places_of(key, length, task.length)
    predicates, answers = task.predicates(chain), task.answers(chain)
    made, true = roll_out(model, predicates, answers[0], length, places), answers[1:]
    counted = jnp.arange(task.length, dtype=jnp.int32) < length
    right = made[:, VALUE] == true[:, VALUE]
    return Tested(
        exact=exact_match(made[:, VALUE], true[:, VALUE], counted).astype(jnp.float32),
        final=right[length - 1].astype(jnp.float32),
        step=share(right, where=counted),
        clause=jnp.all(made == true, where=counted[:, None]).astype(jnp.float32),
        expected=_expected(model, jnp.concatenate([predicates, answers]), length, places, counted),
    )


def _expected(
    model: ClauseModel | OwnDecoder,
    clauses: Integer[Array, "clauses 5"],
    length: Integer[Array, ""],
    places: Integer[Array, " places"],
    counted: Bool[Array, " longest"],
) -> Float[Array, ""]:
    longest = len(counted)
    steps = jnp.arange(longest, dtype=jnp.int32)
    positions = jnp.concatenate([places[:longest], places[length + steps]])
    present = jnp.concatenate([counted, jnp.ones(longest, dtype=bool)])
    logits = model(clauses[:-1], longest, positions=positions, present=present)
    return jnp.mean(jnp.exp(-clause_losses(logits, clauses[longest + 1 :])), where=counted)


def clause_losses(
    logits: Float[Array, "answers 5 vocabulary"], clauses: Integer[Array, "answers 5"]
) -> Float[Array, " answers"]:
    """-log p of each clause: the sum of its five tokens' cross-entropies."""
    log_odds = jax.nn.log_softmax(logits.astype(jnp.promote_types(logits.dtype, jnp.float32)))
    if not on_gpu(log_odds.dtype):
        return -jnp.sum(jnp.take_along_axis(log_odds, clauses[..., None], axis=-1), axis=(-2, -1))
    # the same by a comparison: the gradient of indexing is a scatter, which costs a GPU several passes over memory
    said = jnp.arange(log_odds.shape[-1], dtype=clauses.dtype) == clauses[..., None]
    return -jnp.sum(jnp.where(said, log_odds, 0), axis=(-2, -1))


# --- attention --------------------------------------------------------------------------------------------------------


def mean_attention(
    model: ClauseModel,
    task: Lego,
    chains: Chain,
    order: Integer[Array, " length"] | None = None,
    places: Integer[Array, "sequences places"] | None = None,
) -> Float[Array, "heads length clauses"]:
    """Attention of answers 0..L-1 to the 2L clauses before the last answer, averaged over sentences.

    Answer l should look at predicate l+1, which is column l, and at itself, column L+l. `order` tells the predicates
    in another order, the same for all sentences.
    """

    def one(chain: Chain, places: Integer[Array, " places"] | None) -> Float[Array, "heads length clauses"]:
        positions = None if places is None else places[: 2 * task.length]
        return model.with_attention(task.clauses(chain, order)[:-1], task.length, positions=positions)[1]

    return jnp.mean(jax.vmap(one)(chains, places), axis=0)


class Diagonals(NamedTuple):
    """What answer l pays to the two clauses that it needs, for every l."""

    predicate: Float[Array, "*heads length"]
    answer: Float[Array, "*heads length"]


def diagonals(weights: Float[Array, "*heads length clauses"]) -> Diagonals:
    """Attention of answer l to predicate l+1 and to itself."""
    length = weights.shape[-2]
    return Diagonals(
        jnp.diagonal(weights[..., :length], axis1=-2, axis2=-1), jnp.diagonal(weights[..., length:], axis1=-2, axis2=-1)
    )


class Equivariance(NamedTuple):
    """How far a decoder is from not minding the order of predicates: 0 without positions, up to rounding."""

    logits: Float[Array, ""]
    attention: Float[Array, ""]


def equivariance(model: ClauseModel, task: Lego, chains: Chain, order: Integer[Array, " length"]) -> Equivariance:
    """Tell the predicates in another order: the largest change of any logit over the largest logit, and of any
    attention weight once its columns are put back."""
    columns = jnp.concatenate([order, jnp.arange(task.length, 2 * task.length, dtype=jnp.int32)])

    def one(chain: Chain):
        logits, weights = model.with_attention(task.clauses(chain)[:-1], task.length)
        others, permuted = model.with_attention(task.clauses(chain, order)[:-1], task.length)
        change, scale = jnp.max(jnp.abs(others - logits)), jnp.max(jnp.abs(logits))
        return change, scale, jnp.max(jnp.abs(permuted - weights[..., columns]))

    # a GPU's default product keeps 10 bits, which would be all that is measured
    with jax.default_matmul_precision("float32"):
        change, scale, attention = jax.vmap(one)(chains)
    return Equivariance(jnp.max(change) / jnp.max(scale), jnp.max(attention))
