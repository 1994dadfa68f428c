"""What holds for every input at once, read off the tables of the simplified transformer in coefficient space.

A query sees one of two bits at each key, so the worst score of each key is a maximum of two entries of the table. The
bits are taken as free here, also those that the chain determines: what is certified holds even for wrong chains.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Integer

from stairwise.papers.parity_cot.simplified import Tables


def target_and_other(
    scores: Float[Array, "atoms atoms"], secret: Integer[Array, " queries"]
) -> tuple[Float[Array, "queries 2"], Float[Array, "queries 2"]]:
    """The smallest score of the secret key and the largest of any other, for each query and its bit.

    The first query's bit is always 0; its column for 1 repeats that for 0.
    """
    columns, allowed, is_target = _columns(scores, secret)
    target = jnp.min(jnp.where(is_target, columns, jnp.inf), axis=(0, 1))
    return target, jnp.max(jnp.where(allowed & ~is_target, columns, -jnp.inf), axis=(0, 1))


def largest_other(scores: Float[Array, "atoms atoms"], secret: Integer[Array, " queries"]) -> Float[Array, "queries 2"]:
    """The largest |score| of any key but the secret one (Lemma 21)."""
    columns, allowed, is_target = _columns(scores, secret)
    return jnp.max(jnp.where(allowed & ~is_target, jnp.abs(columns), 0), axis=(0, 1))


def log_worst_attention(
    scores: Float[Array, "atoms atoms"], secret: Integer[Array, " queries"]
) -> Float[Array, "queries 2"]:
    """ln of the largest attention that a query can pay to keys other than its secret one, over all bits of all keys."""
    columns, allowed, is_target = _columns(scores, secret)
    target = jnp.min(jnp.where(is_target, columns, jnp.inf), axis=(0, 1))
    worst = jnp.max(jnp.where(allowed & ~is_target, columns, -jnp.inf), axis=1)
    return jax.nn.log_sigmoid(jax.nn.logsumexp(worst, axis=0) - target)


def worst_attention(
    scores: Float[Array, "atoms atoms"], secret: Integer[Array, " queries"]
) -> Float[Array, "queries 2"]:
    """The same without the logarithm: 1 minus the attention on the secret key, at worst."""
    return jnp.exp(log_worst_attention(scores, secret))


def ideal_outputs(
    tables: Tables, readout: Float[Array, " neurons"], secret: Integer[Array, " queries"]
) -> Float[Array, "queries 2 2"]:
    """The output where all attention is on the secret key, by query, its bit, and the secret bit."""
    own, seen = _own_and_seen(tables, secret)
    return jnp.einsum("rqbc,r->qbc", jax.nn.relu(own[..., None] + seen[:, :, None]), readout)


def certified_margin(
    tables: Tables,
    readout: Float[Array, " neurons"],
    secret: Integer[Array, " queries"],
    error: Float[Array, "queries 2"],
) -> Float[Array, "queries 2 2"]:
    """A lower bound on (-1)^(y+1) T(b)[i] over all inputs, by query, its bit, and the secret bit; y is their XOR.

    Attention `error` on other keys moves the output by at most error * sum_r |h_r| max over keys |seen - seen of the
    secret|. Positive everywhere: exact match is 1 on all inputs.
    """
    neurons, queries = len(readout), len(secret)
    positions = tables.own.shape[1] // 2
    bit = jnp.arange(2, dtype=jnp.int32)
    sign = jnp.where(bit[:, None] == bit[None, :], -1, 1)  # y = 0 where the bits agree
    seen = tables.seen.reshape(neurons, positions, 2)

    def spread(position: Integer[Array, ""]) -> Float[Array, " 2"]:
        away = jnp.max(jnp.abs(seen[..., None] - seen[:, position, None, None, :]), axis=(1, 2))
        return jnp.abs(readout) @ away

    moved = error[..., None] * jax.lax.map(spread, secret)[:, None, :]
    margin = sign * ideal_outputs(tables, readout, secret) - moved
    # the first query's bit is always 0
    return jnp.where(
        (jnp.arange(queries, dtype=jnp.int32) == 0)[:, None, None] & (bit == 1)[:, None], margin[:, :1], margin
    )


def _own_and_seen(
    tables: Tables, secret: Integer[Array, " queries"]
) -> tuple[Float[Array, "neurons queries 2"], Float[Array, "neurons queries 2"]]:
    neurons, positions = len(tables.own), tables.own.shape[1] // 2
    own = tables.own.reshape(neurons, positions, 2)[:, positions - len(secret) :]
    return own, tables.seen.reshape(neurons, positions, 2)[:, secret]


def _columns(
    scores: Float[Array, "atoms atoms"], secret: Integer[Array, " queries"]
) -> tuple[Float[Array, "keys 2 queries 2"], Bool[Array, "keys 2 queries 2"], Bool[Array, "keys 2 queries 2"]]:
    """Scores by key, its bit, query, its bit; which of them an input can show; which belong to the secret key.

    A query sees keys up to itself; its own bit is the query's; the token after the inputs is always 0.
    """
    positions, queries = len(scores) // 2, len(secret)
    first = positions - queries
    columns = scores.reshape(positions, 2, positions, 2)[:, :, first:]
    columns = columns.at[:, :, 0, 1].set(columns[:, :, 0, 0])
    key, query = jnp.arange(positions, dtype=jnp.int32), jnp.arange(first, positions, dtype=jnp.int32)
    bit = jnp.arange(2, dtype=jnp.int32)
    before = key[:, None] < query[None, :]
    itself = key[:, None] == query[None, :]
    zero = (key[:, None] != first) | (bit[None, :] == 0)  # key, its bit
    same = bit[:, None] == bit[None, :]
    allowed = (before[:, None, :, None] | (itself[:, None, :, None] & same[None, :, None, :])) & zero[:, :, None, None]
    allowed = allowed.at[first, :, 0].set((bit == 0)[:, None])
    is_target = jnp.broadcast_to((key[:, None] == secret[None, :])[:, None, :, None], columns.shape)
    return columns, jnp.broadcast_to(allowed, columns.shape), is_target
