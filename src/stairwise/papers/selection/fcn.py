"""Fully connected nets on sparse token selection: f = g(W_1 [x; y]) with a first layer of width m and any head g.

Two ways to hand over the query: as raw integers beside the tokens ("input", the literal statement of Theorem 3.5), or
exactly to the head ("head", the strongest adversary: then only the tokens squeeze through the first layer).
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from stairwise.papers.selection.config import Fcn
from stairwise.papers.selection.task import Selection, SparseSelection
from stairwise.train.gradient import fresh, gradient_training
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


def train_fcn(config: Fcn) -> list[Stage]:
    """Adam with a cosine schedule on fresh batches; the risk at the end is over `test_examples` fresh examples."""
    sizes = config.task
    task = SparseSelection(sizes.length, sizes.sparsity, sizes.width)

    def mean_error(trial, net, examples, key):
        def squared_error(example):
            output = net(example, config.query, trial.config.first_width)
            return jnp.sum((output - task.answer(example)) ** 2)

        return jnp.mean(jax.vmap(squared_error)(examples))

    def risk(trial, state, key):
        draw = fresh(lambda trial, key: task.sample(key), TEST_CHUNK)
        chunks = -(-config.test_examples // TEST_CHUNK)
        risks = jax.lax.map(
            lambda c: mean_error(trial, state.model, draw(trial, None, state.model, at(key, c), c), key),
            jnp.arange(chunks, dtype=jnp.int32),
        )
        error = jnp.std(risks) / jnp.sqrt(jnp.float32(chunks))
        return {"risk": jnp.mean(risks), "risk standard error": error}

    return [
        gradient_training(
            model=lambda trial, key: FullyConnected(config, key),
            batch=fresh(lambda trial, key: task.sample(key), config.batch),
            loss=mean_error,
            optimizer=lambda own: optax.adam(optax.cosine_decay_schedule(own.learning_rate, config.steps)),
            steps=config.steps,
            measure=lambda trial, state, key, t: {"train_loss": state.loss},
            measure_at=every(config.measure_every, config.steps)[1:],
            keep=None,
            finish=risk,
        )
    ]
