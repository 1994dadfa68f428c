"""Two facts about the attention gradient: self-labels that are right change nothing, and four scalars say it all."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from stairwise.lab.checks import identical, under
from stairwise.lab.config import Config, option, require
from stairwise.lab.contract import Verdict
from stairwise.papers.lego import model as models
from stairwise.papers.lego import reduced
from stairwise.papers.lego.claims.ledger import LEDGER
from stairwise.papers.lego.claims.networks import ideal, task_of
from stairwise.papers.lego.claims.sizes import Ideal, long_enough, transitive_not_free
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


def second_step(network: Any, rows: np.ndarray, L: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Loss_5^{L,2} and minus its gradients in Q43 and Q44 on the given sentences."""
    steps = [literal.step_of(network, row[: L + 2], L, row[L + 2, 4:]) for row in rows]
    losses = [-np.log(step.logit[0, step.target[0]]) for step in steps]
    blocks = [gradients.blocks(step, gradients.clause_weights(step)) for step in steps]
    return np.array(losses), *(np.sum([pair[block] for pair in blocks], axis=0) for block in (0, 1))


@LEDGER.theory(
    "factF1",
    kind="identity",
    says="where the greedy annotator is right at steps 1 and 2, self-training has the true loss and gradient",
    cases=Ideal(Task("S3", 6, 4), scores=(3.0, 0.0, 3.0, 0.0)),
)
def right_labels_change_nothing(config: Ideal, seed: int) -> Verdict:
    long_enough(config.task, 2)
    case, L = ideal(config, seed, (2,)), config.task.length
    rows = chains.sentences(case.task, case.chains)
    network = literal.network_of(case.model)
    untrained = network._replace(scores=np.zeros_like(network.scores))
    errors, accuracy = {}, {}
    for name, annotator in (("annotator", network), ("untrained annotator", untrained)):
        labelled = np.stack([annotated(annotator, row, L) for row in rows])
        accuracy[name] = float((labelled == rows).all(axis=(1, 2)).mean())
        pairs = zip(second_step(network, labelled, L), second_step(network, rows, L), strict=True)
        errors[name] = max(float(np.abs(a - b).max()) for a, b in pairs)
    details = tuple({"labels by": n, "label accuracy": accuracy[n], "largest difference": errors[n]} for n in errors)
    right = accuracy["annotator"] == 1.0
    wrong = () if right else (f"the annotator must be right at steps 1 and 2 (here {accuracy['annotator']:.3g})",)
    verdict = Verdict.at_most(errors["annotator"], 0.0, details=details)
    return under(transitive_not_free(config.task.group) + wrong, verdict)


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


@LEDGER.theory(
    "red4",
    kind="identity",
    says="beyond the paper: under an FFN blind to variables Q43 and Q44 move as four scalars, dQ = dL/da / |X| ...",
    cases=(Reduction(), Reduction(Task("S3", 3, 2)), Reduction(Task("S3", 3, 2), clip_factor=0.7)),
)
def four_scalars_are_enough(config: Reduction, seed: int) -> Verdict:
    X, pairs = config.task.variables, {}
    for name, scores in (("at 0", (0.0,) * 4), ("at a, b, c, e", config.scores)):
        full, four = full_gradient(config, scores), reduced_gradient(config, scores)
        here, diagonal = slice(1, 1 + X), np.eye(X, dtype=bool)
        for block, (own, other) in (("predicate", four[:2]), ("answer", four[2:])):
            found = getattr(full, block)
            expected = np.zeros_like(found)
            expected[here, here] = np.where(diagonal, own / X, other / (X * (X - 1)))
            pairs[f"{block} block {name}"] = (found, expected)
        pairs[f"sum of the four {name}"] = (four.sum() / max(np.abs(four).max(), np.finfo(np.float64).tiny), 0.0)
    return identical(pairs)
