"""How close samples come to averages: Lemma 9, Lemma 10, and the noise law of the one-step gradient."""

import math
from dataclasses import dataclass
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from stairwise.lab.checks import empty_if, under
from stairwise.lab.config import Config, option, require
from stairwise.lab.contract import Verdict
from stairwise.papers.parity_onestep import gradient
from stairwise.papers.parity_onestep.claims.ledger import LEDGER
from stairwise.papers.parity_onestep.claims.sizes import (
    LARGEST_ARRAY,
    bits_of,
    fits,
    link_of,
    power_of_two,
    tokens_of,
    tree_of,
)
from stairwise.papers.parity_onestep.config import LinkFunction, Task
from stairwise.papers.parity_onestep.theory import bounds, census, noise, population, spectrum

WIDE = 2048  # visible tokens at which the leading order must be good
BY_TRANSFORM = 16  # bits up to which all correlations come from one transform


# --- Lemma 9 ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Interactions(Config):
    """Data sets whose products of up to four tokens are averaged."""

    task: Task = option(Task(12, 8), "the parity")
    samples: int = option(500, "samples n", low=1, high=2**20)
    failure: float = option(0.1, "probability p with which the bound may fail", above=0.0, below=1.0)
    repeats: int = option(100, "data sets", low=1, high=100_000)

    def check(self) -> None:
        fits(self.samples, self.task)
        if self.task.bits > BY_TRANSFORM:
            pairs = (self.task.bits + self.task.size) ** 2 // 2
            require(
                pairs**2 <= LARGEST_ARRAY,
                f"task.bits={self.task.bits} and task.size={self.task.size} make {pairs} pairs of tokens,"
                f" whose square must be at most {LARGEST_ARRAY}",
            )


def violations(config: Interactions, seed: int) -> Verdict:
    """How often the largest nontrivial average over up to four tokens exceeds kappa."""
    tree = tree_of(config.task, seed)
    masks = census.token_masks(np.asarray(tree.children), config.task.bits)
    kappa = bounds.interaction(config.samples, config.task.bits, config.failure)
    largest = largest_by_transform if config.task.bits <= BY_TRANSFORM else largest_by_pairs
    found = [largest(masks, bits_of(config.task, config.samples, seed + r)) for r in range(config.repeats)]
    broken = float(np.mean(np.array(found) > kappa))
    row = {"kappa": kappa, "mean of the largest": float(np.mean(found)), "largest of all": float(np.max(found))}
    verdict = Verdict.at_most(broken, config.failure, details=(row,))
    return empty_if(kappa >= 1, verdict, "kappa is above 1")


def largest_by_transform(masks: list[int], x: np.ndarray) -> float:
    """Every correlation at once, by the transform of the histogram."""
    averages = spectrum.walsh_hadamard(spectrum.histogram(x))
    return float(np.abs(averages[list(census.nontrivial_masks(masks))]).max())


def largest_by_pairs(masks: list[int], x: np.ndarray) -> float:
    """Products of up to four tokens are inner products of products of up to two."""
    tokens = [0, *masks]  # the empty product and every token
    codes = sorted({one ^ other for one in tokens for other in tokens})
    members = np.array([[(code >> j) & 1 for j in range(x.shape[1])] for code in codes], dtype=np.float32)
    total = np.zeros((len(codes), len(codes)), dtype=np.float32)
    for start in range(0, len(x), 1024):
        minus = members @ (x[start : start + 1024] < 0).T.astype(np.float32)
        products = 1 - 2 * (minus % 2)
        total += products @ products.T
    np.fill_diagonal(total, 0.0)  # two distinct products have a nontrivial quotient
    return float(np.abs(total).max()) / len(x)


@LEDGER.theory(
    "lem9",
    kind="bound",
    says="nontrivial averages over up to four tokens stay below kappa = sqrt((2/n) log(32d^4/p)) with chance 1 - p",
    cases=(Interactions(), Interactions(Task(12, 7), samples=2000, repeats=50)),
)
def interactions_concentrate(config: Interactions, seed: int) -> Verdict:
    return violations(config, seed)


@LEDGER.theory(
    "lem9-large",
    kind="bound",
    says="the same where the cube cannot be listed: d = 48, k = 32, n = 20,000, all pairs of pairs of tokens",
    cases=Interactions(Task(48, 32), samples=20_000, repeats=1),
    tier="minutes",
)
def interactions_concentrate_at_larger_sizes(config: Interactions, seed: int) -> Verdict:
    return violations(config, seed)


# --- Lemma 10 ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Augmented(Config):
    """Unlabelled inputs (and training inputs, which the statement is about too)."""

    task: Task = option(Task(64, 64), "the parity")
    rows: int = option(0, "training and augmented inputs together; 0 = d", low=0, high=2**20)
    failure: float = option(0.1, "probability p with which the bound may fail", above=0.0, below=1.0)
    repeats: int = option(30, "draws of the inputs", low=1, high=100_000)

    def check(self) -> None:
        fits(self.inputs, self.task)

    @property
    def inputs(self) -> int:
        return self.rows or self.task.bits


@LEDGER.theory(
    "lem10",
    kind="bound",
    says="with chance 1 - p the means of all tokens up to a level are below 2(sqrt 2+1) sqrt(log(2 rows (v+1)/p)/d)",
    cases=tuple(Augmented(Task(d, d)) for d in (64, 256, 1024)),
)
def level_means_concentrate(config: Augmented, seed: int) -> Verdict:
    task, tree = config.task, tree_of(config.task, seed)
    ends, rows = tree.level_ends(), config.inputs
    each = config.failure / len(ends)  # the union over levels 0..v
    bound = bounds.level_means(task.bits, rows, each)
    by_level = np.array(bounds.level_means_exact(ends.tolist(), rows, each))
    largest = np.zeros((config.repeats, len(ends)))
    for repeat in range(config.repeats):
        sums = np.cumsum(tokens_of(tree, bits_of(task, rows, seed + repeat)), axis=1)
        largest[repeat] = np.abs(sums[:, ends - 1]).max(axis=0) / ends
    row = {
        "largest mean": float(largest.max()),
        "bound": bound,
        "bound if p is for one level": bounds.level_means(task.bits, rows, config.failure),
        "bound if p = exp(-sqrt d)": bounds.level_means(task.bits, rows, math.exp(-math.sqrt(task.bits))),
        "tightest bound of a level": float(by_level.min()),
    }
    verdict = Verdict.worst(
        {
            "share of draws above the bound": Verdict.at_most(
                float(np.mean(np.any(largest > bound, axis=1))), config.failure, details=(row,)
            ),
            "share above the bound of some level": Verdict.at_most(
                float(np.mean(np.any(largest > by_level, axis=1))), config.failure
            ),
        }
    )
    violated = () if task.tree == "balanced" else power_of_two(task)
    return under(violated, empty_if(bool(by_level.min() >= 1), verdict, "the bound of every level is above 1"))


@LEDGER.theory(
    "lem10-printed",
    kind="bound",
    says="as printed: the sum over level 0 is at most sqrt(2k log(2n'/p)) with chance 1 - p (as if it had k terms)",
    cases=Augmented(Task(1024, 4)),
)
def level_zero_has_d_terms(config: Augmented, seed: int) -> Verdict:
    task = config.task
    printed = bounds.level_zero_sum_printed(task.size, config.inputs, config.failure)
    corrected = bounds.level_zero_sum_printed(task.bits, config.inputs, config.failure)
    largest = np.array(
        [
            np.abs(bits_of(task, config.inputs, seed + repeat).sum(axis=1, dtype=np.int64)).max()
            for repeat in range(config.repeats)
        ]
    )
    row = {"largest sum": float(largest.max()), "printed bound": printed, "with d terms": corrected}
    row |= {"share above it": float(np.mean(largest > corrected))}
    return Verdict.at_most(
        float(np.mean(largest > printed)),
        config.failure,
        otherwise="refuted",
        note="level 0 has d inputs, not k; the final constant 2(sqrt 2+1) still comes out right",
        details=(row,),
    )


@dataclass(frozen=True)
class Informative(Config):
    """How many unlabelled inputs it takes for every token to have a +1 among them."""

    task: Task = option(Task(32, 16), "the parity")
    inputs: int = option(16, "unlabelled inputs n'", low=1, high=1000)
    repeats: int = option(2000, "draws of them, to check the formula", low=1, high=10**6)

    def check(self) -> None:
        numbers = self.repeats * self.inputs * (self.task.bits + self.task.size)
        require(numbers <= LARGEST_ARRAY, f"repeats={self.repeats} needs {numbers} numbers, at most {LARGEST_ARRAY}")


@LEDGER.theory(
    "lem10-informative",
    kind="bound",
    says="the chance that some token is -1 on all n' unlabelled inputs is at most (d+k-1) 2^-n'; exact by recursion",
    cases=(Informative(), Informative(inputs=8), Informative(inputs=6), Informative(Task(24, 11), inputs=6)),
)
def every_token_is_informative(config: Informative, seed: int) -> Verdict:
    tree = tree_of(config.task, seed)
    d, n = config.task.bits, config.inputs
    children = np.asarray(tree.children)
    chance, bound = bounds.uninformative_chance(children, d, n), bounds.uninformative_bound(tree.tokens, n)
    x = bits_of(config.task, config.repeats * n, seed)
    tokens = census.complete(children, x).reshape(config.repeats, n, -1)
    seen = float(np.mean(np.any(np.all(tokens < 0, axis=1), axis=1)))
    spread = math.sqrt(max(chance * (1 - chance), 1e-12) / config.repeats) + 1 / config.repeats
    row = {"n'": n, "exact": chance, "bound": bound, "share of draws": seen}
    return Verdict.worst(
        {
            "chance against its bound": empty_if(
                bound >= 1, Verdict.at_most(chance, bound * (1 + 1e-9), details=(row,)), "a bound of 1 on a chance"
            ),
            "share of draws from it, in deviations": Verdict.at_most(abs(seen - chance) / spread, 5.0),
        }
    )


# --- the noise of one step (beyond the paper) -------------------------------------------------------------------------


@dataclass(frozen=True)
class Noise(Config):
    """Several data sets, whose one-step gradients scatter around the exact mean."""

    task: Task = option(Task(64, 64), "the parity")
    link: LinkFunction = option(LinkFunction(), "the link function")
    samples: int = option(4000, "samples n; a sum of fewer than 64 is not near normal", low=64, high=2**20)
    repeats: int = option(16, "data sets", low=1, high=10_000)

    def check(self) -> None:
        fits(self.samples, self.task)
        tokens = self.task.bits + self.task.size - 1
        require(tokens <= 1000, f"task.bits+task.size-1={tokens} must be at most 1000")
        require(self.task.bits > 2, f"task.bits={self.task.bits} must be at least 3 (of two bits the gradient is 0)")


@LEDGER.theory(
    "noise-law",
    kind="identity",
    says="beyond the paper: noise over signal is sqrt(2V/n) for an entry, sqrt(120) c/(2 sqrt(nV)) between children",
    cases=(Noise(), Noise(Task(32, 12), LinkFunction("cos"), repeats=32)),
)
def the_gradient_scatters_as_predicted(config: Noise, seed: int) -> Verdict:
    task, link, tree = config.task, link_of(config.link), tree_of(config.task, seed)
    children, d, n = np.asarray(tree.children), task.bits, config.samples
    laws = [population.node_law(children, d, i, i) for i in range(tree.nodes)]
    means = [population.node_gradient(law, link) for law in laws]
    spreads = [
        population.node_spread(law, link, tuple(pair)) for law, pair in zip(laws, children.tolist(), strict=True)
    ]
    squares = {"entry": [], "common": [], "difference": []}
    for repeat in range(config.repeats):
        x = tokens_of(tree, bits_of(task, n, seed + repeat))
        G = np.asarray(one_step_gradient()(jnp.asarray(x.T), tree, config.link))
        for i, ((one, two), mean, spread) in enumerate(zip(children, means, spreads, strict=True)):
            off = G[: d + i, i] - mean
            others = np.delete(off**2 * n / np.maximum(spread.entry, 1e-300) ** 2, [one, two])
            squares["entry"].append(others.mean() if len(others) else 1.0)
            squares["common"].append(((off[one] + off[two]) / 2) ** 2 * n / spread.common**2)
            squares["difference"].append((off[one] - off[two]) ** 2 * n / spread.difference**2)
    leading = noise.leading_law(tree.tokens - 1, n, link.curvature)
    signal = 2 * link.curvature / (tree.tokens - 1) ** 2
    last = spreads[-1]
    row = {
        "exact over leading, entry": float(np.median(last.entry)) / math.sqrt(n) / signal / leading.other,
        "common": last.common / math.sqrt(n) / signal / leading.common,
        "difference": last.difference / math.sqrt(n) / signal / leading.difference,
    }
    corner = 1 - 2 / config.link.slope if config.link.name == "requ" else 1.0
    wide = spread_over_leading(link, WIDE) if corner * math.sqrt(WIDE) >= 6 else {}  # else |z| leaves the parabola
    # squares of standard normals have mean 1 and variance 2; columns of one data set are nearly independent
    allowed = 5 * math.sqrt(2 / (config.repeats * tree.nodes))
    verdicts = {
        f"mean square of the {name}, off 1 by": Verdict.at_most(abs(float(np.mean(found)) - 1), allowed, details=(row,))
        for name, found in squares.items()
    }
    for name, ratio in wide.items():
        verdicts[f"exact over leading {name} at V = {WIDE}, off 1 by"] = Verdict.at_most(abs(ratio - 1), 0.05)
    return Verdict.worst(verdicts)


def spread_over_leading(link, visible: int) -> dict[str, float]:
    """The exact noise of a node that sees V independent bits, over the leading order."""
    law = population.node_law(np.array([[0, 1]]), visible, 0, 0)
    exact, leading = population.node_spread(law, link, (0, 1)), noise.leading_law(visible, 1, link.curvature)
    signal = 2 * link.curvature / visible**2
    return {
        "entry": float(exact.entry[-1]) / signal / leading.other,
        "common": exact.common / signal / leading.common,
        "difference": exact.difference / signal / leading.difference,
    }


@cache
def one_step_gradient():
    def step(x, tree, link):
        weights = jnp.ones(x.shape[1], dtype=x.dtype)
        sums = gradient.forced_at_zero(tree, link_of(link), "causal", x, weights)
        visible = tree.visible("causal")
        scores = visible / jnp.maximum(jnp.sum(visible, axis=0), 1)
        return gradient.gradient(scores.astype(x.dtype), sums.S, x.shape[1])

    return jax.jit(step, static_argnums=2)
