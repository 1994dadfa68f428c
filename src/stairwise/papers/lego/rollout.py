"""Greedy roll-out of the decoder: it reads its own clauses, whole, and keys and values are computed once each.

Predicates are padded to the longest length and the true length is traced: one compiled program serves all lengths, and
its loop runs as many times as clauses are generated, each time with the same work. (The kernel's `greedy` reads a
prompt item by item through the whole model; here predicates need keys and values only, all at once.)
"""

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Integer

from stairwise.papers.lego import stack
from stairwise.papers.lego.decoder import Memory
from stairwise.papers.lego.own import OwnDecoder
from stairwise.papers.lego.stack import ClauseModel, Stack

VARIABLE = 3  # the slot of an answer that holds its variable


def roll_out(
    model: ClauseModel | OwnDecoder,
    predicates: Integer[Array, "longest 5"],
    start: Integer[Array, " 5"],
    length: int | Integer[Array, ""],
    places: Integer[Array, " clauses"] | None = None,
    variables: Integer[Array, " longest"] | None = None,
) -> Integer[Array, "longest 5"]:
    """Answers 1..length, from the first `length` predicates and answer 0; zeros after them.

    `places` are the positions of the sentence's clauses in order, by default 0, 1, ...; `variables`, where given, are
    the tokens that stand in the answers in the place of the decoder's own (one layer of attention only).
    """
    if variables is not None and isinstance(model, OwnDecoder | Stack):
        raise ValueError("variables must be None but for the decoder of one layer (roll_out)")
    if isinstance(model, OwnDecoder):
        return model.roll_out(predicates, start, length)
    longest = len(predicates)
    places = jnp.arange(2 * longest + 1, dtype=jnp.int32) if places is None else places
    if isinstance(model, Stack):
        return stack.roll_out(model, predicates, start, length, places)
    told = jnp.arange(longest, dtype=jnp.int32) < length
    known = model.remember(model.embed(predicates, places[:longest]), places[:longest])
    memory = Memory(*(jnp.concatenate([part, jnp.zeros_like(part)]) for part in known))

    def step(l, carry):
        clause, memory, answers = carry
        place = places[length + l][None]
        embedded = model.embed(clause[None], place)
        memory = _write(memory, model.remember(embedded, place), longest + l)
        given = jnp.arange(longest, dtype=jnp.int32) <= l
        logits, _ = model.answer(embedded, place, memory, jnp.concatenate([told, given])[None])
        following = jnp.argmax(logits[0], axis=-1).astype(clause.dtype)
        if variables is not None:
            following = following.at[VARIABLE].set(variables[l].astype(clause.dtype))
        return following, memory, lax.dynamic_update_index_in_dim(answers, following, l, axis=0)

    return lax.fori_loop(0, length, step, (start, memory, jnp.zeros_like(predicates)))[2]


def _write(memory: Memory, clause: Memory, place: Integer[Array, ""]) -> Memory:
    return jax.tree.map(lambda all, new: lax.dynamic_update_slice_in_dim(all, new, place, axis=0), memory, clause)
