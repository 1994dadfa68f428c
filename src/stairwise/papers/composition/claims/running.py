"""Runs of Algorithms 1 and 2 that several claims look at: each is made once."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from stairwise.lab.config import Config, option, require
from stairwise.papers.composition.claims.sizes import (
    doubling,
    few_tokens,
    hidden_of,
    random_sequences,
    small_start,
)
from stairwise.papers.composition.config import Task
from stairwise.papers.composition.theory import descent, noise, streams


@dataclass(frozen=True)
class Run(Config):
    """Algorithm 1 or 2 at a size that trains in seconds, in double precision, through soft attention."""

    task: Task = option(Task(4, 3), "the composition")
    samples: int = option(8192, "samples M of a step", low=1, high=2**18)
    rate: float = option(1e5, "learning rate eta", above=0.0)
    beta0: float = option(1.0, "scale beta0 of the readouts' start", above=0.0, high=20.0)
    sequences: int = option(120, "held-out sequences, at all positions", low=1, high=10_000)

    def check(self) -> None:
        few_tokens(self.task, 64)
        require(not doubling(self.task), f"task.blocks={self.task.blocks} must be a power of two")

    def violated(self) -> tuple[str, ...]:
        """The hypotheses of Theorems 7 and 8 on M, eta and beta0, constants and logarithms left out."""
        k, N = self.task.blocks, self.task.alphabet
        few = noise.samples_theorem(k, N)
        slow = noise.learning_rate_theorem(k, N, self.beta0, 1 / (k**2 * N**3))
        missing = small_start(self.beta0)
        if self.samples < few:
            missing += (f"samples={self.samples} must be at least k^4 N^6={few}",)
        if self.rate < slow:
            missing += (f"rate={self.rate:g} must be at least k^2 N^3 log(kN/eps)/beta0={slow:.3g}",)
        return missing


@lru_cache(maxsize=4)
def run_of(config: Run, seed: int, algorithm: str):
    """All steps of a run: (hidden permutations, steps)."""
    hidden = hidden_of(config.task, seed)
    run = {"curriculum": descent.curriculum, "mixture": descent.mixture}[algorithm]
    return hidden, run(hidden, config.samples, config.rate, config.beta0, seed)


def held_out(config: Run, seed: int) -> np.ndarray:
    return random_sequences(config.task, config.sequences, seed + 1)


def key_query_steps(taken: list[Any]) -> list[Any]:
    return [step for step in taken if step.name.startswith("KQ")]


def deviations(config: Run, seed: int, algorithm: str) -> list[Any]:
    """How far attention and stream are from the ideal after each key-query step."""
    hidden, taken = run_of(config, seed, algorithm)
    sequences = held_out(config, seed)
    return [streams.deviation(step.model, hidden, sequences) for step in key_query_steps(taken)]
