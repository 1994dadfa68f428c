"""What the claims share: the sizes they take, the hypotheses of the statements, the problem that a seed means."""

import math
from dataclasses import dataclass

import numpy as np

from stairwise.config import Config, option, require
from stairwise.papers.composition.config import Task
from stairwise.papers.composition.plan import is_power_of_two
from stairwise.train.draws import draws_of

LARGEST_ENUMERATION = 20_000  # sequences that are listed one by one
LARGEST_TOKENS = 512  # kN of a network that is written out


@dataclass(frozen=True)
class Sizes(Config):
    """The composition and nothing else."""

    task: Task = option(Task(2, 3), "the composition")

    def check(self) -> None:
        few_tokens(self.task)


@dataclass(frozen=True)
class Listed(Config):
    """A composition whose sequences can all be listed."""

    task: Task = option(Task(2, 3), "the composition")

    def check(self) -> None:
        enumerable(self.task)


@dataclass(frozen=True)
class Start(Config):
    """The same, with the readouts' start."""

    task: Task = option(Task(2, 3), "the composition")
    beta0: float = option(1.0, "scale beta0 of the readouts' start", above=0.0, high=20.0)

    def check(self) -> None:
        enumerable(self.task)


# --- what the sizes must allow ----------------------------------------------------------------------------------------


def sequences_of(task: Task) -> int:
    """(N!)^k."""
    return math.factorial(task.alphabet) ** task.blocks


def enumerable(task: Task, largest: int = LARGEST_ENUMERATION) -> None:
    small = task.blocks * math.lgamma(task.alphabet + 1) <= math.log(largest) + 1e-9
    require(
        small,
        f"task.blocks={task.blocks} of task.alphabet={task.alphabet} letters have more than {largest} sequences,"
        " which must be few enough to be listed",
    )


def few_tokens(task: Task, largest: int = LARGEST_TOKENS) -> None:
    require(
        task.tokens <= largest,
        f"task.blocks*task.alphabet={task.tokens} must be at most {largest} for a network to be written out",
    )


# --- hypotheses -------------------------------------------------------------------------------------------------------


def doubling(task: Task) -> tuple[str, ...]:
    """The paper's networks assume k = 2^{L-1}."""
    return () if is_power_of_two(task.blocks) else (f"task.blocks={task.blocks} must be a power of two",)


# with two letters half of the hidden tuples (or more) give the same function
DISTINCT = {"N >= 3": lambda config: config.task.alphabet >= 3}


# --- the problem ------------------------------------------------------------------------------------------------------


def hidden_of(task: Task, seed: int, draw: int = 0) -> np.ndarray:
    """The hidden permutations pi (k, N): the given ones, or a draw; all but `moved` are the identity if that is set."""
    k, N = task.blocks, task.alphabet
    if task.hidden:
        return np.array(task.hidden).reshape(k, N)
    rng = draws_of(seed, "hidden permutations", draw, k, N)
    drawn = rng.permuted(np.broadcast_to(np.arange(N), (k, N)), axis=1)
    if task.moved < 0:
        return drawn
    still = rng.permutation(k)[task.moved :]
    drawn[still] = np.arange(N)
    return drawn


def with_fixed_points(task: Task, seed: int) -> np.ndarray:
    """The same, with pi_1 = identity where none is given: the case in which the printed formulas differ most."""
    hidden = hidden_of(task, seed)
    if not task.hidden:
        hidden[0] = np.arange(task.alphabet)
    return hidden


def random_sequences(task: Task, count: int, seed: int, role: str = "sequences") -> np.ndarray:
    """Uniform sequences sigma (count, k, N)."""
    shape = (count, task.blocks, task.alphabet)
    return draws_of(seed, role, count).permuted(np.broadcast_to(np.arange(task.alphabet), shape), axis=2)
