"""The simplified transformer of Definitions 3 to 6, held in the span of its frozen embeddings: exact, at any width.

There are 2T embedding vectors e_{p,b}, here called atoms; atom 2p+b stands for bit b at position p (counted from 0), E
has them as its rows, and G = E E' is their Gram matrix. The start of Assumption 1 and every gradient lie in their span:

    W[:, :d] = F E,    W[:, d:] = S E,    A = E' a E,

with F, S of shape (2m, 2T) and a of shape (2T, 2T), `first`, `second` and `attention` below. All that the network sees
of them are inner products with atoms, the tables F G, S G and G a G; and since dL/dW[:, :d] = (dL/d(F G)) E and
likewise for the others, the gradient with respect to the tables *is* the gradient in coefficients. The width d enters
through G alone.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Integer, PRNGKeyArray, UInt32

from stairwise.nn.taps import tap

WORD = 32
WORDS = 4096  # of each embedding that are compared at once, so that they stay in the cache


class Coefficients(eqx.Module):
    """The trainable weights, as combinations of atoms."""

    first: Float[Array, "neurons atoms"]
    second: Float[Array, "neurons atoms"]
    attention: Float[Array, "atoms atoms"]

    def tables(self, gram: Float[Array, "atoms atoms"]) -> "Tables":
        return Tables(self.first @ gram, self.second @ gram, gram @ self.attention @ gram)


class Tables(NamedTuple):
    """What the network computes with.

    own      <W[r, :d], e>: what a token gives to neuron r at its own position
    seen     <W[r, d:], e>: what it gives where all attention is on it
    scores   e' A f: the score of key e for query f, in this order
    """

    own: Float[Array, "neurons atoms"]
    seen: Float[Array, "neurons atoms"]
    scores: Float[Array, "atoms atoms"]


# --- Definition 3: the embeddings -------------------------------------------------------------------------------------


def draw_signs(key: PRNGKeyArray, atoms: int, width: int) -> UInt32[Array, "atoms words"]:
    """Independent random signs of all embeddings, 32 to a word; bits beyond the width are 0."""
    words = jax.random.bits(key, (atoms, -(-width // WORD)), dtype=jnp.uint32)
    used = jnp.arange(words.shape[1], dtype=jnp.int32) * WORD
    left = jnp.clip(width - used, 0, WORD)
    return words & jnp.where(left < WORD, (jnp.uint32(1) << left.astype(jnp.uint32)) - 1, jnp.uint32(2**32 - 1))


def vectors(signs: UInt32[Array, "atoms words"], width: int) -> Float[Array, "atoms width"]:
    """The embeddings themselves, entries +-1/sqrt(d)."""
    shifts = jnp.arange(WORD, dtype=jnp.uint32)
    bits = (signs[:, :, None] >> shifts) & 1
    plus_minus = 1 - 2 * bits.reshape(len(signs), -1)[:, :width].astype(jnp.result_type(float))
    return plus_minus / jnp.sqrt(plus_minus.dtype.type(width))


def gram_of(signs: UInt32[Array, "atoms words"], width: int) -> Float[Array, "atoms atoms"]:
    """G = E E' from counts of differing signs: G = 1 - 2 (differing) / d."""

    atoms, words = signs.shape
    block = min(WORDS, words)
    padded = jnp.pad(signs, ((0, 0), (0, -words % block)))  # what is added differs nowhere
    parts = jnp.moveaxis(padded.reshape(atoms, -1, block), 1, 0)

    def add(count: Integer[Array, "atoms atoms"], part: UInt32[Array, "atoms words"]):
        def row(word: UInt32[Array, " words"]) -> Integer[Array, " atoms"]:
            return jnp.sum(jax.lax.population_count(word ^ part), axis=1, dtype=jnp.int32)

        return count + jax.lax.map(row, part), None

    differing, _ = jax.lax.scan(add, jnp.zeros((atoms, atoms), dtype=jnp.int32), parts)
    return 1 - 2 * differing.astype(jnp.result_type(float)) / width


# --- Assumption 1: the start ------------------------------------------------------------------------------------------


def draw_start(key: PRNGKeyArray, neurons: int, queries: int, paired: bool) -> Bool[Array, "neurons queries 2"]:
    """The signs of nu, of 2m neurons at the last `queries` positions and both bits: True for +eps.

    paired: neuron m+r repeats neuron r, so that their outputs cancel.
    """
    drawn = jax.random.bits(key, (2 * neurons, queries, 2), dtype=jnp.uint8) & 1 == 1
    return jnp.concatenate([drawn[:neurons]] * 2) if paired else drawn


def start(positive: Bool[Array, "neurons queries 2"], positions: int, scale: float | Float[Array, ""]) -> Coefficients:
    """A = 0, W[:, d:] = 0 and W[r, :d] = sum of nu_{r,i,b} e_{i,b} over the last positions, nu = +-scale."""
    neurons, queries, _ = positive.shape
    dtype = jnp.result_type(float)
    nu = jnp.where(positive, scale, -scale).astype(dtype)
    first = jnp.zeros((neurons, positions, 2), dtype=dtype).at[:, positions - queries :].set(nu)
    atoms = 2 * positions
    return Coefficients(
        first.reshape(neurons, atoms),
        jnp.zeros((neurons, atoms), dtype=dtype),
        jnp.zeros((atoms, atoms), dtype=dtype),
    )


def readout(neurons: int) -> Float[Array, " neurons"]:
    """h: 1/(2m) for the first m neurons, -1/(2m) for the others."""
    half = jnp.ones(neurons, dtype=jnp.result_type(float)) / (2 * neurons)
    return jnp.concatenate([half, -half])


# --- Definitions 4 to 6: one sequence ---------------------------------------------------------------------------------


def attention(
    scores: Float[Array, "atoms atoms"], tokens: Integer[Array, " positions"], first: int
) -> Float[Array, "queries positions"]:
    """softmax(C + X' A X) of the queries from position `first` on, a row a query; query i sees the keys j <= i."""
    positions = tokens.shape[0]
    key = jnp.arange(positions, dtype=jnp.int32)
    columns = scores.reshape(positions, 2, positions, 2)[:, :, first:]  # key, its bit, query, its bit
    of_query = jnp.where(tokens[first:] == 1, columns[..., 1], columns[..., 0])
    of_key = jnp.where(tokens[:, None] == 1, of_query[:, 1], of_query[:, 0])  # key, query
    seen = key[:, None] <= key[None, first:]
    masked = tap("blocks.0.attn.scores", jnp.where(seen, of_key, -jnp.inf))
    return tap("blocks.0.attn.pattern", jax.nn.softmax(masked, axis=0).T)


def on_atoms(
    weights: Float[Array, "queries positions"], tokens: Integer[Array, " positions"]
) -> Float[Array, "queries atoms"]:
    """The attention that each query pays to each atom."""
    by_bit = [jnp.where(tokens == 1, 0, weights), jnp.where(tokens == 1, weights, 0)]
    return jnp.stack(by_bit, axis=-1).reshape(len(weights), 2 * len(tokens))


def preactivations(tables: Tables, tokens: Integer[Array, " positions"], first: int) -> Float[Array, "queries neurons"]:
    """W [x_i; attention output] of every neuron at every query from position `first` on."""
    mine = at_queries(tables.own, first)
    own = jnp.where(tokens[first:] == 1, mine[..., 1], mine[..., 0])
    mixed = on_atoms(attention(tables.scores, tokens, first), tokens) @ tables.seen.T
    return tap("blocks.0.mlp.pre", own.T + mixed)


def outputs(
    tables: Tables, readout: Float[Array, " neurons"], tokens: Integer[Array, " positions"], first: int
) -> Float[Array, " queries"]:
    """T(b)[i] = h' ReLU(W [x_i; attention output]) at the queries from position `first` on."""
    return jax.nn.relu(preactivations(tables, tokens, first)) @ readout


def at_queries(table: Float[Array, "neurons atoms"], first: int) -> Float[Array, "neurons queries 2"]:
    """A table by query (from position `first` on) and its bit."""
    return table.reshape(len(table), -1, 2)[:, first:]


# --- where the query alone decides which neurons are active -----------------------------------------------------------


class LinearPart(NamedTuple):
    """The network where the activations depend on the query and its bit only: f = constant + <kappa, attention>.

    kappa is the paper's -kappa_{i,b}, tested on every atom.
    """

    constant: Float[Array, "queries 2"]
    kappa: Float[Array, "queries 2 atoms"]


def decided(tables: Tables, first: int) -> Bool[Array, ""]:
    """Whether no input can change an activation: |own| > max |seen| (attention is a convex combination)."""
    reach = jnp.max(jnp.abs(tables.seen), axis=1)
    return jnp.all(jnp.abs(at_queries(tables.own, first)) > reach[:, None, None])


def linear_part(tables: Tables, readout: Float[Array, " neurons"], first: int) -> LinearPart:
    """The sums over the neurons that the query's own part activates; exact where `decided`."""
    own = at_queries(tables.own, first)
    active = jnp.where(own > 0, readout[:, None, None], 0)
    return LinearPart(jnp.sum(active * own, axis=0), jnp.einsum("rqb,ra->qba", active, tables.seen))


def linear_outputs(
    linear: LinearPart, scores: Float[Array, "atoms atoms"], tokens: Integer[Array, " positions"], first: int
) -> Float[Array, " queries"]:
    """The outputs, without a look at any neuron."""
    weights = on_atoms(attention(scores, tokens, first), tokens)
    bit = tokens[first:] == 1
    kappa = jnp.where(bit[:, None], linear.kappa[:, 1], linear.kappa[:, 0])
    return jnp.where(bit, linear.constant[:, 1], linear.constant[:, 0]) + jnp.sum(kappa * weights, axis=1)


def loss_of(kind: str, outputs: Float[Array, "*shape"], labels: Integer[Array, "*shape"]) -> Float[Array, "*shape"]:
    """max((-1)^y f + 1, 0), or (-1)^y f where it is linear.

    >>> loss_of("hinge", jnp.array([0.5, 0.5, -2.0], dtype=jnp.float32), jnp.array([0, 1, 0])).tolist()
    [1.5, 0.5, 0.0]
    """
    signed = jnp.where(labels == 1, -outputs, outputs)
    return jax.nn.relu(signed + 1) if kind == "hinge" else signed
