"""What the claims share: the sizes they take, the hypotheses of the theorems, and how two arrays are compared."""

import math
from dataclasses import dataclass

from stairwise.lab.config import Config, option, require
from stairwise.papers.selection.config import Task

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


def theorem_hypotheses(task: Task, **more: tuple[float, float]) -> tuple[str, ...]:
    """What Theorems 3.1 and 3.3 ask of the sizes and these sizes do not meet; `more` gives (value, largest) by name."""
    T, q = task.length, task.sparsity
    violated = []
    if q < 2:
        violated.append(f"task.sparsity={q} must be at least 2")
    if not q < T / 4:
        violated.append(f"task.sparsity={q} must be below task.length/4={T / 4:g}")
    for name, (value, largest) in more.items():
        if value > largest:
            violated.append(f"{name}={value:g} must be at most {largest:g}")
    return tuple(violated)


def accuracy_hypothesis(accuracy: float) -> tuple[str, ...]:
    """epsilon must lie below the theorem's largest."""
    return () if accuracy < 1 else (f"accuracy={accuracy:g} must be below 1",)
