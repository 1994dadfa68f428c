"""Without a chain of thought: Theorem 2's calculator, elimination over GF(2), and a first step that sees nothing."""

import math
from dataclasses import dataclass
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from stairwise.config import Config, option, require
from stairwise.lab.contract.checks import at_most, equal, measured, note, row, true
from stairwise.papers.parity_cot import simplified, steps
from stairwise.papers.parity_cot.claims.ledger import LEDGER
from stairwise.papers.parity_cot.claims.sizes import all_sequences, cube_fits, random_positive, secret_of
from stairwise.papers.parity_cot.config.task import Task
from stairwise.papers.parity_cot.theory import memory, statistics
from stairwise.tasks import gf2
from stairwise.train.draws import draws_of


@dataclass(frozen=True)
class ParityLearner(Config):
    """A parity, and the size of a model that is to learn it."""

    bits: int = option(30, "input bits n", low=2, high=10**15)
    size: int = option(3, "secret bits k", low=1, high=10**15)
    width: int = option(720, "width d", low=1, high=10**9)
    neurons: int = option(1440, "m: half the number of hidden neurons", low=1, high=10**9)

    def check(self) -> None:
        require(self.size <= self.bits, f"size={self.size} must be at most bits={self.bits}")


@LEDGER.reported(
    "thm2",
    statement="Theorem 2",
    says=r"without a chain, memory $o(nk)$ needs $2^{\Omega(k)}$ samples: here only how large $d^2 + dm$ is against"
    r" $nk/\ln n$",
    cases=(ParityLearner(), ParityLearner(100, 20), ParityLearner(100_000, 10, 200, 22)),
)
def does_the_bound_apply(config: ParityLearner, seed: int):
    found = memory.memory(config.bits, config.size, config.width, config.neurons)
    yield measured("(d^2 + dm) / (nk/ln n)", found.ratio)
    yield row({**found._asdict(), "2^k": 2.0 ** min(config.size, 1000)})
    applies = "may apply" if found.applies else "says nothing"
    yield note(f"the bound {applies} here; no finite run can prove a lower bound on all learners: fig1a measures one")


@dataclass(frozen=True)
class Elimination(Config):
    """Random samples of a parity, one after the other, until they determine it."""

    bits: int = option(30, "input bits n", low=1, high=256)
    size: int = option(3, "secret bits k", low=1, high=256)
    trials: int = option(200, "repetitions", low=2, high=10_000)

    def check(self) -> None:
        require(self.size <= self.bits, f"size={self.size} must be at most bits={self.bits}")


@LEDGER.bound(
    "gf2",
    statement="ours",
    says=r"Gaussian elimination finds the secret from $n + \sum_i 1/(2^i-1) = n + 1.6$ samples on average",
    of=(memory.samples_to_full_rank, gf2.solve),
    cases=(Elimination(), Elimination(20, 20), Elimination(5, 1)),
    seeds=3,
)
def elimination_needs_few_samples(config: Elimination, seed: int):
    n, random = config.bits, draws_of(seed, "samples and secrets", config.bits)
    needed, right, noticed = [], [], []
    for _ in range(config.trials):
        bits = random.integers(0, 2, (n + 40, n), dtype=np.int8)
        secret = np.zeros(n, dtype=np.int8)
        secret[random.permutation(n)[: config.size]] = 1
        count = samples_to_full_rank(bits)
        needed.append(count)
        labels = bits @ secret % 2
        found = gf2.solve(bits[:count], labels[:count])
        right.append(found.unique and np.array_equal(found.values, secret))
        noisy = labels.copy()
        noisy[0] ^= 1
        noticed.append(not gf2.solve(bits, noisy).consistent)
    mean, variance = memory.samples_to_full_rank(n)
    off = abs(float(np.mean(needed)) - mean) / math.sqrt(variance / config.trials)
    for few in (1, 2, 3):  # ranks as a Markov chain: from r, a sample stays in a space of 2^r of 2^n vectors
        stays = np.diag([2.0 ** (r - few) for r in range(few)])
        goes_on = np.diag([1 - 2.0 ** (r - few) for r in range(few - 1)], 1)
        expected = np.linalg.solve(np.eye(few) - stays - goes_on, np.ones(few))[0]
        yield equal(
            f"samples to full rank, n={few}, by its Markov chain", memory.samples_to_full_rank(few)[0], expected
        )
    yield true("the secret is found", right)
    yield true("one flipped label is noticed", noticed)
    yield at_most("|mean samples - expected|, in deviations", off, 4.0)
    spread = math.sqrt(variance * math.sqrt(10 / config.trials))  # its fourth moment is about 9 variances^2
    yield at_most(
        "|variance of the samples - expected|, over four deviations", abs(np.var(needed) - variance), 4 * spread**2
    )
    yield row({"mean - n": np.mean(needed) - n, "log2 C(n,k)": math.log2(math.comb(n, config.size))})


def samples_to_full_rank(bits: np.ndarray) -> int:
    """How many of the rows it takes to reach full rank (all of them, where they never do)."""
    basis: dict[int, int] = {}
    for number, sample in enumerate(bits, start=1):
        value = int("".join(map(str, sample)), 2)
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


@LEDGER.exact(
    "phase1-zero",
    statement="ours",
    says=r"without a chain the mean gradient of step 1 is exactly 0 for $k \ge 2$; for $k = 1$ it shows the secret bit",
    of=(statistics.batch_counts, steps.gradient),
    free={"gradient": "minus zero is zero; the gradient's sign is that of Lemmas 12 and 14"},
    cases=(Population(), Population(Task(6, 1))),
    seeds=3,
)
def the_first_step_sees_nothing(config: Population, seed: int):
    plain = Task(config.task.bits, config.task.size, cot=False, secret=config.task.secret)
    tokens = all_sequences(plain, seed)
    counts = statistics.batch_counts(tokens, 1)
    positive = random_positive(config.neurons, 1, seed)
    found = _gradient()(jnp.asarray(positive), jnp.asarray(tokens))
    n, m = config.task.bits, config.neurons
    expected = np.zeros((n + 1, 2, 2))
    if config.task.size == 1:
        expected[secret_of(plain, seed), :, 0] = np.array([1, -1]) * len(tokens) / 2
    yield true("alpha, in whole numbers", counts.alpha[0] == expected)
    yield true("delta is 0", counts.delta == 0)
    yield at_most("largest gradient of W[:, :d] by autodiff", np.abs(np.asarray(found.own)).max(), 1e-15)
    largest = expected.max() / len(tokens) / (2 * m * (n + 1)) * positive[:, 0, 0].any()
    yield equal("largest gradient of W[:, d:] by autodiff", np.abs(np.asarray(found.seen)).max(), largest, scale=1e-3)
