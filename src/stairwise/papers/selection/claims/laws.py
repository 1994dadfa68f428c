"""A law of encodings that a claim averages over: all that pass a threshold, or some that are drawn."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from stairwise.lab.config import Config, option, require
from stairwise.lazy import lazy
from stairwise.papers.selection.claims.sizes import enumerable, fits, room
from stairwise.papers.selection.config import Task

if TYPE_CHECKING:
    import jax.numpy as jnp

    from stairwise.measure import population as measure
    from stairwise.papers.selection.theory import encodings, population
else:
    jnp = lazy("jax.numpy")
    measure = lazy("stairwise.measure.population")
    encodings = lazy("stairwise.papers.selection.theory.encodings")
    population = lazy("stairwise.papers.selection.theory.population")

LARGEST_SIGNS = 20  # entries of a sign matrix when all of them are enumerated
LARGEST_EVALUATIONS = 30_000_000
EVALUATIONS_AT_ONCE = 200_000  # bounds memory


@dataclass(frozen=True)
class Law(Config):
    """A law of encodings: all sign matrices that pass the threshold, or some that are drawn from them."""

    task: Task = option(Task(4, 2, 1), "sizes of the task")
    encoding_width: int = option(3, "encoding dimension d_e", low=1, high=2**14)
    threshold: float = option(0.99, "largest |<e_i, e_j>| of an admissible set of encodings", above=0.0, high=1.0)
    encodings: int = option(0, "sets of encodings to draw; 0 = all that there are", low=0, high=4096)
    value_scale: float = option(0.8, "alpha, where V = alpha [I 0]", low=-100.0, high=100.0)
    attention_scale: float = option(1.7, "C, where W = C diag(0, I)", low=0.0, high=100.0)
    query_token: float = option(0.6, "every entry of x_query", low=-100.0, high=100.0)
    learning_rate: float = option(0.5, "learning rate eta", above=0.0, high=100.0)
    steps: int = option(40, "steps of gradient descent", low=1, high=10_000)

    def check(self) -> None:
        room(self.task)
        enumerable(self.task)
        fits(self.task, self.encoding_width)
        entries = self.task.length * self.encoding_width
        require(
            self.encodings > 0 or entries <= LARGEST_SIGNS,
            f"encoding_width={self.encoding_width} times task.length={self.task.length} must be at most"
            f" {LARGEST_SIGNS} for all sign matrices to be enumerated (encodings=0)",
        )


def sets_of(config: Law, seed: int) -> np.ndarray:
    """The sets of encodings, all equally likely."""
    task, width = config.task, config.encoding_width
    if config.encodings:
        return encodings.draw(seed, config.encodings, task.length, width, config.threshold)
    law = encodings.every(task.length, width, config.threshold, task.sparsity)
    require(
        len(law) > 0,
        f"threshold={config.threshold:g} leaves none of the 2**{task.length * width} sets of encodings"
        f" (task.length={task.length}, encoding_width={width})",
    )
    return law


class Exact:
    """The exact population losses of a task over a law, for any model that attends by position only."""

    def __init__(self, task: Task, law: np.ndarray, query_token: float):
        evaluations = len(law) * math.comb(task.length, task.sparsity) * 2 * task.length * task.width
        require(
            evaluations <= LARGEST_EVALUATIONS,
            f"task.length={task.length} and task.width={task.width} with {len(law)} sets of encodings need"
            f" {evaluations} evaluations of the model, which must be at most {LARGEST_EVALUATIONS}",
        )
        token = jnp.full(task.width, query_token, dtype=jnp.float64)
        self.space = population.space(task, law)
        self.chunk = max(1, EVALUATIONS_AT_ONCE // len(law))
        self.output_averaged = population.output_averaged(law, token)
        self.loss_averaged = population.loss_averaged(law, token)

    def loss(self, model: Any, of: Any = None) -> float:
        """L_in, or the population value of another loss."""
        return float(measure.population_loss(of or self.output_averaged, model, self.space, self.chunk))

    def gradient(self, model: Any, of: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """The gradients of L_in, or of another population loss, in W and V."""
        gradient = measure.population_gradient(of or self.output_averaged, model, self.space, self.chunk)
        return np.asarray(gradient.W), np.asarray(gradient.V)
