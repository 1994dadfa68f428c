"""What the claims share: the sizes they take, and the hypotheses of the theorems."""

import math
from dataclasses import dataclass
from typing import Any

from stairwise.config import Config, option, require
from stairwise.papers.selection.config import Task
from stairwise.papers.selection.theory import encodings

LARGEST_SUBSETS = 200_000


@dataclass(frozen=True)
class Sizes(Config):
    """The sizes of the task and nothing else."""

    task: Task = option(Task(8, 2, 2), "sizes of the task")


@dataclass(frozen=True)
class Family(Config):
    """A point (alpha, C) of the one-hot family, and a few steps of gradient descent."""

    task: Task = option(Task(6, 2, 1), "sizes of the task")
    value_scale: float = option(0.7, "alpha, where V = alpha [I 0]", low=-100.0, high=100.0)
    attention_scale: float = option(1.3, "C, where W = C (I - 11^T/T) in the position block", low=-50.0, high=50.0)
    query_token: float = option(0.0, "every entry of x_query (the paper takes 0)", low=-100.0, high=100.0)
    learning_rate: float = option(0.0125, "learning rate eta", above=0.0, high=100.0)
    steps: int = option(400, "steps of gradient descent", low=1, high=100_000)

    def check(self) -> None:
        room(self.task)
        enumerable(self.task)


@dataclass(frozen=True)
class Codes(Config):
    """Drawn encodings, and subsets on each of them."""

    task: Task = option(Task(8, 2, 1), "sizes of the task")
    encoding_width: int = option(256, "encoding dimension d_e", low=1, high=2**16)
    threshold: float = option(1.0, "largest |<e_i, e_j>| of an admissible set of encodings", above=0.0, high=1.0)
    encodings: int = option(8, "sets of encodings to draw", low=1, high=4096)
    subsets: int = option(32, "subsets to draw on each of them", low=1, high=2**16)
    attention_scale: float = option(1.7, "C, where W = C diag(0, I)", low=0.0, high=100.0)

    def check(self) -> None:
        room(self.task)
        fits(self.task, self.encoding_width)


@dataclass(frozen=True)
class Training(Config):
    """One-hot training to a loss of epsilon."""

    task: Task = option(Task(20, 2, 5), "sizes of the task")
    accuracy: float = option(0.5, "epsilon over the largest that the theorem allows, dT/(100 (T-q) q)", low=1e-9)
    step: float = option(1.0, "eta over the largest that the theorem allows, 1/(20 d^2)", above=0.0, high=100.0)

    def check(self) -> None:
        room(self.task)
        attainable(self.task, self.accuracy)


def room(task: Task) -> None:
    """Some position must be left out of every subset."""
    require(
        task.sparsity < task.length,
        f"task.sparsity={task.sparsity} must be below task.length={task.length} (no position is left out otherwise)",
    )


def fits(task: Task, encoding_width: int) -> None:
    """Subset encodings exist only when q vectors can be independent."""
    require(
        task.sparsity <= encoding_width,
        f"encoding_width={encoding_width} must be at least task.sparsity={task.sparsity}"
        " (otherwise E_y^T E_y is singular)",
    )
    least = 1 + math.ceil(math.log2(task.length))
    require(
        encoding_width >= least,
        f"encoding_width={encoding_width} must be at least {least} for task.length={task.length} different encodings",
    )


def attainable(task: Task, accuracy: float) -> None:
    """epsilon must lie below d/(2q), the loss at zero."""
    largest = 50 * (task.length - task.sparsity) / task.length
    require(accuracy < largest, f"accuracy={accuracy:g} must be below {largest:g} (training starts at that loss)")


def enumerable(task: Task, limit: int = LARGEST_SUBSETS) -> None:
    """All subsets must be few enough to list."""
    count = math.comb(task.length, task.sparsity)
    require(
        count <= limit,
        f"task.sparsity={task.sparsity} has {count} subsets of task.length={task.length},"
        f" which must be at most {limit} to be enumerated",
    )


def theorem_3_1(config: Any) -> dict[str, bool]:
    """What Theorem 3.1 asks of the sizes, and of the accuracy where they have one."""
    T, q = config.task.length, config.task.sparsity
    met = {"q >= 2": q >= 2, "q < T/4": q < T / 4}
    if hasattr(config, "accuracy"):
        met["epsilon < dT/(100 (T-q) q)"] = config.accuracy < 1
    if hasattr(config, "step"):
        met["eta at most the largest of the theorem"] = config.step <= 1
    return met


def theorem_3_3(config: Any) -> dict[str, bool]:
    """What Theorem 3.3 asks: delta is that of the law, or certified by the threshold on inner products."""
    task = config.task
    delta = getattr(config, "isometry", 0.0) or encodings.rip_certificate(config.threshold, task.sparsity)
    return theorem_3_1(config) | {
        "(q, delta)-RIP with delta < 1/10": delta < 0.1,
        "d_e <= T d (in the proof)": config.encoding_width <= task.length * task.width,
    }
