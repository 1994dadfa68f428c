"""The run of the three steps that the lemmas look at, and what they read off it."""

import dataclasses
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import numpy as np

from stairwise.lab.config import option, require
from stairwise.papers.parity_cot import steps
from stairwise.papers.parity_cot.claims.sizes import paper_layout, with_chain
from stairwise.papers.parity_cot.config.task import Task
from stairwise.papers.parity_cot.config.theorem3 import ThreeSteps
from stairwise.papers.parity_cot.theory import bounds, gradients, statistics, trajectory


@dataclass(frozen=True)
class Run(ThreeSteps):
    """Three steps in the regime of the proof.

    With the linear loss only ratios to eps matter, so that a large eps meets the rates' bounds 5.4 and 5.6 at once.
    """

    task: Task = option(Task(12, 3), "the parity")
    loss: str = option("linear", "loss of one prediction", choices=("hinge", "linear"))
    width: int = option(2**14, "width d of the embeddings", low=1, high=2**26)
    neurons: int = option(400, "m: half the number of hidden neurons", low=1, high=10**6)
    batch: int = option(32_000, "fresh samples B of each step", low=1, high=2**22)
    block: int = option(4000, "samples taken at once; a divisor of batch", low=1, high=2**20)
    scale: float = option(1500.0, "eps: size of the coefficients nu at the start", above=0.0, numeric=True)
    logit: float = option(200.0, "attention logit Lambda that the last step should get", above=0.0, numeric=True)
    shift: float = option(3.0, "eta2 = shift m eps", above=0.0, numeric=True)
    test_sequences: int = option(1, "not used here", low=1, high=2**20)

    def check(self) -> None:
        super().check()
        paper_layout(self.task)
        with_chain(self.task)
        tokens = self.batch * (self.positions + 1)
        require(tokens <= 2**26, f"batch={self.batch} is {tokens} tokens, which must be at most {2**26}")

    def violated_rate(self) -> tuple[str, ...]:
        """5.4: eta0 must not be too large."""
        largest = bounds.largest_rate(self.task.inputs, self.neurons, self.batch, self.failure, self.scale)
        rate = self.rate
        return () if rate <= largest else (f"eta0={rate:.4g} must be at most {largest:.4g} (5.4)",)

    def violated_logit(self) -> tuple[str, ...]:
        """5.6: eta0 must not be too small."""
        n, found = self.task.inputs, self.rate**2 / (256 * self.neurons * self.task.inputs**2)
        needed = 40 * float(np.log(n))
        return () if found > needed else (f"eta0 eta1/(256mn^2)={found:.3g} must be above 40 ln n={needed:.3g} (5.6)",)

    def violated_large(self) -> tuple[str, ...]:
        """5.3: width and batch must be large."""
        k, d, B, m, n = self.task.size, self.width, self.batch, self.neurons, self.task.inputs
        width = float(np.sqrt(2 * k * np.log(400 * m * n / self.failure) / d)) if self.embedding == "random" else 0.0
        batch = float(np.sqrt(k * np.log(300 * m * n * B / self.failure) / B))
        violated = () if width < 0.01 else (f"sqrt(2k ln(400mn/delta)/d)={width:.2g} must be below 0.01 (5.3b)",)
        return violated + (
            () if batch < 0.0025 else (f"sqrt(k ln(300mnB/delta)/B)={batch:.2g} must be below 0.0025 (5.3a)",)
        )

    @property
    def rate(self) -> float:
        """eta0 = eta1 of the practical or the literal rates."""
        if self.rates == "practical":
            return self.positions * float(np.sqrt(128 * self.neurons * self.logit))
        log = float(np.log(self.task.inputs / self.failure))
        return self.neurons * self.scale * float(np.sqrt(self.batch)) / (100 * log)


PROOF = Run()


def as_run(config: Run, **changes: Any) -> Run:
    """The plain run of a config with further fields, so that claims share it."""
    fields = {field.name: getattr(config, field.name) for field in dataclasses.fields(Run)}
    return Run(**{**fields, **changes})


@cache
def table_gradient():
    """`steps.gradient`, compiled: (loss, signs of the start, tables, tokens)."""
    return jax.jit(steps.gradient, static_argnums=0)


def shaped(table: np.ndarray) -> np.ndarray:
    """Atoms as position and bit."""
    return table.reshape(*table.shape[:-1], -1, 2)


def counts(config: Run, seed: int, step: int):
    """delta and alpha of the batch of a step."""
    return statistics.batch_counts(trajectory.trajectory(config, seed).batches[step], config.task.size)


def kappa_coefficients(config: Run, seed: int, t: int) -> np.ndarray:
    """kappa_{t,i,b} = -sum_r 1(nu_{r,i,b} > 0) h_r W_t[r, d:], as coefficients on atoms."""
    return _summed(config, seed, trajectory.trajectory(config, seed).weights[t].seen)


def kappa_on_atoms(config: Run, seed: int, t: int) -> np.ndarray:
    """Delta_{t,i,b,j,b1} = <kappa_{t,i,b}, e_{j,b1}>."""
    return _summed(config, seed, trajectory.trajectory(config, seed).tables[t].seen)


def _summed(config: Run, seed: int, by_neuron: np.ndarray) -> np.ndarray:
    positive = trajectory.trajectory(config, seed).positive
    h = gradients.output_weights(positive)
    return shaped(-np.einsum("rqb,ra->qba", positive * h[:, None, None], by_neuron))
