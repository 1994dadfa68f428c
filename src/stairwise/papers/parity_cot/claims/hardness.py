"""Without a chain of thought: Theorem 2's calculator, elimination over GF(2), and a first step that sees nothing."""

import math
from dataclasses import dataclass
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from stairwise.lab.checks import exactly
from stairwise.lab.config import Config, option, require
from stairwise.lab.contract import Verdict
from stairwise.papers.parity_cot import simplified, steps
from stairwise.papers.parity_cot.claims.ledger import LEDGER
from stairwise.papers.parity_cot.claims.sizes import all_sequences, cube_fits, random_positive, secret_of
from stairwise.papers.parity_cot.config.task import Task
from stairwise.papers.parity_cot.theory import memory, statistics
from stairwise.tasks import gf2


@dataclass(frozen=True)
class Model(Config):
    """A parity, and the size of a model that is to learn it."""

    inputs: int = option(30, "input bits n", low=2, high=10**15)
    size: int = option(3, "secret bits k", low=1, high=10**15)
    width: int = option(720, "width d", low=1, high=10**9)
    neurons: int = option(1440, "m: half the number of hidden neurons", low=1, high=10**9)

    def check(self) -> None:
        require(self.size <= self.inputs, f"size={self.size} must be at most inputs={self.inputs}")


@LEDGER.theory(
    "thm2",
    kind="asymptotic",
    says="without a chain, memory o(nk) needs 2^Omega(k) samples: here only whether d^2 + dm is below nk/ln n at all",
    cases=(Model(), Model(100, 20), Model(100_000, 10, 200, 22)),
)
def does_the_bound_apply(config: Model, seed: int) -> Verdict:
    found = memory.memory(config.inputs, config.size, config.width, config.neurons)
    row = {**found._asdict(), "ratio": found.ratio, "2^k": 2.0 ** min(config.size, 1000)}
    note = "no finite run can prove a lower bound on all learners; fig1a measures one of them"
    if not found.applies:
        vacuous = f"vacuous: d^2 + dm is {found.ratio:.3g} times nk/ln n"
        return Verdict("vacuous", found.ratio, 1.0, 1 / found.ratio, note=f"{vacuous}; {note}", details=(row,))
    return Verdict("reported", found.ratio, 1.0, 1 / found.ratio, note=f"the bound may apply; {note}", details=(row,))


@dataclass(frozen=True)
class Elimination(Config):
    """Random samples of a parity, one after the other, until they determine it."""

    inputs: int = option(30, "input bits n", low=1, high=256)
    size: int = option(3, "secret bits k", low=1, high=256)
    trials: int = option(200, "repetitions", low=2, high=10_000)

    def check(self) -> None:
        require(self.size <= self.inputs, f"size={self.size} must be at most inputs={self.inputs}")


@LEDGER.theory(
    "gf2",
    kind="identity",
    says="Gaussian elimination finds the secret from n + sum 1/(2^i - 1) = n + 1.6 samples on average",
    cases=(Elimination(), Elimination(20, 20), Elimination(5, 1)),
)
def elimination_needs_few_samples(config: Elimination, seed: int) -> Verdict:
    n, random = config.inputs, np.random.default_rng(seed)
    needed, wrong, unnoticed = [], 0, 0
    for _ in range(config.trials):
        bits = random.integers(0, 2, (n + 40, n), dtype=np.int8)
        secret = np.zeros(n, dtype=np.int8)
        secret[random.permutation(n)[: config.size]] = 1
        count = samples_to_full_rank(bits)
        needed.append(count)
        labels = bits @ secret % 2
        found = gf2.solve(bits[:count], labels[:count])
        wrong += not (found.unique and np.array_equal(found.values, secret))
        noisy = labels.copy()
        noisy[0] ^= 1
        unnoticed += gf2.solve(bits, noisy).consistent
    mean, variance = memory.samples_to_full_rank(n)
    off = abs(float(np.mean(needed)) - mean) / math.sqrt(variance / config.trials)
    row = {
        "mean - n": float(np.mean(needed)) - n,
        "expected": mean - n,
        "log2 C(n,k)": math.log2(math.comb(n, config.size)),
    }
    return Verdict.worst(
        {
            "mean number of samples, off by deviations": Verdict.at_most(off, 5.0, details=(row,)),
            "wrong secrets": Verdict.at_most(wrong, 0),
            "one flipped label not noticed": Verdict.at_most(unnoticed, 0),
        }
    )


def samples_to_full_rank(bits: np.ndarray) -> int:
    """How many of the rows it takes to reach full rank (all of them, where they never do)."""
    basis: dict[int, int] = {}
    for number, row in enumerate(bits, start=1):
        value = int("".join(map(str, row)), 2)
        while value:
            lead = value.bit_length()
            if lead not in basis:
                basis[lead] = value
                break
            value ^= basis[lead]
        if len(basis) == bits.shape[1]:
            return number
    return len(bits)


# --- the first step without a chain -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Population(Config):
    """The gradient at the start over all inputs."""

    task: Task = option(Task(8, 3), "the parity (the claim takes it without its chain)")
    neurons: int = option(6, "m: half the number of hidden neurons", low=1, high=1000)

    def check(self) -> None:
        cube_fits(self.task, 14)


@cache
def _gradient():
    def run(positive, tokens):
        positions = tokens.shape[1] - 1
        atoms = 2 * positions
        weights = simplified.start(positive, positions, jnp.asarray(1.0))
        return steps.gradient("linear", positive, weights.tables(jnp.eye(atoms, dtype=jnp.result_type(float))), tokens)

    return jax.jit(run)


@LEDGER.theory(
    "phase1-zero",
    kind="identity",
    says="without a chain the mean gradient of step 1 is exactly 0 for k >= 2; for k = 1 it shows the secret bit",
    cases=(Population(), Population(Task(6, 1))),
)
def the_first_step_sees_nothing(config: Population, seed: int) -> Verdict:
    plain = Task(config.task.inputs, config.task.size, cot=False, secret=config.task.secret)
    tokens = all_sequences(plain, seed)
    counts = statistics.batch_counts(tokens, 1)
    positive = random_positive(config.neurons, 1, seed)
    found = _gradient()(jnp.asarray(positive), jnp.asarray(tokens))
    largest = max(float(jnp.max(jnp.abs(part))) for part in found)
    signal = np.abs(counts.alpha[0, :, :, 0]).max(axis=1)
    if config.task.size == 1:
        expected = np.zeros(len(signal))
        expected[secret_of(plain, seed)] = len(tokens) / 2
        return exactly(
            {"alpha is B/2 at the secret bit and 0 elsewhere": bool(np.array_equal(signal, expected))},
            note="k = 1: one bit alone decides the label, and the first step sees it",
        )
    return Verdict.worst(
        {
            "largest |alpha| over all keys (a whole number)": Verdict.at_most(float(signal.max()), 0),
            "largest |delta|": Verdict.at_most(float(np.abs(counts.delta).max()), 0),
            "largest gradient by autodiff": Verdict.at_most(largest, 1e-15),
        }
    )
