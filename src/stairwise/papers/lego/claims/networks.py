"""Networks at a claim's sizes, the gradient that autodiff finds, and the steps at which the paper's formulas apply."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from stairwise.lab.contract.checks import TOLERANCE, equal
from stairwise.papers.lego import model as models
from stairwise.papers.lego import task as tasks
from stairwise.papers.lego.claims.sizes import Drawn, Ideal
from stairwise.papers.lego.theory import chains, exact, literal
from stairwise.train.draws import draws_of


@dataclass(frozen=True, eq=False)
class Case:
    """A task, a network, chains, and per chain the paper's quantities at each of the steps."""

    task: Any
    model: Any
    chains: Any
    steps: tuple[int, ...]
    found: list[list[Any]]

    def mean(self, formula: Callable[[Any], Any]) -> Any:
        """The expectation over chains of the sum over steps."""
        total = [formula(step) for row in self.found for step in row]
        return sum(total[1:], start=total[0]) / len(self.found)

    @cached_property
    def gradient(self) -> Any:
        """Minus the gradient of the mean loss, by autodiff; its leaves are NumPy arrays."""
        return jax.tree.map(np.asarray, exact.descent(exact.traced(self.model), self.task, self.chains, self.steps))


def equals(pairs: Mapping[str, tuple[Any, Any]], tolerance: float = TOLERANCE):
    """Every pair (computed, formula) by its name."""
    for name, (computed, formula) in pairs.items():
        yield equal(name, computed, formula, tolerance)


def task_of(config: Any) -> Any:
    return tasks.lego(config.task.group, config.task.variables, config.task.length)


@lru_cache(maxsize=24)
def drawn(config: Drawn, seed: int, steps: tuple[int, ...], value_only: bool = False) -> Case:
    """Random W and Q: all of Q for the whole clause, its blocks Q43 and Q44 for the value token alone."""
    task = task_of(config)
    rng, d = draws_of(seed, "weights and scores", config.neurons), task.vocabulary
    W = config.sigma0 * rng.standard_normal((5, d, 1 if value_only else 5, d, config.neurons))
    if value_only:
        scores = models.SparseScores(*(jnp.asarray(config.spread * rng.standard_normal((d, d))) for _ in range(2)))
    else:
        scores = models.FullScores(jnp.asarray(config.spread * rng.standard_normal((5, d, 5, d))))
    model = models.ClauseTransformer(jnp.asarray(W), scores, config.bias, config.clip, config.rho, config.q)
    return case_of(task, model, chains.drawn(task, seed, config.samples), steps)


@lru_cache(maxsize=24)
def ideal(config: Ideal, seed: int, steps: tuple[int, ...], beyond: float = 1.0) -> Case:
    """The ideal FFN with one spare neuron per class, whose weights are zero; `beyond` multiplies its features."""
    task = task_of(config)
    clip = models.logit_clip(task.vocabulary, config.clip_factor)
    scores = models.symmetric_scores(task, *config.scores, dtype=jnp.float64)
    model = models.ideal(task, clip=clip, rho=config.rho, q=config.q, scores=scores, dtype=jnp.float64)
    spare = jnp.asarray(np.pad(beyond * np.asarray(model.weights), ((0, 0),) * 4 + ((0, 1),)))
    model = eqx.tree_at(lambda network: network.weights, model, spare)
    return case_of(task, model, chains.drawn(task, seed, config.samples), steps)


def case_of(task: Any, model: Any, examples: Any, steps: tuple[int, ...]) -> Case:
    network, L = literal.network_of(model), task.length
    first = 5 - model.weights.shape[2]

    def at(row: np.ndarray, step: int) -> Any:
        return literal.step_of(network, row[: L + step], L, row[L + step, first:])

    found = [[at(row, step) for step in steps] for row in chains.sentences(task, examples)]
    return Case(task, model, examples, steps, found)
