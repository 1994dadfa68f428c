"""What the claims of the theory share: the sizes they take, and the sequences that a seed means."""

from dataclasses import dataclass
from functools import cache, lru_cache

import jax
import jax.numpy as jnp
import numpy as np

from stairwise.config import Config, option, require
from stairwise.papers.parity_cot import task as tasks
from stairwise.papers.parity_cot.config.task import Task
from stairwise.train.draws import draws_of

LARGEST_CUBE = 16  # inputs whose 2^n sequences are all written down
LARGEST_BATCH = 2**24  # tokens


@dataclass(frozen=True)
class Cube(Config):
    """A parity whose inputs are all enumerated."""

    task: Task = option(Task(6, 3), "the parity")

    def check(self) -> None:
        paper_layout(self.task)
        cube_fits(self.task)


@dataclass(frozen=True)
class RandomSequences(Config):
    """Random sequences of a parity."""

    task: Task = option(Task(12, 3), "the parity")
    samples: int = option(10_000, "sequences", low=1, high=10**6)

    def check(self) -> None:
        paper_layout(self.task)
        batch_fits(self.task, self.samples)


def paper_layout(task: Task) -> None:
    """Definitions 1 and 2, and nothing beyond them."""
    require(task.layout == "paper", f"task.layout={task.layout} must be paper")
    require(task.absorbed == 1, f"task.absorbed={task.absorbed} must be 1")
    require(task.noise == 0, f"task.noise={task.noise:g} must be 0")


def cube_fits(task: Task, largest: int = LARGEST_CUBE) -> None:
    require(task.bits <= largest, f"task.bits={task.bits} must be at most {largest} for all inputs at once")


def batch_fits(task: Task, samples: int) -> None:
    tokens = samples * (task.bits + task.size + 1)
    require(tokens <= LARGEST_BATCH, f"samples={samples} is {tokens} tokens, which must be at most {LARGEST_BATCH}")


def with_chain(task: Task) -> None:
    require(task.cot, f"task.cot={task.cot} must be true")


# --- sequences --------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=32)
def problem_of(task: Task, seed: int):
    return _problem(task)(np.uint32(seed))


@lru_cache(maxsize=32)
def _problem(task: Task):
    return jax.jit(lambda seed: tasks.problem_of(task, seed))


def secret_of(task: Task, seed: int) -> np.ndarray:
    """The secret in the order of the chain (ascending without one)."""
    absorbs = np.asarray(problem_of(task, seed).absorbs)
    return np.argmax(absorbs, axis=1) if task.cot else np.flatnonzero(absorbs[0])


def cube(inputs: int) -> np.ndarray:
    """All inputs as 0/1 rows; the first bit changes fastest."""
    return (np.arange(2**inputs)[:, None] >> np.arange(inputs) & 1).astype(np.int8)


def all_sequences(task: Task, seed: int) -> np.ndarray:
    """Every sequence of the task, labels included."""
    return complete(task, seed, cube(task.bits))


def random_sequences(task: Task, samples: int, seed: int, draw: int = 0) -> np.ndarray:
    """Independent sequences; `draw` numbers different batches."""
    bits = draws_of(seed, "sequences", draw).integers(0, 2, (samples, task.bits), dtype=np.int8)
    return complete(task, seed, bits)


def complete(task: Task, seed: int, bits: np.ndarray) -> np.ndarray:
    return np.asarray(_completer()(problem_of(task, seed), jnp.asarray(bits)))


@cache
def _completer():
    return jax.jit(lambda problem, bits: jax.vmap(problem.tokens)(bits))


def random_positive(neurons: int, queries: int, seed: int, draw: int = 0) -> np.ndarray:
    """Signs of nu for 2m neurons."""
    return draws_of(seed, "signs of nu", draw).integers(0, 2, (2 * neurons, queries, 2)) == 1


def random_signs(vectors: int, width: int, random: np.random.Generator) -> np.ndarray:
    """Random sign vectors as bits, 64 to a word; bits beyond the width are 0."""
    words = random.integers(0, 256, (vectors, -(-width // 8)), dtype=np.uint8)
    if width % 8:
        words[:, -1] &= (1 << width % 8) - 1
    padded = np.zeros((vectors, -(-words.shape[1] // 8) * 8), dtype=np.uint8)
    padded[:, : words.shape[1]] = words
    return padded.view(np.uint64)


def products(left: np.ndarray, right: np.ndarray, width: int) -> np.ndarray:
    """Inner products of sign vectors of norm 1, by counting differing signs."""
    differ = [np.bitwise_count(left ^ row).sum(axis=1, dtype=np.int64) for row in right]
    return 1 - 2 * np.stack(differ, axis=1) / width


def random_gram(vectors: int, width: int, random: np.random.Generator) -> np.ndarray:
    """All inner products of random sign vectors."""
    words = random_signs(vectors, width, random)
    return products(words, words, width)


def sign_tail(signs: int, level: float) -> float:
    """The exact chance that the sum of so many independent signs is larger than `level` in size."""
    from scipy.special import betainc

    most = np.floor((signs - level) / 2)  # minus signs at which the sum is still above it
    if most >= 0 and signs - 2 * most <= level:
        most -= 1
    return 0.0 if most < 0 else 2 * float(betainc(signs - most, most + 1, 0.5))
