"""Losses and gradients of the theory's transformer over given examples: all of them (the population), or a batch.

An example is (sequence, query, labels): one token, with the label of every head. Heads and layers count from 1 here, as
in the paper.
"""

import math
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Integer

from stairwise.config import require
from stairwise.measure import population
from stairwise.papers.composition.model import AttentionOnly
from stairwise.papers.composition.task import Composition
from stairwise.papers.composition.theory.inner import every_tuple


class Examples(NamedTuple):
    """Sequences with one queried token each, hop^{2^{l-1}} there for every head l, and how much its loss counts.

    A sequence may have several tokens; the other three then have an axis for them before that of the heads.
    """

    sequence: Integer[Array, "*count blocks alphabet"]
    query: Integer[Array, "*count"]
    labels: Integer[Array, "*count heads"]
    weights: Float[Array, "*count heads"]


def labelled(hidden: np.ndarray, heads: int, sequences: np.ndarray, queries: np.ndarray) -> Examples:
    """The examples with these sequences and tokens, all heads weighing 1."""
    k = len(hidden)
    require(2 ** (heads - 1) <= k, f"task.blocks={k} must be a power of two: head l learns the hop of 2^(l-1) blocks")
    sequence, query = jnp.asarray(sequences, dtype=jnp.int32), jnp.asarray(queries, dtype=jnp.int32)
    found = _labels(jnp.asarray(hidden, dtype=jnp.int32), sequence, query, heads)
    return Examples(sequence, query, found, jnp.ones(found.shape, dtype=jnp.float64))


@partial(jax.jit, static_argnames="heads")
def _labels(hidden: Array, sequences: Array, queries: Array, heads: int) -> Array:
    task = Composition(hidden)

    def labels(sequence, query):
        return jnp.stack([task.hop(sequence, 2**head).reshape(-1)[query] for head in range(heads)])

    return jax.vmap(labels)(sequences, queries)


def of_heads(examples: Examples, *heads: int) -> Examples:
    """The examples with the losses of these heads only. Weights are data, so all choices share one compiled program."""
    chosen = jnp.zeros(examples.weights.shape[1], dtype=jnp.float64).at[np.array(heads) - 1].set(1.0)
    return examples._replace(weights=examples.weights * chosen)


def different(hidden: np.ndarray) -> int:
    """(N!)^k kN: how many examples there are."""
    return math.factorial(hidden.shape[1]) ** len(hidden) * hidden.size


def everything(hidden: np.ndarray, heads: int) -> Examples:
    """Every sequence with every query."""
    sequences = every_tuple(*hidden.shape)
    tokens = hidden.size
    return labelled(hidden, heads, np.repeat(sequences, tokens, axis=0), np.tile(np.arange(tokens), len(sequences)))


def drawn(hidden: np.ndarray, heads: int, samples: int, rng: np.random.Generator) -> Examples:
    """M independent examples."""
    k, N = hidden.shape
    sequences = rng.permuted(np.broadcast_to(np.arange(N), (samples, k, N)), axis=2)
    return labelled(hidden, heads, sequences, rng.integers(0, k * N, samples))


def batch(hidden: np.ndarray, heads: int, samples: int, rng: np.random.Generator) -> Examples:
    """M independent examples, to be averaged: where there are fewer different ones, each once with its count as weight.

    The mean over the batch is that over M examples, at the cost of all different ones.
    """
    count = different(hidden)
    if samples < count:
        return drawn(hidden, heads, samples, rng)
    listed = everything(hidden, heads)
    share = rng.multinomial(samples, np.full(count, 1 / count)) * (count / samples)
    return listed._replace(weights=listed.weights * share[:, None])


def loss(model: AttentionOnly, example: Examples) -> Float[Array, ""]:
    """The weighted sum of the heads' cross-entropies at one example; the mean of it where there are several queries."""
    log_p = jax.nn.log_softmax(model.heads(example.sequence)[:, example.query], axis=-1)
    labels, weights = (jnp.moveaxis(each, -1, 0) for each in (example.labels, example.weights))
    picked = jnp.take_along_axis(log_p, labels[..., None], axis=-1)[..., 0]
    return -jnp.mean(jnp.sum(weights * picked, axis=0))


def mean_loss(model: AttentionOnly, examples: Examples) -> float:
    return float(population.population_loss(loss, model, *_space(examples)))


def mean_gradient(model: AttentionOnly, examples: Examples) -> AttentionOnly:
    """The gradient of the mean loss, in key-query matrices and readouts (and value matrices, if there are any)."""
    return population.population_gradient(loss, model, *_space(examples))


def _space(examples: Examples) -> tuple[population.Enumeration, int]:
    """The examples as a space, and how many of them go through the model at once.

    Where every sequence is there with every query, one after another, it goes through the model once for all of them.
    """
    sequences = np.asarray(examples.sequence)
    tokens = sequences[0].size
    if len(sequences) % tokens == 0:
        each = sequences.reshape(-1, tokens, *sequences.shape[1:])
        if np.array_equal(each, np.broadcast_to(each[:, :1], each.shape)):
            told = jax.tree.map(lambda leaf: leaf.reshape(-1, tokens, *leaf.shape[1:]), examples)
            examples = told._replace(sequence=told.sequence[:, 0])
    count = len(examples.sequence)
    return population.uniform(examples), -(-count // -(-count // population.CHUNK))


@eqx.filter_jit
def largest_gradients(model: AttentionOnly, examples: Examples) -> Float[Array, "count layers"]:
    """max |gradient| of each layer's key-query matrix, example by example."""

    def largest(example):
        gradient = jax.grad(lambda matrices: loss(with_key_query(model, matrices), example))(model.key_query)
        return jnp.stack([jnp.max(jnp.abs(matrix)) for matrix in gradient])

    return jax.lax.map(largest, examples, batch_size=32)


def with_key_query(model: AttentionOnly, matrices: tuple) -> AttentionOnly:
    return AttentionOnly(tuple(matrices), model.readout, model.values, model.codes, plan=model.plan)


def with_readout(model: AttentionOnly, readout: Array) -> AttentionOnly:
    return AttentionOnly(model.key_query, readout, model.values, model.codes, plan=model.plan)


def only_layers(model: AttentionOnly, upto: int) -> AttentionOnly:
    """The model with W_KQ = 0 in all layers after `upto`."""
    kept = [matrix if layer < upto else jnp.zeros_like(matrix) for layer, matrix in enumerate(model.key_query)]
    return with_key_query(model, tuple(kept))
