"""Greedy roll-out of the decoder: it reads its own clauses, whole, and keys and values are computed once each.

Predicates are padded to the longest length and the true length is traced: one compiled program serves all lengths.
Padding costs little: predicates are read block by block as far as there are any, and a clause looks at the first rows
of the memory only while these hold all that was said. (The kernel's `greedy` reads a prompt item by item through the
whole model; here predicates need keys and values only.)
"""

import math
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Integer

from stairwise.papers.lego import stack
from stairwise.papers.lego.decoder import Decoder, Memory
from stairwise.papers.lego.own import OwnDecoder
from stairwise.papers.lego.stack import ClauseModel, Stack

VARIABLE = 3  # the slot of an answer that holds its variable
BLOCK = 32  # predicates that are read at once
FIRST_ROWS = 64  # of the memory, which all clauses of a short sentence fit into


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
    memory = _read(model, predicates, length, places)

    def step(l, carry, rows: int):
        clause, memory, answers = carry
        place = places[length + l][None]
        embedded = model.embed(clause[None], place)
        memory = _write(memory, model.remember(embedded, place), length + l)
        seen = Memory(*(part[:rows] for part in memory))
        said = jnp.arange(rows, dtype=jnp.int32) <= length + l
        logits, _ = model.answer(embedded, place, seen, said[None])
        following = jnp.argmax(logits[0], axis=-1).astype(clause.dtype)
        if variables is not None:
            following = following.at[VARIABLE].set(variables[l].astype(clause.dtype))
        return following, memory, lax.dynamic_update_index_in_dim(answers, following, l, axis=0)

    carry, begun = (start, memory, jnp.zeros_like(predicates)), jnp.int32(0)
    for rows in _rows(len(memory.keys)):
        end = jnp.clip(rows - length, begun, length)
        carry, begun = lax.fori_loop(begun, end, partial(step, rows=rows), carry), end
    return carry[2]


def _rows(most: int) -> tuple[int, ...]:
    """How many rows of the memory a clause looks at, first few and then all.

    >>> _rows(384), _rows(100)
    ((64, 384), (100,))
    """
    return (FIRST_ROWS, most) if most >= 2 * FIRST_ROWS else (most,)


def _read(
    model: Decoder,
    predicates: Integer[Array, "longest 5"],
    length: int | Integer[Array, ""],
    places: Integer[Array, " clauses"],
) -> Memory:
    """Keys and values of the predicates that there are, with room for as many answers; the rest is never looked at."""
    longest = len(predicates)
    block = min(BLOCK, longest)
    blocks = math.ceil(longest / block)
    padded = jnp.pad(predicates, ((0, blocks * block - longest), (0, 0)))
    known = jnp.pad(places[:longest], (0, blocks * block - longest))

    def remembered(first) -> Memory:
        clauses, where = (lax.dynamic_slice_in_dim(part, first, block) for part in (padded, known))
        return model.remember(model.embed(clauses, where), where)

    def read(number, memory: Memory) -> Memory:
        return _write(memory, remembered(number * block), number * block)

    row = jax.eval_shape(remembered, 0)
    room = blocks * block + longest
    empty = Memory(*(jnp.zeros((room, *part.shape[1:]), part.dtype) for part in row))
    return lax.fori_loop(0, (length + block - 1) // block, read, empty)


def _write(memory: Memory, clause: Memory, place: Integer[Array, ""]) -> Memory:
    return jax.tree.map(lambda all, new: lax.dynamic_update_slice_in_dim(all, new, place, axis=0), memory, clause)
