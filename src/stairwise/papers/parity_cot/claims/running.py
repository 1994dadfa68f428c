"""The runs of the three steps that the lemmas look at, and the conditions of Lemma 5 on their sizes."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax.numpy as jnp
import numpy as np

from stairwise.config import Config, option, require
from stairwise.papers.parity_cot import simplified
from stairwise.papers.parity_cot.claims.sizes import cube_fits, paper_layout, problem_of, with_chain
from stairwise.papers.parity_cot.config.task import Task
from stairwise.papers.parity_cot.config.theorem3 import ThreeSteps
from stairwise.papers.parity_cot.steps import Setting
from stairwise.papers.parity_cot.theory import bounds, gradients, statistics, trajectory

LARGEST_INPUTS = 4  # k whose 4^k sign patterns are all taken


@dataclass(frozen=True)
class Run(ThreeSteps):
    """Three steps in the regime of the proof.

    With the linear loss only ratios to eps matter, so that a large eps meets the rates' bounds 5.4 and 5.6 at once.
    `shift` = 2/3 is Assumption 2's eta2 = 4 k eps / 3, where m = 2k.
    """

    task: Task = option(Task(12, 3), "the parity")
    loss: str = option("linear", "loss of one prediction", choices=("hinge", "linear"))
    width: int = option(2**23, "width d of the embeddings", low=1, high=2**26)
    neurons: int = option(400, "m: half the number of hidden neurons", low=1, high=10**6)
    batch: int = option(2**30, "fresh samples B of each step", low=1, high=2**50)
    block: int = option(1024, "not used here; a divisor of batch", low=1, high=2**20)
    scale: float = option(1500.0, "eps: size of the coefficients nu at the start", above=0.0, numeric=True)
    logit: float = option(200.0, "attention logit Lambda that the last step should get", above=0.0, numeric=True)
    shift: float = option(2 / 3, "eta2 = shift m eps", above=0.0, numeric=True)
    test_examples: int = option(1, "not used here", low=1, high=2**20, stored_as="test_sequences")

    def check(self) -> None:
        super().check()
        paper_layout(self.task)
        with_chain(self.task)
        if self.task.bits > trajectory.FEW:
            tokens = self.batch * (self.positions + 1)
            require(tokens <= 2**26, f"batch={self.batch} is {tokens} tokens, which must be at most {2**26}")

    @property
    def rate(self) -> float:
        """eta0 = eta1 of the practical or the literal rates."""
        if self.rates == "practical":
            return self.positions * float(np.sqrt(128 * self.neurons * self.logit))
        log = float(np.log(self.task.bits / self.failure))
        return self.neurons * self.scale * float(np.sqrt(self.batch)) / (100 * log)

    @property
    def last_rate(self) -> float:
        """eta2."""
        practical = self.shift * self.neurons * self.scale
        return practical if self.rates == "practical" else 4 * self.task.size * self.scale / 3


PROOF = Run()
SMALL = Run(Task(9, 2), neurons=300, logit=150.0, scale=2000.0)


# --- Lemma 5 ----------------------------------------------------------------------------------------------------------


def _log(config: Any, *factors: float) -> float:
    return float(np.log(np.prod(factors) / config.failure))


def _over_width(config: Any, square: float) -> float:
    """sqrt(square / d); 0 where the embeddings are orthonormal."""
    return 0.0 if config.embedding == "orthonormal" else float(np.sqrt(square / config.width))


def _sizes(config: Any) -> tuple[int, int, int, int]:
    return config.task.bits, config.task.size, config.neurons, config.batch


def _start(c: Any) -> bool:
    _, k, m, B = _sizes(c)
    return _over_width(c, 4 * k * _log(c, 100, B, m)) < 0.01


def _batch(c: Any) -> bool:
    n, k, m, B = _sizes(c)
    return float(np.sqrt(k * _log(c, 300, m, n, B) / B)) < 1 / 400


def _width(c: Any) -> bool:
    n, k, m, _ = _sizes(c)
    return _over_width(c, 2 * k * _log(c, 400, m, n)) < 0.01


def _both(c: Any) -> bool:
    n, k, m, B = _sizes(c)
    return _over_width(c, 2 * n * k / B) * _log(c, 300, m, n, B) < 1 / 400


def _noise(c: Any) -> bool:
    n, k, m, B = _sizes(c)
    by_width = 0.0 if c.embedding == "orthonormal" else c.width**-1.5
    return _log(c, 300, m, n, B) ** 2 * n * float(np.sqrt(n * k / B)) * by_width < 1 / 320_000


def _first_rate(c: Any) -> bool:
    n, _, m, B = _sizes(c)
    return c.rate <= m * c.scale * min(3 / 80 * float(np.sqrt(B / _log(c, 300, n, B))), n / 120)


CONDITIONS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "linear": (
        "the hinge is linear at the start: only its linear part, or neurons in pairs",
        lambda c: c.loss == "linear" or c.paired,
    ),
    "5.1": ("d < n and B < nk (5.1)", lambda c: c.width < c.task.bits and c.batch < c.task.bits * c.task.size),
    "5.2": ("sqrt(4k ln(100Bm/delta)/d) < 1/100 (5.2)", _start),
    "5.3a": ("sqrt(k ln(300mnB/delta)/B) < 1/400 (5.3a)", _batch),
    "5.3b": ("sqrt(2k ln(400mn/delta)/d) < 1/100 (5.3b)", _width),
    "5.3c": ("sqrt(2nk/(Bd)) ln(300mnB/delta) < 1/400 (5.3c)", _both),
    "5.4": (
        "eta0 <= min(3 m eps sqrt(B)/(80 sqrt ln(300nB/delta)), m n eps/120) (5.4)",
        _first_rate,
    ),
    "5.5": ("ln^2(300mnB/delta) n sqrt(nk)/(d sqrt(Bd)) < 1/320000 (5.5)", _noise),
    "5.6": (
        "eta0 eta1/(256mn^2) > 40 ln n (5.6)",
        lambda c: bounds.target(c.task.bits, c.neurons, c.rate, c.rate) > 40 * np.log(c.task.bits),
    ),
    "5.8": ("eta0 + eta1 < 5 n eta2 (5.8)", lambda c: 2 * c.rate < 5 * c.task.bits * c.last_rate),
    "rates": (
        "eta0 + eta1 < (n+1) eta2/50",
        lambda c: 100 * c.rate < (c.task.bits + 1) * c.last_rate,
    ),
    "decided": (
        "sqrt(4k ln(100Bm/delta)/d) < 1",
        lambda c: _over_width(c, 4 * c.task.size * _log(c, 100, c.batch, c.neurons)) < 1,
    ),
}


def needs(*names: str) -> Callable[[Any], dict[str, bool]]:
    """The conditions of Lemma 5 that a proof uses, as hypotheses."""
    return lambda config: {CONDITIONS[name][0]: bool(CONDITIONS[name][1](config)) for name in names}


FIRST = needs("linear", "5.2", "5.3a", "5.3b", "5.3c")  # what Lemmas 10 to 15 use
SECOND = needs("linear", "5.2", "5.3a", "5.3b", "5.3c", "5.4")
THIRD = needs("linear", "5.2", "5.3a", "5.3b", "5.3c", "5.4", "5.6")


# --- without noise ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ideal(Config):
    """Three steps without noise: orthonormal embeddings, every sign pattern of a neuron once, every input once.

    What the lemmas say in the mean over batch and start is exact here, with m = 4^k.
    """

    task: Task = option(Task(6, 3), "the parity")
    logit: float = option(150.0, "attention logit Lambda that the last step should get", above=0.0)
    shift: float = option(2 / 3, "eta2 = shift m eps", above=0.0, high=3.9)
    slack: float = option(2.0, "eps over the smallest that Lemma 5.4 allows", low=1.0)

    def check(self) -> None:
        paper_layout(self.task)
        with_chain(self.task)
        cube_fits(self.task, 12)
        k = self.task.size
        require(k <= LARGEST_INPUTS, f"task.size={k} must be at most {LARGEST_INPUTS}: all 4^size patterns are taken")

    @property
    def neurons(self) -> int:
        return 4**self.task.size

    @property
    def rate(self) -> float:
        return (self.task.bits + self.task.size) * float(np.sqrt(128 * self.neurons * self.logit))

    @property
    def scale(self) -> float:
        return self.slack * 120 * self.rate / (self.neurons * self.task.bits)


@lru_cache(maxsize=24)
def ideal(config: Ideal, seed: int) -> trajectory.Trajectory:
    """The run; the seed draws the secret."""
    k, positions = config.task.size, config.task.bits + config.task.size
    patterns = (np.arange(4**k)[:, None] >> np.arange(2 * k) & 1 == 1).reshape(-1, k, 2)
    positive = jnp.asarray(np.concatenate([patterns, patterns]))
    gram = jnp.eye(2 * positions, dtype=jnp.result_type(float))
    setting = Setting(problem_of(config.task, seed), gram, positive)
    tokens = trajectory.all_sequences(setting)
    batch = trajectory.Drawn(tokens, np.ones(len(tokens)))
    rates = np.array([config.rate, config.rate, config.shift * config.neurons * config.scale])
    start = simplified.start(positive, positions, config.scale)
    return trajectory.descend("linear", setting, start, rates, [batch] * 3)


# --- what is read off a run -------------------------------------------------------------------------------------------


def as_run(config: Run, **changes: Any) -> Run:
    """The plain run of a config with further fields, so that claims share it."""
    fields = {field.name: getattr(config, field.name) for field in dataclasses.fields(Run)}
    return Run(**{**fields, **changes})


def shaped(table: np.ndarray) -> np.ndarray:
    """Atoms as position and bit."""
    return table.reshape(*table.shape[:-1], -1, 2)


def counts(run: trajectory.Trajectory, step: int) -> statistics.BatchCounts:
    """delta and alpha of the batch of a step."""
    batch = run.batches[step]
    return statistics.batch_counts(batch.tokens, len(run.secret), batch.times)


def kappa_coefficients(run: trajectory.Trajectory, t: int) -> np.ndarray:
    """kappa_{t,i,b} = -sum_r 1(nu_{r,i,b} > 0) h_r W_t[r, d:], as coefficients on atoms."""
    return _summed(run, run.weights[t].seen)


def kappa_on_atoms(run: trajectory.Trajectory, t: int) -> np.ndarray:
    """Delta_{t,i,b,j,b1} = <kappa_{t,i,b}, e_{j,b1}>."""
    return _summed(run, run.tables[t].seen)


def _summed(run: trajectory.Trajectory, by_neuron: np.ndarray) -> np.ndarray:
    h = gradients.output_weights(run.positive)
    return shaped(-np.einsum("rqb,ra->qba", run.positive * h[:, None, None], by_neuron))
