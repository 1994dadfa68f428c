"""The one training of the atlas: any sequence task, any parts, in looks at 1, 2 and 4 times the length of training.

In a chain every row reads the true steps before it. All rows are right then exactly when a greedy roll-out is right to
its end: up to its first error it reads the same.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Integer, PRNGKeyArray

from stairwise.measure.accuracy import share
from stairwise.nn.attention import Scale, normals
from stairwise.nn.transformer import Transformer
from stairwise.papers.crossings.atlas.config import TIMES, Cell
from stairwise.papers.crossings.atlas.task import GroupWords, group_words
from stairwise.papers.crossings.learning import in_looks
from stairwise.papers.lego.task import Lego, lego
from stairwise.train.keys import at
from stairwise.train.loop import RunningTrial
from stairwise.train.own import MakeModel, ModelSizes, builder
from stairwise.train.schemes import supervised
from stairwise.train.stage import Stage, every


class Reader(eqx.Module):
    """The standard transformer on the tokens of any sequence task: the tokens of a position are embedded and added.

    >>> model = Reader(vocabulary=3, slots=2, std=0.1, key=jax.random.key(0), width=8, layers=1, heads=2, causal=True,
    ...     positions="none")
    >>> model(jnp.array([[0, 1], [2, 2], [1, 0]])).shape
    (3, 2, 3)
    """

    table: Float[Array, "slots vocabulary width"]
    body: Transformer

    def __init__(self, *, vocabulary: int, slots: int, width: int, std: Scale, key: PRNGKeyArray, **parts: Any):
        """`parts` are arguments of `Transformer`."""
        table_key, body_key = jax.random.split(key)
        self.table = slots**-0.5 * normals(table_key, (slots, vocabulary, width))[0]
        self.body = Transformer(vocab=None, outputs=slots * vocabulary, width=width, std=std, key=body_key, **parts)

    def __call__(self, tokens: Integer[Array, "length *slots"]) -> Float[Array, "length *slots vocabulary"]:
        slots, vocabulary, _ = self.table.shape
        one_hot = jax.nn.one_hot(tokens.reshape(-1, slots), vocabulary, dtype=self.table.dtype)
        logits = self.body(jnp.einsum("lsv,svw->lw", one_hot, self.table))
        return logits.reshape(*tokens.shape, vocabulary)


def training(config: Cell) -> list[Stage]:
    """The one stage: the whole budget, and the look at which the length of training was first solved."""
    task = task_of(config)
    sizes = {"vocabulary": task.vocabulary, "slots": task.slots}
    parts = config.model.arguments(config.longest)

    def initial(trial: RunningTrial[Cell], key: PRNGKeyArray) -> Reader:
        return Reader(**sizes, std=trial.config.model.std, key=trial.key("model"), **parts)

    return [stage(config, initial)]


def training_own(make_model: MakeModel, config: Cell) -> list[Stage]:
    """The same of a model of the user's own."""
    task = task_of(config)
    slots = task.slots if task.slots > 1 else None
    build = builder(make_model, ModelSizes(task.vocabulary, task.vocabulary, config.longest, slots))
    return [stage(config, lambda trial, key: build(trial.key("model")))]


def stage(config: Cell, model: Callable[..., Any]) -> Stage:
    """Training of a model, which goes on after success, so that all cells are tested at equal budgets."""
    return in_looks(
        model=model,
        **supervised(task_of(config), config.batch, config.supervision),
        look=look,
        look_at_start=False,
        steps=config.measure_every,
        looks=config.looks,
        threshold=config.threshold,
        measure_at=every(1, config.looks)[1:],
        stop=False,
    )


def task_of(config: Cell) -> GroupWords | Lego:
    """The sequence task of a cell, at the length of training."""
    if config.told == "word":
        return group_words(config.action, config.length)
    return lego(config.action, config.variables, config.length)


def look(trial: RunningTrial[Cell], model: Any) -> dict[str, Float[Array, ""]]:
    """At each length the share of sequences with every asked row right, and the share with the last one right."""
    config = trial.config
    found = {}
    for times in TIMES:
        task: Any = task_of(config).at(times * config.length)
        keys = jax.vmap(partial(at, trial.key(f"test {times}")))(jnp.arange(config.test_examples, dtype=jnp.int32))

        def right(key: PRNGKeyArray, task=task) -> tuple[Array, Array]:
            sentence = task.sentence(task.sample(key), config.supervision)
            told = jnp.argmax(model(sentence.tokens), axis=-1) == sentence.targets
            return jnp.all(told | (sentence.weights == 0)), jnp.all(told[-1])

        exact, last = jax.vmap(right)(keys)
        found |= {f"exact {times}": share(exact), f"last {times}": share(last)}
    return found | {"accuracy": found["exact 1"]}
