"""The gradient steps of both algorithms: what a block of samples adds to a sum, and the step that the sum means.

Two ways to the same numbers: `soft` differentiates through soft attention, `counted` counts block indices, which is
right only where the layers below are saturated and right.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Integer

from stairwise.papers.composition import integer
from stairwise.papers.composition.config import Descent
from stairwise.papers.composition.model import AttentionOnly
from stairwise.papers.composition.task import Composition


class Way(NamedTuple):
    """How gradients are found.

    zero(model) -> total
    key_query[t](task, model, total, sequences, queries) -> total        one function a key-query step
    readout(task, model, total, sequences, queries, t) -> total          t is traced
    apply(trial, model, total, t) -> (model after the step, largest |eta gradient| of each key-query matrix)
    """

    zero: Callable[..., Any]
    key_query: list[Callable[..., Any]]
    readout: Callable[..., Any]
    apply: Callable[..., tuple[AttentionOnly, Float[Array, " layers"]]]


class Sums(NamedTuple):
    """Gradients summed over samples: key-query matrices, value matrices (if any), readouts."""

    key_query: Any
    values: Any
    readout: Float[Array, "heads stream width alphabet"]


class Tables(NamedTuple):
    """Counts summed over samples: for the key-query matrix of every layer, and for the current readout."""

    pairs: list[integer.Counts]
    letters: Integer[Array, "stream tokens alphabet"]


def cross_entropy(logits: Float[Array, "*heads alphabet"], labels: Integer[Array, "*heads"]) -> Float[Array, "*heads"]:
    """-log p(label) of every head."""
    log_p = jax.nn.log_softmax(logits, axis=-1)
    return -jnp.take_along_axis(log_p, labels[..., None], axis=-1)[..., 0]


def labels_at(task: Composition, model: AttentionOnly, sequence, query) -> Integer[Array, " heads"]:
    """What every head should say."""
    return jnp.stack([task.hop_by_doubling(sequence, layer.hops).reshape(-1)[query] for layer in model.plan])


def one_hop_loss(t: int, task: Composition, model: AttentionOnly, sequence, query) -> Float[Array, ""]:
    """Algorithm 1: the loss of head t alone."""
    label = task.hop_by_doubling(sequence, model.plan[t].hops).reshape(-1)[query]
    return cross_entropy(model.head(t, sequence, query), label)


def all_hops_loss(task: Composition, model: AttentionOnly, sequence, query) -> Float[Array, ""]:
    """Algorithm 2: the losses of all heads, from one stream."""
    return jnp.sum(cross_entropy(model.heads_at(sequence, query), labels_at(task, model, sequence, query)))


# --- through soft attention -------------------------------------------------------------------------------------------


def soft(config: Descent) -> Way:
    """Autodiff of the losses as they stand."""
    if config.algorithm == "mixture":
        losses = [all_hops_loss] * (config.steps if config.trained == "current" else 1)
    else:
        losses = [partial(one_hop_loss, t) for t in range(config.steps)]
    everyone = config.algorithm == "mixture"

    def zero(model: AttentionOnly) -> Sums:
        return jax.tree.map(jnp.zeros_like, Sums(model.key_query, model.values, model.readout))

    def add_key_query(loss, t: int, task, model: AttentionOnly, total: Sums, sequences, queries) -> Sums:
        return in_pieces(config.piece, partial(add_key_query_piece, loss, t, task, model), total, sequences, queries)

    def add_readout(task, model: AttentionOnly, total: Sums, sequences, queries, t) -> Sums:
        return in_pieces(config.piece, partial(add_readout_piece, task, model, t), total, sequences, queries)

    def add_key_query_piece(loss, t: int, task, model: AttentionOnly, total: Sums, sequences, queries) -> Sums:
        def total_loss(key_query, values):
            held = replace(model, key_query=_held(config, t, key_query), values=_held(config, t, values))
            return jnp.sum(jax.vmap(partial(loss, task, held))(sequences, queries))

        key_query, values = jax.grad(total_loss, argnums=(0, 1))(model.key_query, model.values)
        return total._replace(
            key_query=jax.tree.map(jnp.add, total.key_query, key_query),
            values=jax.tree.map(jnp.add, total.values, values),
        )

    def add_readout_piece(task, model: AttentionOnly, t, total: Sums, sequences, queries) -> Sums:
        columns = jax.vmap(model.columns)(sequences, queries)
        labels = jax.vmap(partial(labels_at, task, model))(sequences, queries)
        counts = jnp.ones(model.layers, dtype=bool) if everyone else jnp.arange(model.layers, dtype=jnp.int32) == t

        def total_loss(readout):
            logits = jnp.einsum("sbu,hbun->shn", columns, readout, precision="highest")
            return jnp.sum(cross_entropy(logits, labels), where=counts)

        return total._replace(readout=total.readout + jax.grad(total_loss)(model.readout))

    def apply(trial, model: AttentionOnly, total: Sums, t):
        rate = trial.config.learning_rate / config.samples
        values = model.values
        if values is not None:
            values = tuple(V - rate * trial.config.values.rate * G for V, G in zip(values, total.values, strict=True))
        stepped = replace(
            model,
            key_query=tuple(W - rate * G for W, G in zip(model.key_query, total.key_query, strict=True)),
            values=values,
            readout=model.readout - rate * total.readout,
        )
        return stepped, rate * jnp.stack([jnp.max(jnp.abs(G)) for G in total.key_query])

    return Way(zero, [partial(add_key_query, loss, t) for t, loss in enumerate(losses)], add_readout, apply)


def in_pieces(size: int, add: Callable[..., Sums], total: Sums, sequences, queries) -> Sums:
    """A block of samples added `size` at a time, so that the memory of a piece is all that autodiff needs."""
    if len(queries) <= size:
        return add(total, sequences, queries)
    pieces = (sequences.reshape(-1, size, *sequences.shape[1:]), queries.reshape(-1, size))
    return jax.lax.scan(lambda total, piece: (add(total, *piece), None), total, pieces)[0]


def _held(config: Descent, t: int, matrices):
    """The matrices, of which only the current layer's get a gradient if only that one is trained."""
    if matrices is None or config.trained == "all":
        return matrices
    return tuple(one if layer == t else jax.lax.stop_gradient(one) for layer, one in enumerate(matrices))


# --- by counts --------------------------------------------------------------------------------------------------------


def counted(config: Descent) -> Way:
    """Algorithm 1 by counts, for one-hot codes and plain copies as values."""
    task, plan = config.task, config.task.plan

    def zero(model: AttentionOnly) -> Tables:
        pairs = [integer.no_counts(layer, task.tokens) for layer in range(config.steps)]
        return Tables(pairs, jnp.zeros((task.layers + 2, task.tokens, task.alphabet), dtype=jnp.int32))

    def add_key_query(t: int, task: Composition, model, total: Tables, sequences, queries) -> Tables:
        pairs = list(total.pairs)
        pairs[t] = integer.add_pairs(pairs[t], plan, t, task.hidden, sequences, queries)
        return total._replace(pairs=pairs)

    def add_readout(task: Composition, model, total: Tables, sequences, queries, t) -> Tables:
        return total._replace(letters=integer.add_letters(total.letters, plan, task.hidden, sequences, queries, t))

    def apply(trial, model: AttentionOnly, total: Tables, t):
        rate, beta0 = trial.config.learning_rate, trial.config.beta0
        steps = [rate * integer.key_query_gradient(one, task.alphabet, beta0, config.samples) for one in total.pairs]
        key_query = [W - step for W, step in zip(model.key_query, steps, strict=False)]
        gradient = integer.readout_gradient(total.letters, t, beta0, config.samples)
        stepped = replace(
            model,
            key_query=(*key_query, *model.key_query[len(steps) :]),
            readout=model.readout.at[t].add(-rate * gradient),
        )
        sizes = jnp.stack([jnp.max(jnp.abs(step)) for step in steps])
        return stepped, jnp.pad(sizes, (0, task.layers - len(steps)))

    return Way(zero, [partial(add_key_query, t) for t in range(config.steps)], add_readout, apply)
