"""Without a chain of thought: how gradients hide the secret, elimination over GF(2), a first step that sees nothing."""

import math
from dataclasses import dataclass
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from stairwise.config import Config, option, require
from stairwise.lab.contract.checks import at_least, at_most, equal, hypothesis, measured, note, row, slope, true
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
    "thm2-size",
    statement="Theorem 2",
    says=r"whether its bound speaks of a model: how large $d^2 + dm$ is against $nk/\ln n$",
    cases=(ParityLearner(), ParityLearner(100, 20), ParityLearner(100_000, 10, 200, 22)),
)
def does_the_bound_apply(config: ParityLearner, seed: int):
    found = memory.memory(config.bits, config.size, config.width, config.neurons)
    yield measured("(d^2 + dm) / (nk/ln n)", found.ratio)
    yield row({**found._asdict(), "2^k": 2.0 ** min(config.size, 1000)})
    applies = "may apply" if found.applies else "says nothing"
    yield note(f"the bound {applies} here; no finite run can prove a lower bound on all learners: fig1a measures one")


@dataclass(frozen=True)
class Hidden(Config):
    """Models below the threshold of Theorem 2 at n = 2k, with weights that know nothing of the secret."""

    sizes: tuple[int, ...] = option((3, 4, 5, 6), "secret bits k, with n = 2k", low=3, high=8)
    models: int = option(24, "models of each size, whose gradients are pooled", low=1, high=100)
    scale: float = option(1.0, "standard deviation of all weights", above=0.0, high=2.0)

    def check(self) -> None:
        require(len(set(self.sizes)) > 2, "sizes must name three numbers at least, for a rate")


@cache
def _by_sample():
    """The output and its gradient with respect to A and W, sample by sample, and the mean hinge loss."""

    def output(weights, embeddings, bits):
        attention, own, seen = weights
        tables = simplified.Tables(own @ embeddings.T, seen @ embeddings.T, embeddings @ attention @ embeddings.T)
        tokens = jnp.concatenate([bits, jnp.zeros(1, bits.dtype)])
        return simplified.outputs(tables, simplified.readout(len(own) // 2), tokens, len(bits))[0]

    def loss(weights, embeddings, bits, labels):
        found = jax.vmap(lambda each: output(weights, embeddings, each))(bits)
        return jnp.mean(simplified.loss_of("hinge", found, labels))

    each = jax.vmap(jax.value_and_grad(output), in_axes=(None, None, 0))
    return jax.jit(each), jax.jit(jax.grad(loss))


def _flat(weights, count: int) -> np.ndarray:
    return np.concatenate([np.asarray(part).reshape(count, -1) for part in weights], axis=1)


@LEDGER.rate(
    "thm2",
    statement="Theorem 2",
    says=r"why $2^{\Omega(k)}$ samples, at $n = 2k$ and $d^2 + dm < nk/\ln n$: over all secrets the mean square of the"
    r" gradient is at most $E|g|^2/\binom{n}{k}$; the cited bound on every program with $o(nk)$ memory is beyond any"
    " computation",
    of=(memory.memory, memory.largest_model, memory.fourier, memory.samples_to_see),
    cases=(Hidden(), Hidden(scale=0.3)),
    seeds=3,
    optimise=True,
)
def gradients_hide_the_secret(config: Hidden, seed: int):
    each, of_mean = _by_sample()
    needed = []
    for k in config.sizes:
        n = 2 * k
        width, m = memory.largest_model(n, k)
        used = memory.memory(n, k, width, m)
        yield at_most(f"(d^2 + dm) ln n, n={n}", used.used * math.log(n), n * k)
        yield at_least(f"the same with one more neuron pair, n={n}", (used.used + width) * math.log(n), n * k)
        half = n * k / math.log(n) / 2
        yield true(f"d^2 takes half of it, n={n}", width**2 <= half < (width + 1) ** 2)
        random = draws_of(seed, "weights and embeddings", k)
        codes = np.arange(2**n)
        bits = (codes[:, None] >> np.arange(n) & 1).astype(np.int8)
        secrets = codes[bits.sum(axis=1) == k]
        yield equal(f"secrets, n={n}", float(len(secrets)), float(math.comb(n, k)))
        every = np.isin(codes, secrets).astype(np.float64)  # the sum of all parities attains the bound
        attained = memory.samples_to_see(float(every.sum()), every[secrets])
        yield equal(f"samples for the sum of all parities, n={n}", attained, float(math.comb(n, k)))
        found, noises, signals = [], [], []
        for number in range(config.models):
            embeddings = jnp.asarray((1 - 2 * random.integers(0, 2, (2 * (n + 1), width))) / math.sqrt(width))
            shapes = (width, width), (2 * m, width), (2 * m, width)
            weights = tuple(jnp.asarray(config.scale * random.standard_normal(shape)) for shape in shapes)
            outputs, gradients = each(weights, embeddings, jnp.asarray(bits))
            yield hypothesis("the hinge is linear: |output| <= 1 on every input", np.abs(outputs).max() <= 1)
            flat = _flat(gradients, 2**n)
            coefficients, noise = memory.fourier(flat), float(np.mean(np.sum(flat**2, axis=1)))
            noises.append(noise)
            signals.append(np.sum(coefficients[secrets] ** 2, axis=1))
            found.append(memory.samples_to_see(noise, signals[-1]))
            if number == 0:
                yield equal(f"weights of the model, n={n}", float(sum(part.size for part in weights)), used.parameters)
                yield equal(f"Parseval, n={n}", float(np.sum(coefficients**2)), noise, 1e-9)
                chosen = random.choice(secrets, 3, replace=False)  # their gradients, by autodiff of the mean loss
                labels = [(bits[:, (code >> np.arange(n) & 1) == 1].sum(axis=1) % 2).astype(np.int8) for code in chosen]
                direct = [_flat(of_mean(weights, embeddings, jnp.asarray(bits), jnp.asarray(y)), 1)[0] for y in labels]
                largest = float(np.abs(flat).max())
                name = f"gradients of three secrets, n={n}"
                yield equal(name, np.stack(direct), coefficients[chosen], 1e-9, scale=largest)
        yield at_least(f"samples until signal is noise, n={n}", found, math.comb(n, k))
        needed.append(memory.samples_to_see(float(np.mean(noises)), np.mean(signals, axis=0)))
        yield row({"n": n, "k": k, "d": width, "m": m, "samples": needed[-1], "C(n,k)": math.comb(n, k)})
    yield slope(
        "samples until signal is noise",
        config.sizes,
        needed,
        math.log(2),
        side="at least",
        law="exponential",
        against="k",
        bound=[2.0**k for k in config.sizes],
    )


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
