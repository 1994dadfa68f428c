"""What the claims share: the sizes they take, hypotheses, and the problem that a seed means."""

import math
from dataclasses import dataclass
from functools import cache

import jax
import numpy as np

from stairwise.config import Config, option, require
from stairwise.papers.parity_onestep import links
from stairwise.papers.parity_onestep.config import LinkFunction, Task
from stairwise.papers.parity_onestep.theory import census
from stairwise.tasks import decomposition
from stairwise.train.draws import draws_of

LARGEST_CUBE = 16  # bits of a cube that is kept in float64 with all its tokens
LARGEST_CLASS = 20_000  # parities whose gradients are all kept
LARGEST_ARRAY = 2**26  # numbers in one array (half a GiB)


# --- configs ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sizes(Config):
    """The parity and nothing else."""

    task: Task = option(Task(16, 8), "the parity")


@dataclass(frozen=True)
class Linked(Config):
    """A link function and nothing else."""

    link: LinkFunction = option(LinkFunction(), "the link function")


SHIPPED = (
    LinkFunction("poly4"),
    LinkFunction("cos"),
    LinkFunction("requ", 4.0),
    LinkFunction("requ", 3.0),
    LinkFunction("requ", 2.5),
    LinkFunction("requ", 2.1),
)


# --- what the sizes must allow ----------------------------------------------------------------------------------------


def fits(samples: int, task: Task) -> None:
    """The token matrix must fit into memory."""
    tokens = task.bits + task.size - 1
    require(
        samples * tokens <= LARGEST_ARRAY,
        f"samples={samples} times task.bits+task.size-1={tokens} must be at most {LARGEST_ARRAY}",
    )


def cube_fits(task: Task, largest: int = LARGEST_CUBE) -> None:
    require(task.bits <= largest, f"task.bits={task.bits} must be at most {largest} for the whole cube")


def class_fits(task: Task, largest: int = LARGEST_CLASS) -> None:
    """All parities must be few enough to look at each."""
    cube_fits(task)
    parities = math.comb(task.bits, task.size)
    require(
        parities <= largest,
        f"task.size={task.size} has {parities} parities of task.bits={task.bits}, which must be at most {largest}",
    )


def complete_tree(task: Task) -> bool:
    """The paper assumes k = 2^v, decomposed by the complete tree."""
    return not task.size & (task.size - 1) and task.tree == "balanced"


def bend(link: LinkFunction) -> float:
    """How far from 0 the link is quadratic: (K-2)/K for straight lines of slope K; smooth links bend everywhere."""
    return (link.slope - 2) / link.slope if link.name == "requ" else 1.0


def of_order_d(task: Task) -> bool:
    """Theorem 2 needs k and d-k of order d; at one size only the extremes can be told apart."""
    return 8 * min(task.size, task.bits - task.size) >= task.bits


# --- the problem ------------------------------------------------------------------------------------------------------


def secret_of(task: Task, seed: int) -> tuple[int, ...]:
    """The secret positions: the given ones, or a draw."""
    drawn = draws_of(seed, "secret", task.bits, task.size).permutation(task.bits)[: task.size]
    return task.secret or tuple(sorted(drawn.tolist()))


def tree_of(task: Task, seed: int):
    """The decomposition of the secret, built in one compiled call (its small operations one by one cost seconds)."""
    leaves = np.array(sorted(secret_of(task, seed)), dtype=np.int32)
    return _builder(task.tree, task.bits)(leaves)


@cache
def _builder(tree: str, bits: int):
    build = {"balanced": decomposition.balanced, "chain": decomposition.chain}[tree]
    return jax.jit(lambda leaves: build(leaves, bits))


def link_of(config: LinkFunction):
    return links.make_link(config.name, config.slope)


def bits_of(task: Task, samples: int, seed: int, draw: int = 0, role: str = "inputs") -> np.ndarray:
    """Uniform +-1 inputs (samples, d); `draw` numbers independent sets of them."""
    return 1 - 2 * draws_of(seed, role, draw).integers(0, 2, (samples, task.bits), dtype=np.int8)


def tokens_of(tree, x: np.ndarray) -> np.ndarray:
    """Inputs and true nodes, in float64."""
    return census.complete(np.asarray(tree.children), x.astype(np.float64))
