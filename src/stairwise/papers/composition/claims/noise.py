"""Sampling noise of the key-query gradients and what leaky layers below add to it (Lemmas 16, 20, 25)."""

import math
from dataclasses import dataclass
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from stairwise.config import Config, option, require
from stairwise.lab.contract.checks import at_least, at_most, equal, monomial, note, row, slope, true
from stairwise.papers.composition import integer
from stairwise.papers.composition import plan as plans
from stairwise.papers.composition.claims.gradients import SMALL_START, ideal_model, leaky_model, margins_of
from stairwise.papers.composition.claims.ledger import LEDGER
from stairwise.papers.composition.claims.running import Literal
from stairwise.papers.composition.claims.sizes import doubling, few_tokens, hidden_of, random_sequences
from stairwise.papers.composition.config import Task
from stairwise.papers.composition.theory import exact, noise, perturbation, population, streams
from stairwise.train.draws import draws_of

SINGLE = 64  # single examples, which tell how many entries are independent
# The factor off the law that is always allowed. `rms_range` takes the entries for independent normals, and their number
# from SINGLE examples. Both are rough: a few runs in a hundred would leave a range that is narrower than this.
ROUGH_LAW = 1.15
CHUNK = 1024  # samples that are counted at once: all sizes of a sweep share one compiled program


@cache
def _adder(blocks: int, layer: int):
    plan = plans.layers(blocks)
    return jax.jit(
        lambda counts, pi, sequences, queries: integer.add_pairs(counts, plan, layer - 1, pi, sequences, queries)
    )


def counted_signal(task: Task, hidden: np.ndarray, layer: int, samples: int, seed: int, draw: int = 0) -> np.ndarray:
    """g-hat of a layer on ideal inputs: the kN/beta0-fold of minus the gradient, by counts over M samples."""
    rng, pi = draws_of(seed, "samples", layer, samples, draw), jnp.asarray(hidden, dtype=jnp.int32)
    sequences = rng.permuted(np.broadcast_to(np.arange(task.alphabet), (samples, *hidden.shape)), axis=2)
    queries = rng.integers(0, task.tokens, samples)
    counts = integer.no_counts(layer - 1, task.tokens)
    for first in range(0, samples, CHUNK):
        chunk = slice(first, first + CHUNK)
        counts = _adder(task.blocks, layer)(
            counts, pi, jnp.asarray(sequences[chunk], dtype=jnp.int32), jnp.asarray(queries[chunk], dtype=jnp.int32)
        )
    gradient = integer.key_query_gradient(counts, task.alphabet, 1.0, samples, dtype="float64")
    return -task.tokens * np.asarray(gradient)


@dataclass(frozen=True)
class Noise(Config):
    """Growing batches of ideal inputs."""

    task: Task = option(Task(4, 5), "the composition")
    samples: tuple[int, ...] = option((256, 1024, 4096, 16_384, 65_536), "samples M", low=2, high=2**22)
    failure: float = option(0.01, "probability delta with which the bound may fail", above=0.0, below=1.0)

    def check(self) -> None:
        few_tokens(self.task, 128)
        require(not doubling(self.task), f"task.blocks={self.task.blocks} must be a power of two")


def noise_is_small(config: Noise, seed: int, first: int, last: int):
    """rms and largest entry of g-hat - g against the law and the bound, at every M."""
    task = config.task
    k, N = task.blocks, task.alphabet
    require(task.layers >= first, f"task.blocks={k} must be at least {2 ** (first - 1)} for layer {first}")
    hidden = hidden_of(task, seed)
    for layer in range(first, min(last, task.layers) + 1):
        signal = population.key_query_signal(hidden, layer)
        errors = [counted_signal(task, hidden, layer, samples, seed) - signal for samples in config.samples]
        largest = [float(np.abs(error).max()) for error in errors]
        rms = [float(np.sqrt((error**2).mean())) for error in errors]
        bounds = [noise.concentration_bound(k, N, samples, config.failure) for samples in config.samples]
        yield at_most(f"largest entry at layer {layer}", largest, bounds)
        # Hoeffding's inequality for d^2 entries fails with the chance delta at the bound
        d, M = noise.width_of(k, N), np.array(config.samples)
        chances = 2 * d**2 * np.exp(-2 * M * np.array(bounds) ** 2)
        yield equal(f"chance to exceed the bound at layer {layer}", chances, np.full(len(M), config.failure), 1e-9)
        # the query is hit with chance 1/(kN), and a key then shows the label or not
        variance = 1 / (k * N) * (1 / N) * (1 - 1 / N)
        yield equal(f"variance of an entry at layer {layer}", noise.entry_std(k, N, 1) ** 2, variance)
        # the law is that of X^2: its mean, the signal, takes a share; and few entries have a rms that varies
        share = float((signal**2).mean()) / noise.entry_std(k, N, 1) ** 2
        single = [counted_signal(task, hidden, layer, 1, seed, index) - signal for index in range(SINGLE)]
        entries = noise.independent_entries(np.stack(single).reshape(SINGLE, -1))
        low, high = noise.rms_range(entries, config.failure / len(config.samples))
        law = [found / noise.entry_std(k, N, samples) for found, samples in zip(rms, config.samples, strict=True)]
        yield at_most(f"rms over the law at layer {layer}", law, max(ROUGH_LAW, high))
        least = min(1 / ROUGH_LAW, low * math.sqrt(max(1 - share, 0.0)))
        yield at_least(f"rms over the law at layer {layer}", law, least)
        if len(set(config.samples)) > 2:
            yield slope(f"exponent of M at layer {layer}", config.samples, rms, -0.5, within=0.1)
        yield row(
            {
                "layer": layer,
                "largest sqrt(M)": str(
                    [round(a * math.sqrt(M), 3) for a, M in zip(largest, config.samples, strict=True)]
                ),
            }
        )


LEDGER.family(
    noise_is_small,
    {
        "lem16": {
            "statement": "Lemma 16",
            "says": (
                r"$|\hat g_1 - g_1|$ is $O(\log(kN/\delta)/\sqrt{M})$: Hoeffding's bound; an entry has standard "
                r"deviation $\sqrt{(N-1)/(kN^3M)}$"
            ),
            "given": {"first": 1, "last": 1},
        },
        "lem20": {
            "statement": "Lemma 20",
            "says": (
                r"$|\hat g_2 - g_2|$ is $O(\log(kN/\delta)/\sqrt{M})$ on ideal inputs (the $d\epsilon$ term is "
                r"lem20-pert)"
            ),
            "given": {"first": 2, "last": 2},
        },
        "lem25": {
            "statement": "Lemma 25",
            "says": (
                r"$|\hat g_\ell - g_\ell|$, $\ell \ge 3$, is $O(\log(kN/\delta)/\sqrt{M})$ on ideal inputs (the "
                r"$d\ell\epsilon$ term is lem25-pert)"
            ),
            "given": {"first": 3, "last": 20},
        },
    },
    form="bound",
    of=(noise.concentration_bound, noise.entry_std),
    seeds=3,
    cases=Noise(),
)


# --- leaks ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Leaky(Config):
    """Layers below that leak, as Theorem 4's weights do at finite beta."""

    task: Task = option(Task(4, 3), "the composition")
    betas: tuple[float, ...] = option((8.0, 11.0, 14.0), "sharpness of the layers below", above=0.0, high=700.0)
    samples: int = option(8192, "examples", low=1, high=2**16)
    beta0: float = option(1.0, "scale beta0 of the readouts' start", above=0.0, high=20.0)

    def check(self) -> None:
        few_tokens(self.task, 128)
        require(not doubling(self.task), f"task.blocks={self.task.blocks} must be a power of two")


def leaks_change_little(config: Leaky, seed: int, first: int, last: int):
    """g-hat with leaky layers below less g-hat with ideal ones, sample by sample, against 2 d (l-1) eps (C = 1)."""
    task, hidden = config.task, hidden_of(config.task, seed)
    k, N, L = task.blocks, task.alphabet, task.layers
    require(first <= L, f"task.blocks={k} must be at least {2 ** (first - 1)} for layer {first}")
    require(len(set(config.betas)) > 2, f"betas={config.betas} must be at least three sharpnesses")
    examples = exact.drawn(hidden, L, config.samples, draws_of(seed, "examples"))
    batch, d = Literal(task, hidden, examples), noise.width_of(k, N)
    for layer in range(first, min(last, L) + 1):
        ideal, away, changes = ideal_model(hidden, config.beta0, layer - 1), [], []
        reference = batch.own_gradients(ideal, layer)
        for beta in config.betas:
            network = leaky_model(hidden, config.beta0, beta, layer - 1)
            found = streams.deviation(network, hidden, random_sequences(task, 50, seed))
            away.append(float(found.trained[: layer - 1].max()) / (layer - 1))
            difference = batch.own_gradients(network, layer) - reference
            changes.append(task.tokens / config.beta0 * float(np.abs(difference).max()))
            yield row({"layer": layer, "beta": beta, "eps": away[-1], "change of g-hat": changes[-1]})
        bounds = [perturbation.gradient_error(d, layer - 1, eps) for eps in away]
        yield at_most(f"change of g-hat at layer {layer}", changes, bounds)
        yield slope(f"exponent of eps at layer {layer}", away, changes, 1.0)
        yield equal(
            f"bound at layer {layer}, over eps", np.divide(bounds, away), np.full(len(away), bounds[0] / away[0])
        )
        yield monomial(f"bound at layer {layer}", perturbation.gradient_error, 2, width=1, layers=1, epsilon=1)
        sharp = [perturbation.gradient_error_sharp(k, N, layer - 1, eps) for eps in away]
        # the second order is as large as the mass that leaks in these layers, at the largest leak
        yield equal(f"change of g-hat at layer {layer}, first order", changes, sharp, 3 * (layer - 1) * max(away))


LEDGER.family(
    leaks_change_little,
    {
        "lem20-pert": {
            "statement": ("Lemma 20", "Equation (7)"),
            "says": (
                r"inputs that are off by $\epsilon$ change $\hat g_2$ by $2Cd\epsilon$ at most, and like $\epsilon$ "
                r"(here $C = 1$ is enough; to first order it is $(1-\frac1N)\frac{3kN-1}{kN-1}\epsilon$)"
            ),
            "given": {"first": 2, "last": 2},
        },
        "lem25-pert": {
            "statement": ("Lemma 25", "Equation (9)"),
            "says": (
                r"inputs that are off by $(\ell-1)\epsilon$ change $\hat g_\ell$, $\ell \ge 3$, by "
                r"$2Cd(\ell-1)\epsilon$ at most, and like $\epsilon$"
            ),
            "given": {"first": 3, "last": 20},
        },
    },
    form="bound",
    of=(perturbation.gradient_error, perturbation.gradient_error_sharp),
    hypotheses=SMALL_START,
    seeds=3,
    cases=Leaky(Task(4, 2), samples=64),
)


# --- how many samples -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rule(Config):
    """Batches in units of kN(L+1)^2."""

    task: Task = option(Task(4, 5), "the composition")
    factor: int = option(32, "samples in units of kN(L+1)^2", low=1, high=10_000)
    test_examples: int = option(40, "test sequences, at all positions", low=1, high=1000, stored_as="sequences")

    def check(self) -> None:
        few_tokens(self.task, 128)
        require(not doubling(self.task), f"task.blocks={self.task.blocks} must be a power of two")


@LEDGER.bound(
    "sample-rule",
    statement="ours",
    says=(
        r"beyond the paper: $M = 32kN(L+1)^2$ samples give every stage the right attention from ideal inputs, where "
        r"$N \ge 5$"
    ),
    of=(noise.sample_rule, noise.margin_over_noise),
    hypotheses={
        "N >= 5": lambda config: config.task.alphabet >= 5,
        "32 times kN(L+1)^2 samples": lambda config: config.factor >= 32,
    },
    seeds=3,
    cases=(Rule(Task(2, 5)), Rule()),
)
def a_few_samples_are_enough(config: Rule, seed: int):
    task, hidden = config.task, hidden_of(config.task, seed)
    k, N, L = task.blocks, task.alphabet, task.layers
    samples = noise.sample_rule(k, N, config.factor)
    yield equal("samples", samples, config.factor * k * N * (L + 1) ** 2)
    for layer in range(1, L + 1):
        found = counted_signal(task, hidden, layer, samples, seed)
        sequences = random_sequences(task, config.test_examples, seed)
        margins = np.stack([margins_of(hidden, layer, sequence, found) for sequence in sequences])
        yield true(f"attention of layer {layer} is right", margins > 0)
        z = noise.margin_over_noise(k, N, samples, layer)
        # the margin in deviations of a difference of two sums of (l+1)^2 entries
        spread = math.sqrt(2) * (layer + 1) * noise.entry_std(k, N, samples)
        yield equal(f"margin over noise at layer {layer}", z, (N - 1) / (k * N**2) / spread)
        yield row({"layer": layer, "wrong": float(np.mean(margins <= 0)), "least margin": float(margins.min()), "z": z})
    yield note(f"M = {samples}; the theorem asks for k^4 N^6 = {noise.samples_theorem(k, N)}")
