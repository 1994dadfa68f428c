"""Descents of attention that several claims look at, in the four scalars: each is made once."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from stairwise.config import option
from stairwise.lab.contract.checks import equal, true
from stairwise.papers.lego import algorithms, reduced
from stairwise.papers.lego.config.dynamics import AttentionRun, Doubling, Reduced
from stairwise.papers.lego.theory import lengths
from stairwise.train import keys


def network_of(config: Reduced) -> Any:
    constants = config.network
    made = reduced.ideal_values(config.group, config.variables, constants.clip_factor, constants.rho, constants.power)
    return jax.tree.map(jnp.asarray, made)  # numbers that are arrays do not start a new compilation


def clip_of(config: Reduced) -> float:
    return config.network.clip_factor * math.log(config.vocabulary)


def level_of(config: AttentionRun) -> float:
    """The loss below which the run ends; 0 where it never does."""
    if config.stop == "never":
        return 0.0
    if config.stop == "power":
        return config.vocabulary**-config.exponent
    return math.exp(lengths.window_log_loss(config.network.clip_factor, clip_of(config)))


@lru_cache(maxsize=64)
def path_of(config: AttentionRun) -> Any:
    """The whole descent from Q = 0."""
    populations = tuple(reduced.two_steps(config.group, step) for step in config.supervised)
    zero = jnp.zeros(4, dtype=algorithms.real())
    return algorithms.path(
        network_of(config), populations, zero, config.learning_rate, config.variables, level_of(config), config.steps
    )


def written_out(config: AttentionRun):
    """What a descent of four scalars stands for: attention over a list of clauses, and steps on whole matrices."""
    scores, length, step = np.array([0.4, -0.3, 0.7, 0.1]), 5, 3
    kinds = np.repeat(np.arange(4), [1, length - 1, 1, step - 1])  # every clause that step 3 of 5 sees
    clauses = np.exp(scores[kinds]) / np.exp(scores[kinds]).sum()
    masses = np.bincount(kinds, clauses)
    yield equal("attention, clause by clause", np.asarray(reduced.shares(jnp.asarray(scores), length, step)), masses)
    seen = [np.cos(np.arange(4.0)).reshape(2, 2), np.eye(2), np.array([0.0, 1.0]), np.array([0.5, 0.5])]
    context = reduced.Context(*map(jnp.asarray, (*seen, 0, length, step)))
    found, predicates = reduced.matches(jnp.asarray(scores), context)
    total = sum(mass * each for mass, each in zip(masses, seen, strict=True))
    yield equal("matches, clause by clause", np.asarray(found), total)
    yield equal("mass on predicates", float(predicates), clauses[kinds < 2].sum())
    # a loss whose gradient is known: the means of the diagonals and of the other entries, with some weights
    size, weights, rate = 4, np.array([3.0, -2.0, 1.0, 5.0]), 0.1
    on = np.eye(size, dtype=bool)
    after = []
    for diagonal in (0, 2):
        Q = np.where(on, scores[diagonal], scores[diagonal + 1])
        down = np.where(on, weights[diagonal] / on.sum(), weights[diagonal + 1] / (~on).sum())
        after += [(Q - rate * down)[0, 0], (Q - rate * down)[0, 1]]
    moved = reduced.descended(jnp.asarray(scores), jnp.asarray(weights), rate, size)
    yield equal("a step on whole matrices", np.asarray(moved), after)
    # what the first steps take from the loss, at the rate eta |X|/loss; the trapezoid rule is off by h^2/12, and the
    # loss changes with B times the scores
    path, n = path_of(config), config.variables
    moves, losses = np.diff(path.scores[:5], axis=0), np.asarray(path.losses[:5])
    gradients = -moves * np.array([n, n * (n - 1)] * 2) * losses[:-1, None] / (config.learning_rate * n)
    falls = ((gradients[:-1] + gradients[1:]) / 2 * moves[:-1]).sum(axis=1)
    if len(falls):
        yield true("the first steps go down", falls < 0)
    if len(falls) and (falls < 0).all():
        off = (clip_of(config) * float(np.abs(moves).max())) ** 2 / 12
        taken = np.diff(losses)[:-1] / falls
        yield equal("what the first steps take from the loss, over what the gradient says", taken, 1.0, off)


def accuracies(config: Reduced, scores: np.ndarray, length: int, most: int, seed: int) -> dict[str, float]:
    """Roll-outs at one length; `most` pads, so that one compiled program serves all."""
    table = jnp.asarray(config.group.table, dtype=jnp.int32)
    key = keys.at(keys.role_key(seed, "roll-out"), length)
    found = reduced.chain_accuracy(
        network_of(config),
        table,
        jnp.asarray(scores, dtype=algorithms.real()),
        key,
        jnp.asarray(length, dtype=jnp.int32),
        most,
        config.test_examples,
    )
    return {name: float(value) for name, value in found.items()}


# --- Algorithm 2 ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stages(Doubling):
    """Algorithm 2 on the ideal network, at a size that takes seconds."""

    stop: str = option(
        "power", "a stage ends at d^-exponent, or at e^{(-1/2 + 3.01 c1) 2B}", choices=("power", "window")
    )


@dataclass(frozen=True)
class StageEnd:
    """What stage k did: its length, its path, how many of its labels were right, and what its contexts ask for.

    asked    every (L, step) among them
    derived  the share of them whose target is what the clause of their step makes of the answer before
    """

    length: int
    path: Any
    label_accuracy: float
    asked: tuple[tuple[int, int], ...]
    derived: float

    @property
    def scores(self) -> np.ndarray:
        return self.path.scores[-1]


@lru_cache(maxsize=24)
def stages_of(config: Stages, seed: int) -> tuple[StageEnd, ...]:
    """Every stage of one run."""
    network, most = network_of(config), 2**config.stages
    if config.stop == "power":
        level = config.vocabulary**-config.exponent
    else:
        level = math.exp(lengths.window_log_loss(config.network.clip_factor, clip_of(config)))
    scores, done = jnp.zeros(4, dtype=algorithms.real()), []
    for k in range(1, config.stages + 1):
        population, right = reduced.two_steps(config.group, 2), 1.0
        if k > 1:
            key = keys.at(keys.role_key(seed, "stage"), k)
            length = jnp.asarray(2**k, dtype=jnp.int32)
            population, right = _labelled()(config, network, scores, length, most, key)
        path = algorithms.path(
            network, (population,), scores, config.learning_rate, config.variables, level, config.steps
        )
        scores = jnp.asarray(path.scores[-1])
        done.append(StageEnd(2**k, path, float(right), *_asked_for(population.contexts)))
    return tuple(done)


def every_stage(config: Stages, seed: int):
    """Algorithm 2 was run to its end: no stage is missing, and each has reached its loss."""
    done = stages_of(config, seed)
    yield true("lengths 2, 4, 8, ...", [stage.length for stage in done] == [2 * 2**k for k in range(config.stages)])
    yield true("every stage reaches its loss", [stage.path.reached for stage in done])


def _asked_for(contexts: reduced.Context) -> tuple[tuple[tuple[int, int], ...], float]:
    near, own, target = (np.asarray(part) for part in (contexts.near, contexts.own, contexts.target))
    made = np.argmax(np.einsum("nij,nj->ni", near, own), axis=1)
    sizes = zip(np.asarray(contexts.length).tolist(), np.asarray(contexts.step).tolist(), strict=True)
    return tuple(sorted(set(sizes))), float(np.mean(made == target))


@lru_cache(maxsize=1)
def _labelled():
    """Compiled once for all stages."""
    import equinox

    return equinox.filter_jit(algorithms.self_labelled)
