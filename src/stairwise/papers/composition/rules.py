"""The gradient steps of both algorithms, each as a sum over samples and what to do with it."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Integer

from stairwise.papers.composition import integer
from stairwise.papers.composition.config import Descent
from stairwise.papers.composition.model import AttentionOnly
from stairwise.papers.composition.task import Composition

Moving = tuple[Any, Any]  # the key-query matrices and the value matrices (or None)


class Rule(NamedTuple):
    """A gradient step.

    zero(model) -> total
    add(task, model, total, sequences, queries) -> total
    apply(numbers, model, total) -> (model after the step, {"update layer 1": largest |eta gradient|, ...})
    """

    zero: Callable[..., Any]
    add: Callable[..., Any]
    apply: Callable[..., tuple[AttentionOnly, dict[str, Array]]]


def cross_entropy(logits: Float[Array, "*heads alphabet"], labels: Integer[Array, "*heads"]) -> Float[Array, ""]:
    """Sum over heads of -log p(label)."""
    log_p = jax.nn.log_softmax(logits, axis=-1)
    return -jnp.sum(jnp.take_along_axis(log_p, labels[..., None], axis=-1))


# --- key-query steps through soft attention ---------------------------------------------------------------------------


def key_query_rule(config: Descent, t: int) -> Rule:
    """Algorithm 1: the loss of head t alone."""

    def loss(task: Composition, model: AttentionOnly, sequence, query) -> Float[Array, ""]:
        label = task.hop_by_doubling(sequence, model.plan[t].hops).reshape(-1)[query]
        return cross_entropy(model.head(t, sequence, query), label)

    return _descent_rule(config, t, loss)


def mixture_rule(config: Descent, t: int) -> Rule:
    """Algorithm 2: the losses of all heads, from one stream."""

    def loss(task: Composition, model: AttentionOnly, sequence, query) -> Float[Array, ""]:
        return cross_entropy(model.heads_at(sequence, query), _labels(task, model, sequence, query))

    return _descent_rule(config, t, loss)


def _labels(task: Composition, model: AttentionOnly, sequence, query) -> Integer[Array, " heads"]:
    return jnp.stack([task.hop_by_doubling(sequence, layer.hops).reshape(-1)[query] for layer in model.plan])


def _descent_rule(config: Descent, t: int, loss: Callable[..., Float[Array, ""]]) -> Rule:
    def moving(model: AttentionOnly) -> Moving:
        return model.key_query, model.values

    def total_loss(task, model: AttentionOnly, parts: Moving, sequences, queries):
        if config.trained == "current":
            parts = jax.tree.map(jax.lax.stop_gradient, parts)
            parts = _with_layer(parts, t, moving(model))
        model = eqx.tree_at(moving, model, parts, is_leaf=lambda leaf: leaf is None)
        return jnp.sum(jax.vmap(partial(loss, task, model))(sequences, queries))

    def add(task, model: AttentionOnly, total: Moving, sequences, queries) -> Moving:
        gradient = jax.grad(total_loss, argnums=2)(task, model, moving(model), sequences, queries)
        return jax.tree.map(jnp.add, total, gradient)

    def apply(numbers, model: AttentionOnly, total: Moving):
        rate = numbers["rate"] / config.samples
        key_query = tuple(W - rate * G for W, G in zip(model.key_query, total[0], strict=True))
        values = model.values
        if values is not None:
            slower = rate * numbers["values.rate"]
            values = tuple(V - slower * G for V, G in zip(values, total[1], strict=True))
        model = eqx.tree_at(moving, model, (key_query, values), is_leaf=lambda leaf: leaf is None)
        return model, _updates(rate, total[0])

    return Rule(lambda model: jax.tree.map(jnp.zeros_like, moving(model)), add, apply)
