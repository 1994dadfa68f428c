"""Fully connected nets on sparse token selection: f = g(W_1 [x; y]) with a first layer of width m and any head g.

Two ways to hand over the query: as raw integers beside the tokens ("input", the literal statement of Theorem 3.5), or
exactly to the head ("head", the strongest adversary: then only the tokens squeeze through the first layer).
"""

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from stairwise.papers.selection.config import Fcn
from stairwise.papers.selection.task import Selection, SparseSelection
from stairwise.train.keys import at, role
from stairwise.train.stage import Stage, every

TEST_CHUNK = 1024


class Layer(eqx.Module):
    """x -> A x + b, entries uniform in +-1/sqrt(inputs) at the start."""

    A: Float[Array, "outputs inputs"]
    b: Float[Array, " outputs"]

    def __init__(self, inputs: int, outputs: int, key: PRNGKeyArray):
        limit = inputs**-0.5
        self.A = jax.random.uniform(role(key, "A"), (outputs, inputs), jnp.float32, -limit, limit)
        self.b = jax.random.uniform(role(key, "b"), (outputs,), jnp.float32, -limit, limit)

    def __call__(self, x: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
        return self.A @ x + self.b


class FullyConnected(eqx.Module):
    """A linear first layer padded to `widest` units, of which the first `first_width` are in use, and a ReLU head."""

    first: Layer
    head: tuple[Layer, ...]

    def __init__(self, config: Fcn, key: PRNGKeyArray):
        sizes, to_head = config.task, config.query == "head"
        inputs = sizes.length * sizes.width + (0 if to_head else sizes.sparsity)
        given = config.widest + (sizes.length if to_head else 0)
        widths = (given, config.head_width, config.head_width, sizes.width)
        self.first = Layer(inputs, config.widest, role(key, "first"))
        self.head = tuple(Layer(widths[i], widths[i + 1], at(role(key, "head"), i)) for i in range(3))

    def __call__(self, example: Selection, query: str, first_width: int | Int[Array, ""]) -> Float[Array, " width"]:
        tokens, subset = example.tokens, jnp.sort(example.subset)
        length = len(tokens)
        named = jnp.sum(jax.nn.one_hot(subset, length, dtype=tokens.dtype), axis=0)
        raw = subset.astype(tokens.dtype) / length
        hidden = self.first(tokens.ravel() if query == "head" else jnp.concatenate([tokens.ravel(), raw]))
        hidden = jnp.where(jnp.arange(len(hidden)) < first_width, hidden, 0)
        if query == "head":
            hidden = jnp.concatenate([hidden, named])
        one, two, last = self.head
        return last(jax.nn.relu(two(jax.nn.relu(one(hidden)))))


class State(NamedTuple):
    net: Any  # a FullyConnected
    optimizer: Any
    loss: Float[Array, ""]


def train_fcn(config: Fcn) -> list[Stage]:
    """Adam with a cosine schedule on fresh batches; the risk at the end is over `test_examples` fresh examples."""
    sizes = config.task
    task = SparseSelection(sizes.length, sizes.sparsity, sizes.width)

    def squared_error(net, first_width, key):
        example = task.sample(key)
        output = net(example, config.query, first_width)
        return jnp.sum((output - task.answer(example)) ** 2)

    def mean_error(net, first_width, key, count: int):
        keys = jax.vmap(partial(at, key))(jnp.arange(count, dtype=jnp.int32))
        return jnp.mean(jax.vmap(partial(squared_error, net, first_width))(keys))

    def init(trial, carry, key):
        net: Any = FullyConnected(config, key)
        return State(net, optax.scale_by_adam().init(net), jnp.float32(0))

    def tick(trial, state, key, t):
        loss, gradient = jax.value_and_grad(mean_error)(state.net, trial.config.first_width, key, config.batch)
        direction, memory = optax.scale_by_adam().update(gradient, state.optimizer)
        rate = trial.config.learning_rate * 0.5 * (1 + jnp.cos(jnp.pi * t / config.steps))
        return State(jax.tree.map(lambda p, g: p - rate * g, state.net, direction), memory, loss)

    def finish(trial, state, key):
        chunks = -(-config.test_examples // TEST_CHUNK)
        risks = jax.lax.map(
            lambda c: mean_error(state.net, trial.config.first_width, at(key, c), TEST_CHUNK),
            jnp.arange(chunks, dtype=jnp.int32),
        )
        error = jnp.std(risks) / jnp.sqrt(jnp.float32(chunks))
        return None, {"risk": jnp.mean(risks), "risk standard error": error}

    return [
        Stage(
            name="train",
            init=init,
            tick=tick,
            max_ticks=config.steps,
            measure=lambda trial, state, key, t: {"train_loss": state.loss},
            measure_at=every(config.measure_every, config.steps)[1:],
            finish=finish,
        )
    ]
