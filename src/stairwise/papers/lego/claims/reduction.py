"""Two facts about the attention gradient: self-labels that are right change nothing, and four scalars say it all."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from stairwise.config import Config, option, require
from stairwise.lab.contract.checks import equal, hypothesis, row
from stairwise.papers.lego import model as models
from stairwise.papers.lego import reduced
from stairwise.papers.lego.claims import networks
from stairwise.papers.lego.claims.ledger import LEDGER
from stairwise.papers.lego.claims.networks import Case, ideal, task_of
from stairwise.papers.lego.claims.sizes import Ideal, assumption_c1, long_enough
from stairwise.papers.lego.config.task import Task
from stairwise.papers.lego.theory import chains, exact, gradients, literal

LARGEST_POPULATION = 20_000


# --- self-labels ------------------------------------------------------------------------------------------------------


def annotated(network: Any, row: np.ndarray, L: int) -> np.ndarray:
    """The sentence with the values of answers 1 and 2 as the network itself decodes them, one after the other."""
    labelled = row.copy()
    for step in (1, 2):
        found = literal.step_of(network, labelled[: L + step], L, labelled[L + step, 4:])
        labelled[L + step, 4] = int(np.argmax(found.F[0]))
    return labelled


def labelled_by(annotator: Any, case: Case) -> Any:
    """The chains with values 1 and 2 as the annotator says them."""
    L = case.task.length
    rows = np.stack([annotated(annotator, row, L) for row in chains.sentences(case.task, case.chains)])
    values = rows[:, L:, 4] - case.task.starts[2]
    return case.chains._replace(values=jnp.asarray(values, dtype=jnp.int32))


@LEDGER.exact(
    "factF1",
    statement="Fact F.1",
    says=r"the gradient of $Q$ on self-labelled chains is the formula of Fact D.1 at the annotator's labels, right or"
    " wrong; a greedy annotator that is right leaves the true gradient",
    of=(gradients.clause_weights, gradients.blocks),
    hypotheses=assumption_c1,
    cases=Ideal(Task("S3", 6, 4), scores=(3.0, 0.0, 3.0, 0.0)),
    seeds=3,
)
def self_labels_only_change_the_target(config: Ideal, seed: int):
    long_enough(config.task, 2)
    case = ideal(config, seed, (2,))
    network = literal.network_of(case.model)
    untrained = network._replace(scores=np.zeros_like(network.scores))
    for name, annotator in (("own labels", network), ("labels by uniform attention", untrained)):
        told = networks.case_of(case.task, case.model, labelled_by(annotator, case), (2,))
        write = lambda step: np.stack(gradients.blocks(step, gradients.clause_weights(step)))  # noqa: E731
        predicate, answer = told.mean(write)
        yield equal(f"gradient of Q43, {name}", told.gradient.scores.predicate, predicate)
        yield equal(f"gradient of Q44, {name}", told.gradient.scores.answer, answer)
        right = np.asarray(told.chains.values)[:, :3] == np.asarray(case.chains.values)[:, :3]
        yield row({"labels by": name, "right": float(right.mean())})
        if name == "own labels":
            yield hypothesis("the annotator is right at steps 1 and 2", right.all())
            yield equal("gradient of Q43 at the true labels", told.gradient.scores.predicate, case.mean(write)[0])


# --- four scalars -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reduction(Config):
    """Every chain of length 2, and a permutation-symmetric Q."""

    task: Task = option(Task("C3", 4, 2), "the chains")
    clip_factor: float = option(4.0, "C_B of the logit clip B = C_B log d", above=0.0, high=50.0)
    rho: float = option(0.8, "knot rho of the smoothed ReLU", above=0.0, high=10.0)
    q: int = option(4, "power q of the smoothed ReLU", low=3, high=12)
    scores: tuple[float, ...] = option((1.1, -0.2, 0.8, 0.15), "a, b, c, e", low=-50.0, high=50.0)

    def check(self) -> None:
        require(len(self.scores) == 4, f"scores has {len(self.scores)} entries, which must be 4: a, b, c, e")
        require(self.task.length == 2, f"task.length={self.task.length} must be 2: the reduction is of two-step chains")
        group = self.task.group
        require(group.invertible, f"task.action={self.task.action} must consist of permutations")
        number = self.task.variables**3 * group.values * group.actions**2
        require(
            number <= LARGEST_POPULATION,
            f"task: about {number} chains must be at most {LARGEST_POPULATION} to be listed",
        )


def full_gradient(config: Reduction, scores: tuple[float, ...]) -> Any:
    """dLoss/dQ of all of Q43 and Q44 over every chain, both steps, by autodiff."""
    task = task_of(config)
    clip = models.logit_clip(task.vocabulary, config.clip_factor)
    Q = models.symmetric_scores(task, *scores, dtype=jnp.float64)
    network = models.ideal(task, clip=clip, rho=config.rho, q=config.q, scores=Q, dtype=jnp.float64)
    everything = chains.every_chain(task).examples
    found = exact.descent(exact.traced(network), task, everything, (1, 2)).scores
    return jax.tree.map(lambda leaf: -np.asarray(leaf), found)


def reduced_gradient(config: Reduction, scores: tuple[float, ...]) -> np.ndarray:
    """(dL/da, dL/db, dL/dc, dL/de) of the four-scalar model."""
    action = config.task.group
    network = reduced.ideal_values(action, config.task.variables, config.clip_factor, config.rho, config.q)
    populations = [reduced.two_steps(action, step) for step in (1, 2)]
    here = jnp.asarray(scores, dtype=jnp.float64)
    return np.asarray(exact.reduced_gradient(exact.traced(network), here, populations))


@LEDGER.exact(
    "red4",
    statement="ours",
    says=r"under an FFN blind to variables $Q_{4,3}$ and $Q_{4,4}$ move as four scalars: a diagonal entry by"
    r" $\partial L/\partial a / |X|$, others by $\partial L/\partial b / (|X|(|X|-1))$",
    of=(
        reduced.shares,
        reduced.matches,
        reduced.two_steps,
        reduced.IdealValues.preactivations,
        reduced.next_token_loss,
        reduced.descended,
    ),
    hypotheses={"every action is a permutation": lambda config: config.task.group.invertible},
    cases=(Reduction(), Reduction(Task("S3", 3, 2)), Reduction(Task("S3", 3, 2), clip_factor=0.7)),
)
def four_scalars_are_enough(config: Reduction, seed: int):
    X = config.task.variables
    here, diagonal = slice(1, 1 + X), np.eye(X, dtype=bool)
    for name, scores in (("at 0", (0.0,) * 4), ("at a, b, c, e", config.scores)):
        full, four = full_gradient(config, scores), reduced_gradient(config, scores)
        moved = np.asarray(reduced.descended(jnp.zeros(4), jnp.asarray(four), 1.0, X))
        for block, (own, other) in (("predicate", moved[:2]), ("answer", moved[2:])):
            found = getattr(full, block)
            expected = np.zeros_like(found)
            expected[here, here] = np.where(diagonal, -own, -other)
            yield equal(f"{block} block {name}", found, expected)
        yield equal(f"sum of the four {name}", four.sum(), 0.0, scale=float(np.abs(four).max()))
