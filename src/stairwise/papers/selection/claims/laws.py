"""A law of encodings that a claim averages over: all that pass a threshold, or some that are drawn."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from stairwise.config import Config, option, require
from stairwise.measure import population as measure
from stairwise.papers.selection.claims.sizes import enumerable, fits, room
from stairwise.papers.selection.config import Task
from stairwise.papers.selection.theory import encodings, population

LARGEST_SIGNS = 20  # entries of a sign matrix when all of them are enumerated
LARGEST_WORK = 10_000_000_000  # about two minutes
EVALUATIONS_AT_ONCE = 200_000  # bounds memory


@dataclass(frozen=True)
class Law(Config):
    """A law of encodings: all sign matrices that pass the threshold, or some that are drawn from them."""

    task: Task = option(Task(4, 2, 1), "sizes of the task")
    encoding_width: int = option(0, "encoding dimension d_e; 0 = the smallest with enough encodings", low=0, high=2**14)
    threshold: float = option(0.99, "largest |<e_i, e_j>| of an admissible set of encodings", above=0.0, high=1.0)
    isometry: float = option(0.0, "largest delta of (q, delta)-RIP that is admissible; 0 = any", low=0.0, high=10.0)
    encodings: int = option(0, "sets of encodings to draw; 0 = all that there are", low=0, high=4096)
    value_scale: float = option(0.8, "alpha, where V = alpha [I 0]", low=-100.0, high=100.0)
    attention_scale: float = option(1.7, "C, where W = C diag(0, I)", low=0.0, high=100.0)
    query_token: float = option(0.6, "every entry of x_query", low=-100.0, high=100.0)
    learning_rate: float = option(0.5, "learning rate eta", above=0.0, high=100.0)
    steps: int = option(40, "steps of gradient descent", low=1, high=10_000)

    @property
    def width(self) -> int:
        """d_e; there are 2**(d_e-1) sign vectors of which none is plus or minus another."""
        enough = 1 + math.ceil(math.log2(self.task.length))
        return self.encoding_width or max(enough, self.task.sparsity)

    def check(self) -> None:
        room(self.task)
        enumerable(self.task)
        fits(self.task, self.width)
        require(
            self.encodings > 0 or self.task.length * self.width <= LARGEST_SIGNS,
            f"task.length={self.task.length} times encoding_width={self.width} must be at most {LARGEST_SIGNS}"
            " for all sign matrices to be enumerated; encodings above 0 draws some",
        )


def sets_of(config: Law, seed: int) -> np.ndarray:
    """The sets of encodings, all equally likely."""
    task, width = config.task, config.width
    if config.encodings:
        law = encodings.draw(seed, config.encodings, task.length, width, config.threshold)
    else:
        law = encodings.every(task.length, width, config.threshold, task.sparsity)
    require(
        len(law) > 0,
        f"threshold={config.threshold:g} leaves none of the 2**{task.length * width} sets of encodings"
        f" (task.length={task.length}, encoding_width={width})",
    )
    if config.isometry:
        law = encodings.restricted(law, task.sparsity, config.isometry)
        require(len(law) > 0, f"isometry={config.isometry:g} leaves none of the sets of encodings; it must be larger")
    return law


class Exact:
    """The exact population losses of a task over a law, for any model that attends by position only.

    `repeats` is how often the caller means to evaluate them: sizes that would take too long are refused beforehand.
    """

    def __init__(self, task: Task, law: np.ndarray, query_token: float, repeats: int = 1):
        nodes = 2 * task.length * task.width
        evaluations = len(law) * math.comb(task.length, task.sparsity) * nodes
        work = repeats * evaluations * task.length * (task.width + law.shape[2])
        require(
            work <= LARGEST_WORK,
            f"task.length={task.length}, task.sparsity={task.sparsity}, task.width={task.width} with {len(law)} sets of"
            f" encodings need {work:.2g} multiplications, which must be at most {LARGEST_WORK:.2g}",
        )
        tokens, token = population.token_nodes(task), np.full(task.width, query_token)
        self.space = measure.uniform(population.queries(task, law))
        self.chunk = max(1, EVALUATIONS_AT_ONCE // (len(law) * nodes))
        self.output_averaged = population.output_averaged(tokens, law, token)
        self.loss_averaged = population.loss_averaged(tokens, law, token)

    def loss(self, model: Any, of: Any = None) -> float:
        """L_in, or the population value of another loss."""
        return float(measure.population_loss(of or self.output_averaged, model, self.space, self.chunk))

    def gradient(self, model: Any, of: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """The gradients of L_in, or of another population loss, in W and V."""
        gradient = measure.population_gradient(of or self.output_averaged, model, self.space, self.chunk)
        return np.asarray(gradient.W), np.asarray(gradient.V)

    def descend(self, model: Any, rate: float, steps: int) -> Any:
        """The model after `steps` of gradient descent on L_in."""
        for _ in range(steps):
            W, V = self.gradient(model)
            model = type(model)(W=model.W - rate * W, V=model.V - rate * V)
        return model


def gradient_scales(task: Task, alpha: float, query: float) -> tuple[float, float]:
    """What errors of grad W and grad V on a family are relative to at least, for z_query of norm `query`.

    A thousandth of the terms that cancel: a small sum keeps the rounding of its large terms, and 1e-12 times this is
    about 4 units of rounding of theirs.
    """
    terms = task.width * abs(alpha) * (1 / task.sparsity + abs(alpha)) * query, 1 + abs(alpha)
    return terms[0] / 1000, terms[1] / 1000
