"""Theorems 1 and 2: an oracle that hides the parity, and what any predictor found through it must cost."""

import dataclasses
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from stairwise.lab.checks import TOLERANCE, under
from stairwise.lab.config import Config, option, require
from stairwise.lab.contract import Verdict
from stairwise.papers.parity_onestep import oracles
from stairwise.papers.parity_onestep.claims.ledger import LEDGER
from stairwise.papers.parity_onestep.claims.sizes import bits_of, class_fits, proportional
from stairwise.papers.parity_onestep.config import Task
from stairwise.papers.parity_onestep.theory import bounds, hiding, mean_parity, spectrum
from stairwise.tasks import parity

RUNS = 2  # parities of Q (and outside) that are run against the oracle step by step


@dataclass(frozen=True)
class HiddenDescent(Config):
    """Gradient descent of a tanh net that asks an epsilon-approximate oracle."""

    task: Task = option(Task(12, 6), "the class of parities (a given subset does not matter)")
    width: int = option(8, "hidden width of the net", low=1, high=256)
    learning_rate: float = option(0.3, "learning rate", above=0.0, high=100.0)
    queries: int = option(60, "queries T", low=1, high=10_000)
    samples: int = option(0, "samples n; 0 = the whole cube", low=0, high=2**22)
    accuracy: float = option(
        0.0, "epsilon in units of the largest sqrt(Var) on the way; 0 = epsilon of the proof, Var^(1/3)", low=0.0
    )

    def check(self) -> None:
        class_fits(self.task)
        task = self.task
        require(task.size < task.bits, f"task.size={task.size} must be below task.bits={task.bits} (a single parity)")
        numbers = self.queries * math.comb(self.task.bits, self.task.size)
        require(numbers <= 2**26, f"queries={self.queries} times the parities={numbers} must be at most {2**26}")


CASES = (
    HiddenDescent(),
    HiddenDescent(accuracy=2.0),
    HiddenDescent(samples=2000),
    HiddenDescent(samples=2000, accuracy=1.0),
)


class Found(NamedTuple):
    """The p-free run, its epsilon, the set Q, and the predictor at its end on the whole cube."""

    cls: Any
    run: Any
    epsilon: float
    hidden: np.ndarray
    predictor: np.ndarray

    @property
    def share(self) -> float:
        """Pr(Q)."""
        return float(np.mean(self.hidden))


def hidden_run(config: HiddenDescent, seed: int) -> Found:
    """The run, and what an oracle of the config's accuracy hides on it."""
    cls, run, predictor = _run(dataclasses.replace(config, accuracy=0.0), seed)
    largest = float(run.variances.max())
    epsilon = config.accuracy * math.sqrt(largest) if config.accuracy else largest ** (1 / 3)
    return Found(cls, run, epsilon, run.hidden_from(epsilon), predictor)


@lru_cache(maxsize=4)
def _run(config: HiddenDescent, seed: int):
    """Shared by the claims below, which look at different sides of one run."""
    task = config.task
    x = parity.cube(task.bits).astype(np.float64)
    density = (
        spectrum.histogram(bits_of(task, config.samples, seed))
        if config.samples
        else spectrum.uniform_density(task.bits)
    )
    cls = hiding.parity_class(x, task.size, density)
    net = hiding.TanhNet(task.bits, config.width)
    run = hiding.hidden_run(cls, net, net.start(seed), config.learning_rate, config.queries)
    return cls, run, net.outputs(run.thetas[-1], x)


def row_of(config: HiddenDescent, found: Found) -> dict:
    n = config.samples or len(found.cls.x)
    largest = float(found.run.variances.max())
    paper = bounds.gradient_variance(config.task.bits, n, len(found.hidden), float(found.run.bounds[:, 1].max()))
    return {
        "Pr(Q)": found.share,
        "epsilon": found.epsilon,
        "largest Var": largest,
        "paper's bound on Var": paper,
        "1 - sum Var/eps^2": 1 - float(found.run.variances.sum()) / found.epsilon**2,
        "paper's bound on Pr(Q)": 1 - config.queries * paper / found.epsilon**2,
    }


# --- the oracle -------------------------------------------------------------------------------------------------------


@LEDGER.theory(
    "thm2-oracle",
    kind="construction",
    says="answering the mean gradient where it is within epsilon hides p: Pr(Q) >= 1 - sum Var/eps^2, bitwise",
    cases=CASES,
)
def the_oracle_hides_the_parity(config: HiddenDescent, seed: int) -> Verdict:
    found, row = hidden_run(config, seed), row_of(config, hidden_run(config, seed))
    inside, outside = (np.flatnonzero(which)[:RUNS].tolist() for which in (found.hidden, ~found.hidden))
    runs = {index: run_of(config, found, index) for index in inside + outside}
    different = sum(not np.array_equal(runs[index].thetas, found.run.thetas) for index in inside)
    same = sum(np.array_equal(runs[index].thetas, found.run.thetas) for index in outside)
    far = sum(run.largest_error > found.epsilon * (1 + TOLERANCE) for run in runs.values())
    verdicts = {
        "Pr(Q)": Verdict.at_least(found.share, row["1 - sum Var/eps^2"], details=(row,)),
        f"of {len(runs)} runs, those with an answer off by more than epsilon": Verdict.at_most(far, 0),
        f"of {len(inside)} parities in Q, those whose run differs from the p-free one": Verdict.at_most(different, 0),
        f"of {len(outside)} others, those whose run does not": Verdict.at_most(same, 0),
    }
    return Verdict.worst(verdicts)


class OwnRun(NamedTuple):
    """One parity's run against the corrected oracle, and the largest error of an answer."""

    thetas: np.ndarray
    largest_error: float


def run_of(config: HiddenDescent, found: Found, index: int) -> OwnRun:
    errors = []

    def ask(gradient, mean):
        answer = np.asarray(oracles.hiding(jnp.asarray(gradient), jnp.asarray(mean), found.epsilon)[0])
        errors.append(float(np.linalg.norm(answer - gradient)))
        return answer

    target = hiding.values(found.cls, found.cls.codes[index : index + 1])[0]
    net = hiding.TanhNet(config.task.bits, config.width)
    start = found.run.thetas[0]
    thetas = hiding.run_with(found.cls, net, start, config.learning_rate, config.queries, target, ask)
    return OwnRun(thetas, max(errors))


@LEDGER.theory(
    "thm2-oracle-printed",
    kind="construction",
    says="as printed, with the cases the other way round, the oracle is epsilon-approximate and hides p",
    cases=(HiddenDescent(accuracy=2.0), HiddenDescent()),
)
def the_printed_oracle_does_neither(config: HiddenDescent, seed: int) -> Verdict:
    found = hidden_run(config, seed)
    deviations = found.run.deviations
    answers_mean = deviations > found.epsilon
    error = float(np.where(answers_mean, deviations, 0.0).max())
    hidden = float(np.mean(np.all(answers_mean, axis=0)))
    bound = 1 - float(found.run.variances.sum()) / found.epsilon**2
    note = "it answers the mean exactly where that is farther than epsilon from the truth, and the truth elsewhere"
    row = {"hidden by the corrected oracle": found.share}
    return Verdict.worst(
        {
            "error of its answers over epsilon": Verdict.at_most(
                error / found.epsilon, 1.0, otherwise="refuted", note=note, details=(row,)
            ),
            "share of P that it hides": Verdict.at_least(hidden, max(bound, 0.5), otherwise="refuted", note=note),
        }
    )


# --- what hidden parities cost ----------------------------------------------------------------------------------------


@LEDGER.theory(
    "thm2-L2",
    kind="bound",
    says="the squared loss of what the run finds is at least 2 - 1/Pr(Q) - 2 E_x|E_p p(x)|, averaged over P",
    cases=CASES,
)
def hidden_parities_cost_a_squared_loss(config: HiddenDescent, seed: int) -> Verdict:
    found = hidden_run(config, seed)
    f = found.predictor
    losses = 1 - 2 * hiding.correlations(found.cls, f) + np.mean(f**2)
    restricted = float(np.sum(losses[found.hidden]) / len(losses))
    magnitude = float(mean_parity.mean_magnitude(config.task.bits, config.task.size))
    bound = bounds.hidden_losses(found.share, magnitude).squared
    row = {"Pr(Q)": found.share, "loss restricted to Q": restricted, "loss of the same f over P": float(losses.mean())}
    if bound <= 0:
        required = bound if math.isfinite(bound) else None
        return Verdict("vacuous", restricted, required, details=(row,), note="the bound is not positive")
    verdict = Verdict.at_least(restricted, bound, details=(row,))
    return under(proportional(config.task), verdict)


@LEDGER.theory(
    "thm2-sup",
    kind="bound",
    says="the largest error of what the run finds is at least Pr(Q), averaged over P",
    cases=CASES,
)
def hidden_parities_cost_a_large_error(config: HiddenDescent, seed: int) -> Verdict:
    found = hidden_run(config, seed)
    errors = hiding.sup_errors(found.cls, found.predictor)
    restricted = float(np.sum(errors[found.hidden]) / len(errors))
    violated = () if np.sum(found.hidden) != 1 else ("Q must hold two parities for the pairing",)
    row = {"Pr(Q)": found.share, "least error": float(errors.min())}
    return under(violated, Verdict.at_least(restricted, found.share, details=(row,)))


@LEDGER.theory(
    "thm1",
    kind="bound",
    says="a p-free predictor errs by 1/2 - 1/(2 sqrt|P|) or more on average, below 1/2 - s/2 on 1/(|P|s^2) of P only",
    cases=(HiddenDescent(), HiddenDescent(accuracy=2.0)),
)
def hidden_parities_are_answered_by_chance(config: HiddenDescent, seed: int) -> Verdict:
    found = hidden_run(config, seed)
    parities = len(found.hidden)
    answers = np.where(found.predictor >= 0, 1.0, -1.0)
    correlations = hiding.correlations(found.cls, answers)
    errors = 0.5 - correlations / 2
    threshold = parities ** (-1 / 3)
    beaten = float(np.mean(correlations > threshold))
    restricted = float(np.sum(errors[found.hidden]) / parities)
    bound = bounds.zero_one_error(parities)
    best = 0.5 - float(mean_parity.mean_magnitude(config.task.bits, config.task.size)) / 2
    row = {"Pr(Q)": found.share, "error": float(errors.mean()), "restricted to Q": restricted, "least possible": best}
    row |= {"least error on a parity": float(errors.min()), "e^(-d/3)": math.exp(-config.task.bits / 3)}
    verdict = Verdict.worst(
        {
            "0-1 error averaged over P": Verdict.at_least(float(errors.mean()), bound, details=(row,)),
            "least possible average": Verdict.at_least(best, bound),
            "restricted to Q": Verdict.at_least(restricted, bound - (1 - found.share)),
            f"share of P with error below 1/2 - {threshold / 2:.3g}": Verdict.at_most(
                beaten, bounds.unlucky_share(parities, threshold)
            ),
        }
    )
    violated = proportional(config.task)
    if config.samples:
        violated += (f"samples={config.samples} must be 0 (the population loss)",)
    return under(violated, verdict)


@LEDGER.theory(
    "rem-whp",
    kind="bound",
    says="most of P instead of the mean over P: a share 1/(|P| gain) + 1 - Pr(Q) at most has loss below 1 - gain",
    cases=CASES,
)
def few_parities_are_cheap(config: HiddenDescent, seed: int) -> Verdict:
    found = hidden_run(config, seed)
    f, parities = found.predictor, len(found.hidden)
    losses = 1 - 2 * hiding.correlations(found.cls, f) + np.mean(f**2)
    gain = parities**-0.5
    cheap = float(np.mean(found.hidden & (losses < 1 - gain)))
    bound = bounds.cheap_share(parities, gain)
    row = {"gain": gain, "least loss": float(losses.min()), "Pr(Q)": found.share}
    verdict = Verdict.at_most(cheap, bound * (1 + TOLERANCE), details=(row,))
    return under(proportional(config.task), verdict)
