"""Descents of attention that several claims look at, in the four scalars: each is made once."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from stairwise.config import option
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
    """What stage k did: its length, its path, and how many of its labels were right."""

    length: int
    path: Any
    label_accuracy: float

    @property
    def scores(self) -> np.ndarray:
        return self.path.scores[-1]


@lru_cache(maxsize=8)
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
        done.append(StageEnd(2**k, path, float(right)))
    return tuple(done)


@lru_cache(maxsize=1)
def _labelled():
    """Compiled once for all stages."""
    import equinox

    return equinox.filter_jit(algorithms.self_labelled)
