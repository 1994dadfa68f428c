"""Every statement of the paper as a check that can fail.

To change: one function per statement, which yields named measurements; the verdict is made from them. A theory claim
takes sizes (any of them can be set from the command line) and a seed, runs in float64, and compares a closed form with
something that does not know it; `of` names that closed form. An empirical claim judges stored trials against a line
that was written down before they ran. The documentation's page "Write a claim" has all forms.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from stairwise.paper import Config, Ledger, at_most, equal, option, population

from stairwise.skeleton.paper import model, task, theory

LEDGER = Ledger()
CLOSE = 0.05  # how far a seed may stray from the closed form


@dataclass(frozen=True)
class Sizes(Config):
    """A point of the line that gradient descent stays on; every example is enumerated."""

    length: int = option(5, "number of tokens T", low=2, high=14)
    score: float = option(0.7, "mark entry s of the query", low=-30.0, high=30.0)


@LEDGER.exact(
    "thm1",
    statement="Theorem 1",
    says="the loss is $T (1-p)^2 / (2 (T-1))$, and its gradient is the printed one, along the mark",
    of=(theory.population_loss, theory.population_gradient),
    cases=(Sizes(), Sizes(2, -1.5), Sizes(10, 3.0)),
)
def the_loss_is_a_closed_form(config: Sizes, seed: int):
    head = model.MarkAttention(jnp.array([0.0, config.score], dtype=jnp.float64))
    space = every_example(config.length)
    loss = population.population_loss(model.loss, head, space)
    yield equal("loss", loss, theory.population_loss(config.length, config.score))
    gradient = population.population_gradient(model.loss, head, space).query
    yield equal("gradient", gradient, [0.0, theory.population_gradient(config.length, config.score)])


def every_example(length: int):
    """All 2^T T examples, equally likely."""
    signs = 1.0 - 2.0 * (np.arange(2**length)[:, None] >> np.arange(length) & 1)
    values, marks = np.repeat(signs, length, axis=0), np.tile(np.arange(length), 2**length)
    return population.uniform(task.Example(jnp.asarray(values, dtype=jnp.float64), jnp.asarray(marks, dtype=jnp.int32)))


@LEDGER.empirical(
    "fig1",
    experiment="training",
    statement="Figure 1",
    says="trained on batches, every seed's attention to the mark stays within 0.05 of descent on the closed form",
    of=(theory.descent,),
)
def training_follows_the_closed_form(records: Sequence[Any]):
    for record in records:
        length = record.config.task.length
        steps, measured = record.series("attention")
        predicted = theory.descent(length, record.config.learning_rate, int(steps[-1]))[steps]
        yield at_most(f"largest gap, T={length}, seed {record.seed}", np.abs(measured - predicted), CLOSE)
