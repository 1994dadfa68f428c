"""Appendix A, on chains that are drawn: the variable token learns to copy x_1 (Lemmas A.3, A.4, A.11, A.12)."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import numpy as np

from stairwise.config import Config, option, require
from stairwise.lab.contract.checks import at_least, at_most, equal, row, true
from stairwise.papers.lego import groups
from stairwise.papers.lego import model as models
from stairwise.papers.lego import task as tasks
from stairwise.papers.lego.claims.ledger import LEDGER
from stairwise.papers.lego.config.task import ACTIONS, action_of
from stairwise.papers.lego.theory import literal, retrieval
from stairwise.train.keys import at, role_key


@dataclass(frozen=True)
class Copying(Config):
    """One-step chains at several numbers of variables, the network that copies, and how W_4 is trained."""

    action: str = option("C3", f"the action: {groups.NAMES}", examples=ACTIONS)
    variables: tuple[int, ...] = option((8, 16, 32), "numbers of variables |X|", low=2, high=512)
    neurons: int = option(12, "neurons m of a class", low=1, high=256)
    rho: float = option(0.5, "knot rho of the smoothed ReLU", above=0.0, high=10.0)
    q: int = option(4, "power q of the smoothed ReLU", low=3, high=12)
    clip_factor: float = option(4.0, "C_B of the logit clip B = C_B log d", above=0.0, high=50.0)
    learning_rate: float = option(
        0.04, "the largest change of a weight in a step", above=0.0, high=1.0, stored_as="rate"
    )
    steps: int = option(600, "steps", low=10, high=100_000)

    def check(self) -> None:
        action_of(self.action)
        require(bool(self.variables), "variables must name at least one number")

    @property
    def group(self) -> groups.Action:
        return action_of(self.action)

    def network(self, key: Any, vocabulary: int, sigma0: float, **settings: Any) -> Any:
        """The network at the start, with b = sigma_0 log d."""
        bias, clip = sigma0 * math.log(vocabulary), models.logit_clip(vocabulary, self.clip_factor)
        settings |= {"sigma0": sigma0, "bias": bias, "rho": self.rho, "q": self.q, "clip": clip}
        return models.initial(key, vocabulary, self.neurons, positions=1, **settings)


def active(diagonal: np.ndarray, bias: float) -> np.ndarray:
    """Phi_x: the diagonal weights of the active neurons (those above b = sigma_0 log d), added up."""
    return np.where(diagonal > bias, diagonal, 0).sum(axis=1)


@dataclass(frozen=True)
class Retrieval(Copying):
    """Training of W_4 on one-step chains that are drawn."""

    sigma0: float = option(0.02, "standard deviation of W at the start", above=0.0, high=1.0)
    batch: int = option(256, "chains a step", low=1, high=65_536)


SAMPLED = {"cases": Retrieval(), "tier": "minutes", "seeds": 3}


class RetrievalRun(NamedTuple):
    """What a run left: the task, the network, its history and its correlations as NumPy."""

    task: Any
    model: Any
    history: Any
    found: Any

    @property
    def scale(self) -> float:
        """log d."""
        return math.log(self.task.vocabulary)

    @property
    def active(self) -> np.ndarray:
        return active(np.asarray(self.found.diagonal), self.model.bias)

    @property
    def least(self) -> float:
        """min over variables of max over neurons of the diagonal."""
        return float(np.asarray(self.found.diagonal).max(axis=1).min())


@lru_cache(maxsize=12)
def trained(config: Retrieval, seed: int) -> dict[int, RetrievalRun]:
    """One run for each number of variables; every claim of this file reads the same runs."""
    runs = {}
    for variables in config.variables:
        task = tasks.lego(config.group, variables, 1)
        start = config.network(role_key(seed, "weights"), task.vocabulary, config.sigma0)
        key = at(role_key(seed, "batches"), variables)
        model, history = retrieval.train(start, task, key, config.learning_rate, config.steps, config.batch)
        found = jax.jit(retrieval.correlations)(model.weights, task)
        runs[variables] = RetrievalRun(task, model, *jax.tree.map(np.asarray, (history, found)))
    return runs


def final_loss(run: RetrievalRun) -> float:
    return float(run.history.loss[-20:].mean())


# --- growth and convergence -------------------------------------------------------------------------------------------


@LEDGER.bound(
    "lemA3",
    statement="Lemma A.3",
    says=r"the diagonal grows as $\Gamma' = \Gamma + \Theta(\eta/d)\,\mathrm{sReLU}'(\Gamma)$ (the constant's median"
    r" lies within 1/20 and 2), and outgrows the rest of slot 1, tenfold at the largest $|X|$",
    of=(retrieval.train, retrieval.diagonal),
    **SAMPLED,
)
def the_diagonal_grows(config: Retrieval, seed: int):
    ratios = []
    for variables, run in trained(config, seed).items():
        gamma, rate = run.history.gamma, run.history.rate[:-1, None]
        slope = literal.slope(gamma[:-1], config.rho, config.q)
        early = (gamma[:-1] < config.rho) & (slope > 0)
        constants = (np.diff(gamma, axis=0) * run.task.vocabulary / (rate * np.maximum(slope, 1e-30)))[early]
        low, middle, high = (float(np.quantile(constants, share)) for share in (0.1, 0.5, 0.9))
        yield at_least(f"median of Theta, |X|={variables}", middle, 0.05)
        yield at_most(f"median of Theta, |X|={variables}", middle, 2.0)
        ratio = run.least / float(run.found.off_diagonal)
        ratios.append(ratio)
        yield row({"|X|": variables, "10%": low, "median of Theta": middle, "90%": high, "on / off": ratio})
    yield at_least(f"on over off the diagonal, |X|={max(config.variables)}", ratios[-1], 10.0)
    yield true("that ratio grows with |X|", np.diff(ratios) > 0)


@LEDGER.bound(
    "lemA4",
    statement="Lemma A.4",
    says=r"every variable's $\Gamma$ reaches the linear part of sReLU; the time it takes, in units of"
    r" $d/\sigma_0^{q-2}$, is shown",
    of=(retrieval.train,),
    **SAMPLED,
)
def every_diagonal_emerges(config: Retrieval, seed: int):
    for variables, run in trained(config, seed).items():
        passed = run.history.gamma >= config.rho
        yield true(f"every variable emerges, |X|={variables}", passed.any(axis=0))
        yield true(f"none has emerged at the start, |X|={variables}", ~passed[0])
        last = int(passed.argmax(axis=0).max())
        clock = float(run.history.rate[:last].sum()) * config.sigma0 ** (config.q - 2) / run.task.vocabulary
        yield row({"|X|": variables, "last passes at step": last, "sum of eta sigma_0^{q-2}/d": clock})


@LEDGER.bound(
    "lemA12",
    statement="Lemma A.12",
    says=r"token 4 converges: loss below $10^{-3}$, and every active diagonal $\Phi$ is at least $\log d$",
    of=(retrieval.train,),
    **SAMPLED,
)
def the_variable_token_converges(config: Retrieval, seed: int):
    for variables, run in trained(config, seed).items():
        yield at_most(f"loss, |X|={variables}", final_loss(run), 1e-3)
        yield at_least(f"loss at the start, |X|={variables}", run.history.loss[0], 1.0)
        yield at_least(f"least Phi / log d, |X|={variables}", run.active.min() / run.scale, 1.0)


@LEDGER.exact(
    "lemA11",
    statement=("Lemma A.11", "Induction A.1"),
    says=r"Induction A.1 all along: the diagonal plus $b$ stays positive and never decreases; the correlations of (b)"
    " to (d) are read off the weights, entry by entry",
    of=(retrieval.train, retrieval.correlations, retrieval.diagonal),
    **SAMPLED,
)
def the_induction_holds(config: Retrieval, seed: int):
    for variables, run in trained(config, seed).items():
        gamma = run.history.gamma
        yield true(f"Gamma > 0, |X|={variables}", gamma > 0)
        yield true(f"Gamma never decreases, |X|={variables}", np.diff(gamma, axis=0) >= 0)
        for kind, size in read_off(run).items():
            yield equal(f"{kind}, |X|={variables}", float(getattr(run.found, kind)), size, 1e-6)
        sizes = {kind: float(getattr(run.found, kind)) for kind in run.found._fields[1:]}
        yield row({"|X|": variables, "sigma_0 log d": run.model.bias, **sizes})


def read_off(run: RetrievalRun) -> dict[str, float]:
    """The largest weight of each kind, with a loop over slots, tokens and classes."""
    W = np.abs(np.asarray(run.model.weights)[:, :, 0]).max(axis=-1)  # (slot, token, class)
    _, action, value = run.task.starts
    kinds = {"actions": 0.0, "values": 0.0, "off_diagonal": 0.0, "other_slots": 0.0, "other_classes": 0.0}
    shown = {0: range(1, action), 1: range(action, value), 2: range(1, action), 3: range(1, action)}
    shown[4] = range(value, run.task.vocabulary)
    for slot, tokens in shown.items():
        for token in tokens:
            for j in range(run.task.vocabulary):
                if not 1 <= j < action:
                    kind = "other_classes"
                elif slot == 0 and token == j:
                    continue
                else:
                    kind = ("off_diagonal", "actions", "other_slots", "other_slots", "values")[slot]
                kinds[kind] = max(kinds[kind], float(W[slot, token, j]))
    return kinds
