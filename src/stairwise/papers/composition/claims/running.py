"""Runs of Algorithms 1 and 2 that several claims look at: each is made once."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import equinox
import jax.numpy as jnp
import numpy as np

from stairwise.config import Config, option, require
from stairwise.lab.contract.checks import Comparison, equal, true
from stairwise.papers.composition import evaluate
from stairwise.papers.composition import task as tasks
from stairwise.papers.composition.claims.sizes import (
    doubling,
    few_tokens,
    hidden_of,
    random_sequences,
    sequences_of,
)
from stairwise.papers.composition.config import Task
from stairwise.papers.composition.theory import descent, exact, inner, literal, noise, streams
from stairwise.train.draws import draws_of

LISTED = 1296  # as many sequences are all looked at


@dataclass(frozen=True)
class AlgorithmRun(Config):
    """Algorithm 1 or 2 in double precision, through soft attention. Batches count examples, so M may be large."""

    task: Task = option(Task(2, 3), "the composition")
    samples: int = option(186_624, "samples M of a step", low=1, high=2**40)
    learning_rate: float = option(2500.0, "learning rate eta", above=0.0, stored_as="rate")
    beta0: float = option(1.0, "scale beta0 of the readouts' start", above=0.0, high=20.0)
    epsilon: float = option(1e-3, "error eps that the theorem promises", above=0.0, below=1.0)
    test_examples: int = option(
        120, "held-out sequences, where not all can be listed", low=1, high=10_000, stored_as="sequences"
    )

    def check(self) -> None:
        few_tokens(self.task, 64)
        require(not doubling(self.task), f"task.blocks={self.task.blocks} must be a power of two")


def theorem_7(config: AlgorithmRun) -> dict[str, bool]:
    """The hypotheses of Theorem 7, with the constants of its lemmas' proofs; logarithms of M's bound left out."""
    k, N, eps = config.task.blocks, config.task.alphabet, config.epsilon
    return {
        "beta0 <= 1": config.beta0 <= 1,
        "M >= k^2 N^4 d^2": config.samples >= noise.samples_lemmas(k, N),
        "eps <= 1/(k^2 N^3)": eps <= 1 / (k**2 * N**3),
        "eta >= 2 k^2 N^3 log(2kN/eps)/beta0": config.learning_rate
        >= 2 * noise.learning_rate_theorem(k, N, config.beta0, eps / 2),
    }


def theorem_8(config: AlgorithmRun) -> dict[str, bool]:
    """Those of Theorem 8: the step must make leaks smaller by (kNL)^{6L} than eps."""
    k, N, L, eps = config.task.blocks, config.task.alphabet, config.task.layers, config.epsilon
    leak = eps / 2 / float(k * N * L) ** (6 * L)
    return {
        "beta0 <= 1": config.beta0 <= 1,
        "M >= k^2 N^4 d^2": config.samples >= noise.samples_lemmas(k, N),
        "eps <= 1/(k^6 N^6)": eps <= 1 / (k * N) ** 6,
        "eps log^{2L}(1/eps) <= 1": eps * math.log(1 / eps) ** (2 * L) <= 1,
        "eta >= 2 k^2 N^3 log(2kN (kNL)^{6L}/eps)/beta0": config.learning_rate
        >= 2 * noise.learning_rate_theorem(k, N, config.beta0, leak),
    }


@lru_cache(maxsize=16)
def run_of(config: AlgorithmRun, seed: int, algorithm: str):
    """All steps of a run: (hidden permutations, steps)."""
    hidden = hidden_of(config.task, seed)
    run = {"curriculum": descent.curriculum, "mixture": descent.mixture}[algorithm]
    return hidden, run(hidden, config.samples, config.learning_rate, config.beta0, seed)


def held_out(config: AlgorithmRun, seed: int) -> np.ndarray:
    """All sequences, or some where there are too many."""
    if sequences_of(config.task) <= LISTED:
        return inner.every_tuple(config.task.blocks, config.task.alphabet)
    return random_sequences(config.task, config.test_examples, seed, "test sequences")


def key_query_steps(taken: list[Any]) -> list[Any]:
    return [step for step in taken if step.name.startswith("KQ")]


def deviations(config: AlgorithmRun, seed: int, algorithm: str) -> list[Any]:
    """How far attention and stream are from the ideal after each key-query step."""
    hidden, taken = run_of(config, seed, algorithm)
    sequences = held_out(config, seed)
    return [streams.deviation(step.model, hidden, sequences) for step in key_query_steps(taken)]


@cache
def _compiled():
    return equinox.filter_jit(evaluate.evaluate)


def measured(config: AlgorithmRun, seed: int, algorithm: str) -> list[dict[str, Any]]:
    """Loss, accuracy and sup error of every head after every step."""
    hidden, taken = run_of(config, seed, algorithm)
    task = tasks.Composition(jnp.asarray(hidden, dtype=jnp.int32))
    sequences = jnp.asarray(held_out(config, seed), dtype=jnp.int32)
    found = [(step.name, _compiled()(step.model, task, sequences)) for step in taken]
    return [{"step": name, **{key: float(value) for key, value in each.items()}} for name, each in found]


# --- the algorithms, step by step -------------------------------------------------------------------------------------


def steps_are_gradients(config: AlgorithmRun, seed: int, algorithm: str) -> Iterator[Comparison]:
    """Every step of a run against minus eta times the derivative of the loss as written, in a random direction.

    Weights before a step are those after the one before it, so each step is looked at by itself.
    """
    L, T, rate = config.task.layers, config.task.tokens, config.learning_rate
    hidden, taken = run_of(config, seed, algorithm)
    rng = draws_of(seed, "directions")
    stages = range(1, L + 1)
    if algorithm == "curriculum":
        expected = [(f"{kind}{stage}", stage, (stage,)) for stage in stages for kind in ("KQ", "Psi")]
    else:
        expected = [*((f"KQ{stage}", stage, tuple(stages)) for stage in stages), ("Psi", L + 1, tuple(stages))]
    yield true(
        "steps are taken in the order of the algorithm", [step.name for step in taken] == [e[0] for e in expected]
    )
    before = descent.start(hidden, config.beta0)
    for head in stages:
        found = np.asarray(before.readout[head - 1]).reshape(-1, config.task.alphabet)
        formula = literal.first_readout(config.task.blocks, config.task.alphabet, L, head, config.beta0)
        yield equal(f"start of Psi{head}", found, formula)
    yield true("W_KQ starts at 0", [not np.any(np.asarray(W)) for W in before.key_query])
    signal = rate * config.beta0 / T**2
    for step, (name, draw, heads) in zip(taken, expected, strict=False):
        loss = Literal(config.task, hidden, exact.batch(hidden, L, config.samples, draws_of(seed, "batch", draw)))
        weights, readouts = loss.weights(before)
        after, psi = loss.weights(step.model)
        for layer in stages:
            D = rng.standard_normal(weights[0].shape)
            found = ((after[layer - 1] - weights[layer - 1]) * D).sum()
            slope = loss.slope(weights, readouts, heads, layer, D) if name.startswith("KQ") else 0.0
            yield equal(f"{name}, W_KQ of layer {layer}", found, -rate * slope, 1e-9, scale=signal)
        moved = [np.abs(new - old).max() for new, old in zip(after, weights, strict=True)]
        yield equal(f"{name}, largest update of each layer", step.moved, moved, 1e-9, scale=signal)
        for head in stages:
            D = rng.standard_normal(readouts[0].shape)
            found = ((psi[head - 1] - readouts[head - 1]) * D).sum()
            due = name.startswith("Psi") and head in heads
            slope = loss.readout_slope(weights, readouts, head, D) if due else 0.0
            yield equal(f"{name}, Psi{head}", found, -rate * slope, 1e-9, scale=signal)
        before = step.model


class Literal:
    """The loss of a batch by `theory.literal`."""

    def __init__(self, task: Task, hidden: np.ndarray, examples: exact.Examples):
        self.task, self.width = task, task.tokens * (task.layers + 2)
        sequences, self.queries = np.asarray(examples.sequence), np.asarray(examples.query)
        self.counts = np.asarray(examples.weights).max(axis=1)
        self.X = np.stack([literal.embedding(sequence, task.layers) for sequence in sequences])
        self.labels = [
            np.array([literal.hop(hidden, s, int(q), 2**head) for s, q in zip(sequences, self.queries, strict=True)])
            for head in range(task.layers)
        ]
        self.values = [literal.copy_matrix(task.tokens, task.layers, layer) for layer in range(1, task.layers + 1)]

    def weights(self, model: Any) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """A network's key-query matrices and readouts as full matrices."""
        key_query = [literal.dense_key_query(np.asarray(W), self.task.layers) for W in model.key_query]
        return key_query, [np.asarray(psi).reshape(self.width, -1) for psi in model.readout]

    def __call__(self, weights: list[np.ndarray], readouts: list[np.ndarray], heads: tuple[int, ...]):
        """The mean over the batch of these heads' losses."""
        outputs = literal.transformer(self.X, weights, self.values)[np.arange(len(self.X)), :, self.queries]
        losses = sum(literal.cross_entropies(outputs, readouts[head - 1], self.labels[head - 1]) for head in heads)
        return np.mean(self.counts * losses)

    def slope(self, weights, readouts, heads: tuple[int, ...], layer: int, direction: np.ndarray) -> float:
        """The derivative of these heads' losses in the key-query matrix of a layer, in a direction."""

        def loss(W):
            return self([*weights[: layer - 1], W, *weights[layer:]], readouts, heads)

        return literal.slope(loss, weights[layer - 1], direction)

    def readout_slope(self, weights, readouts, head: int, direction: np.ndarray) -> float:
        """The derivative of a head's loss in its readout, in a direction."""

        def loss(psi):
            return self(weights, [*readouts[: head - 1], psi, *readouts[head:]], (head,))

        return literal.slope(loss, readouts[head - 1], direction)

    def own_gradients(self, model: Any, layer: int) -> np.ndarray:
        """The gradient of W_KQ^(l) under loss^(l) at every example, by the formula of Appendix C.2."""
        weights, readouts = self.weights(model)
        below = literal.transformer(self.X, weights[: layer - 1], self.values[: layer - 1])
        each = zip(below, self.queries, self.labels[layer - 1], strict=True)
        W, V, psi = weights[layer - 1], self.values[layer - 1], readouts[layer - 1]
        return np.stack([literal.own_gradient(X, W, V, psi, int(q), int(y)) for X, q, y in each])
