"""How close samples come to averages: Lemma 9, Lemma 10, and the noise law of the one-step gradient."""

import math
from dataclasses import dataclass
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from stairwise.config import Config, option, require
from stairwise.lab.contract.checks import at_least, at_most, equal, row, slope, vacuous_if
from stairwise.papers.parity_onestep import gradient
from stairwise.papers.parity_onestep.claims.ledger import LEDGER
from stairwise.papers.parity_onestep.claims.sizes import (
    LARGEST_ARRAY,
    bits_of,
    complete_tree,
    fits,
    link_of,
    tokens_of,
    tree_of,
)
from stairwise.papers.parity_onestep.config import LinkFunction, Task
from stairwise.papers.parity_onestep.theory import bounds, census, noise, population, spectrum
from stairwise.papers.parity_onestep.theory import links as theory
from stairwise.tasks import parity

WIDE = 2048  # visible tokens at which the leading order must be good
BY_TRANSFORM = 16  # bits up to which all correlations come from one transform


# --- Lemma 9 ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Interactions(Config):
    """Data sets whose products of up to four tokens are averaged."""

    task: Task = option(Task(16, 16), "the parity")
    samples: int = option(2000, "samples n", low=1, high=2**20)
    failure: float = option(0.1, "probability p with which the bound may fail", above=0.0, below=1.0)
    repeats: int = option(8, "data sets", low=1, high=100_000)

    def check(self) -> None:
        fits(self.samples, self.task)
        if self.task.bits > BY_TRANSFORM:
            pairs = (self.task.bits + self.task.size) ** 2 // 2
            require(
                pairs**2 <= LARGEST_ARRAY,
                f"task.bits={self.task.bits} and task.size={self.task.size} make {pairs} pairs of tokens,"
                f" whose square must be at most {LARGEST_ARRAY}",
            )


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


def interactions_concentrate(config: Interactions, seed: int):
    """The union bound with the exact chance of every average, and how often data sets exceed kappa."""
    from scipy.special import bdtr

    d, n = config.task.bits, config.samples
    tree = tree_of(config.task, seed)
    masks = census.token_masks(np.asarray(tree.children), d)
    kappa = bounds.interaction(n, d, config.failure)
    tokens = d + config.task.size - 1
    tuples = sum(tokens**r for r in range(1, 5))
    each = 2 * float(bdtr(math.floor(n * (1 - kappa) / 2), n, 0.5)) if kappa <= 1 else 0.0
    yield at_most("sum over all tuples of the exact chance to exceed kappa", tuples * each, config.failure)
    hoeffding = 2 * math.exp(-n * kappa**2 / 2)
    yield equal("Hoeffding's chance for (2d)^4 tuples", (2 * d) ** 4 * hoeffding, config.failure, 1e-9)
    yield vacuous_if(kappa >= 1, "kappa is above 1")
    largest = largest_by_transform if d <= BY_TRANSFORM else largest_by_pairs
    found = [largest(masks, bits_of(config.task, n, seed, r)) for r in range(config.repeats)]
    yield at_most("share of data sets that exceed kappa", np.mean(np.array(found) > kappa), config.failure)
    yield row({"kappa": kappa, "mean of the largest": float(np.mean(found)), "largest of all": float(np.max(found))})


LEDGER.family(
    interactions_concentrate,
    {
        "lem9": {
            "statement": "Lemma 9",
            "says": r"nontrivial averages over up to four tokens stay below"
            r" $\kappa = \sqrt{\frac{2}{n}\log\frac{32d^4}{p}}$ with chance $1-p$",
            "cases": (
                Interactions(failure=0.9),
                Interactions(Task(12, 8), failure=0.01),
                Interactions(Task(12, 7), 500, failure=0.5),
            ),
            "seeds": 3,
        },
        "lem9-large": {
            "statement": "Lemma 9",
            "says": r"the same where the cube cannot be listed: $d = 48$, $k = 32$, $n = 20{,}000$, all pairs"
            r" of pairs of tokens",
            "cases": Interactions(Task(48, 32), samples=20_000, failure=0.9, repeats=2),
            "tier": "minutes",
            "seeds": 3,
        },
    },
    form="bound",
    of=(bounds.interaction,),
)


@dataclass(frozen=True)
class GrowingDimensions(Config):
    """Growing d at the paper's n and p."""

    bits: tuple[int, ...] = option((100, 200, 400, 600), "input bits d", low=2, high=650)
    epsilon: float = option(2.0, "eps, where n = d^(2+eps) and p = exp(-d^(eps/2))", above=0.0, high=2.0)

    def check(self) -> None:
        require(len(set(self.bits)) > 2, f"bits={self.bits} must be three sizes or more")


@LEDGER.rate(
    "lem9-rate",
    statement=("Lemma 9, rate", "Lemma 9"),
    says=r"$\kappa = O(d^{-1-\epsilon/4})$ for $n = d^{2+\epsilon}$ and $p = \exp(-d^{\epsilon/2})$",
    of=(bounds.interaction,),
    cases=GrowingDimensions(),
)
def kappa_falls_faster_than_the_signal_needs(config: GrowingDimensions, seed: int):
    eps, bits = config.epsilon, sorted(set(config.bits))
    kappas = [bounds.interaction(round(d ** (2 + eps)), d, math.exp(-(d ** (eps / 2)))) for d in bits]
    yield slope("exponent of kappa", bits, kappas, -1 - eps / 4, side="at most")
    # ln(32 d^4) falls behind d^(eps/2) slowly: take it out
    terms = [1 + math.log(32 * d**4) / d ** (eps / 2) for d in bits]
    leading = [kappa / math.sqrt(2 * term) for kappa, term in zip(kappas, terms, strict=True)]
    yield equal("kappa without its logarithm", leading, [d ** (-1 - eps / 4) for d in bits], 1e-4)


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


@LEDGER.bound(
    "lem10",
    statement="Lemma 10",
    says=r"with chance $1-p$ the means of all tokens up to a level are below"
    r" $2(\sqrt{2}+1)\sqrt{\log(2N(v+1)/p)/d}$ on all $N$ inputs, the sum of a geometric series over levels",
    of=(bounds.level_means, bounds.level_means_exact),
    hypotheses={"k = 2^v": lambda config: complete_tree(config.task)},
    cases=(
        Augmented(Task(64, 64), failure=0.9),
        Augmented(Task(256, 256), failure=0.5, repeats=8),
        Augmented(Task(1024, 1024), failure=0.5, repeats=4),
    ),
    seeds=3,
)
def level_means_concentrate(config: Augmented, seed: int):
    task, tree = config.task, tree_of(config.task, seed)
    ends, rows = tree.level_ends(), config.inputs
    each = config.failure / len(ends)  # the union over levels 0..v
    bound = bounds.level_means(task.bits, rows, each)
    by_level = np.array(bounds.level_means_exact(ends.tolist(), rows, each))
    largest = np.zeros((config.repeats, len(ends)))
    for repeat in range(config.repeats):
        sums = np.cumsum(tokens_of(tree, bits_of(task, rows, seed, repeat)), axis=1)
        largest[repeat] = np.abs(sums[:, ends - 1]).max(axis=0) / ends
    yield at_most("share of draws above the bound", np.mean(np.any(largest > bound, axis=1)), config.failure)
    above = np.mean(np.any(largest > by_level, axis=1))
    yield at_most("share of draws above the bound of some level", above, config.failure)
    deviations = math.sqrt(2 * math.log(2 * rows / each))  # Hoeffding's, for one mean of `rows`
    yield equal("the bound of level 0", by_level[0], deviations / math.sqrt(task.bits))
    if task.size == task.bits:  # the printed series, over d instead of d_l
        series = sum(2 ** ((tree.levels - level + 1) / 2) for level in range(tree.levels + 1))
        printed = series / task.bits * math.sqrt(math.log(2 * rows / each))
        yield at_most("the series over levels", printed, bound)
        yield at_least("the series over the bound", printed / bound, 1 - 2 ** (-(tree.levels + 1) / 2), rounding=1e-12)
        yield at_most("the bound of every level against the series", by_level, printed)
    yield row({"largest mean": float(largest.max()), "bound": bound, "of level 0": float(by_level[0])})
    yield vacuous_if(by_level.min() >= 1, "the bound of every level is above 1")


@dataclass(frozen=True)
class Means(Config):
    """Growing d at the paper's p."""

    bits: tuple[int, ...] = option((10**4, 3 * 10**4, 10**5, 4 * 10**5), "input bits d", low=2, high=450_000)
    power: float = option(2.0, "n' = d^power", above=0.0, high=10.0)

    def check(self) -> None:
        require(len(set(self.bits)) > 2, f"bits={self.bits} must be three sizes or more")


@LEDGER.rate(
    "lem10-rate",
    statement=("Lemma 10, rate", "Lemma 10"),
    says=r"with $p = e^{-\sqrt{d}}$ and $n' = \mathrm{poly}(d)$ the bound is $O(d^{-1/4})$",
    of=(bounds.level_means,),
    cases=Means(),
)
def means_fall_with_the_fourth_root(config: Means, seed: int):
    bits = sorted(set(config.bits))
    found = [bounds.level_means(d, round(d**config.power), math.exp(-math.sqrt(d))) for d in bits]
    yield slope("exponent of the bound", bits, found, -0.25)
    # level l has d/2^l tokens at most, and its mean is taken over d tokens or more
    d, rows, failure = 2**40, 1000, 0.1
    terms = [bounds.level_means_exact([d >> l], rows, failure)[0] / 2**l for l in range(41)]
    yield equal("the bound against the sum over levels", bounds.level_means(d, rows, failure), sum(terms), 1e-5)


@LEDGER.misprint(
    "lem10-printed",
    statement="Lemma 10, level 0",
    says=r"as printed: the sum over level 0 is at most $\sqrt{2k\log(2n'/p)}$ with chance $1-p$",
    means=r"level 0 has $d$ terms: $\sqrt{2d\log(2n'/p)}$; the constant $2(\sqrt{2}+1)$ still comes out right",
    of=(bounds.level_zero_sum_printed,),
    corrected="lem10",
    cases=Augmented(Task(1024, 4)),
    seeds=3,
)
def level_zero_has_d_terms(config: Augmented, seed: int):
    task = config.task
    printed = bounds.level_zero_sum_printed(task.size, config.inputs, config.failure)
    sums = [
        np.abs(bits_of(task, config.inputs, seed, r).sum(axis=1, dtype=np.int64)).max() for r in range(config.repeats)
    ]
    yield at_most("share of draws whose sum exceeds it", np.mean(np.array(sums) > printed), config.failure)
    yield row({"largest sum": float(max(sums)), "printed bound": printed})


@dataclass(frozen=True)
class Informative(Config):
    """How many unlabelled inputs it takes for every token to have a +1 among them."""

    task: Task = option(Task(32, 16), "the parity")
    inputs: int = option(16, "unlabelled inputs n'", low=1, high=1000)


@LEDGER.bound(
    "lem10-informative",
    statement=("Lemma 10, informative", "Lemma 10"),
    says=r"the chance that some token is $-1$ on all $n'$ unlabelled inputs is at most $(d+k-1)2^{-n'}$; exact"
    r" by recursion",
    of=(bounds.uninformative_bound, bounds.uninformative_chance),
    cases=(Informative(), Informative(inputs=8), Informative(Task(4, 4), inputs=4), Informative(Task(4, 3), inputs=4)),
    seeds=3,
)
def every_token_is_informative(config: Informative, seed: int):
    tree = tree_of(config.task, seed)
    d, n = config.task.bits, config.inputs
    children = np.asarray(tree.children)
    chance, bound = bounds.uninformative_chance(children, d, n), bounds.uninformative_bound(tree.tokens, n)
    yield at_most("chance", chance, bound, rounding=1e-9)
    alone = 1 - (1 - 2.0**-n) ** d  # of the inputs, which are independent
    yield at_least("chance against that of the inputs alone", chance, alone, rounding=1e-9)
    yield vacuous_if(bound >= 1, "a bound of 1 on a chance")
    if d * n <= 16:  # every draw of the unlabelled inputs
        draws = np.arange(2 ** (d * n))[:, None] >> np.arange(d * n) & 1
        tokens = census.complete(children, (1 - 2 * draws).reshape(-1, d)).reshape(len(draws), n, -1)
        listed = np.mean(np.any(np.all(tokens < 0, axis=1), axis=1))
        yield equal("chance against all draws", chance, listed)
    elif n >= 8:  # two tokens are rarely bad at once
        yield at_least("chance over the bound", chance / bound, 1 - tree.tokens * 2.0**-n)


# --- the noise of one step (beyond the paper) -------------------------------------------------------------------------


@dataclass(frozen=True)
class Noise(Config):
    """A tree whose one-step gradients scatter around the exact mean."""

    task: Task = option(Task(10, 8), "the parity")
    link: LinkFunction = option(LinkFunction(), "the link function")

    def check(self) -> None:
        require(self.task.bits > 2, f"task.bits={self.task.bits} must be at least 3 (of two bits the gradient is 0)")
        require(self.task.bits <= BY_TRANSFORM, f"task.bits={self.task.bits} must be at most {BY_TRANSFORM}, a cube")


@LEDGER.exact(
    "noise-law",
    statement="ours: the noise of one step",
    says=r"beyond the paper: noise over signal is $\sqrt{2V/n}$ for an entry, $\sqrt{120}\,c/(2\sqrt{nV})$ between the"
    r" children, to leading order; exact by convolution",
    of=(population.node_spread, noise.leading_law),
    cases=(Noise(), Noise(Task(9, 7), LinkFunction("cos")), Noise(Task(10, 4), LinkFunction("requ", 3.0))),
    seeds=3,
)
def the_gradient_scatters_as_predicted(config: Noise, seed: int):
    link, tree, d = link_of(config.link), tree_of(config.task, seed), config.task.bits
    children, x = np.asarray(tree.children), tokens_of(tree, parity.cube(d))
    for i, (one, two) in enumerate(children.tolist()):
        spread = population.node_spread(population.node_law(children, d, i, i), link, (one, two))
        seen, z = x[:, : d + i], x[:, : d + i].mean(axis=1)
        A = (theory.on(link.value, z) - x[:, d + i]) * theory.on(link.derivative, z) / (d + i)
        G = A[:, None] * (seen - z[:, None])  # the gradient of every single sample
        yield equal(f"deviation of every entry, node {i}", spread.entry, G.std(axis=0), 1e-9)
        yield equal(
            f"deviation of the children's mean, node {i}", spread.common, (G[:, one] + G[:, two]).std() / 2, 1e-9
        )
        yield equal(f"deviation of their difference, node {i}", spread.difference, (G[:, one] - G[:, two]).std(), 1e-9)
    corner = 1 - 2 / config.link.slope if config.link.name == "requ" else 1.0
    if corner * math.sqrt(WIDE) >= 6:  # else |z| leaves the parabola
        for name, found in spread_over_leading(link, WIDE).items():
            yield equal(f"exact over leading {name} at V = {WIDE}", found, 1.0, 0.05)


def spread_over_leading(link, visible: int) -> dict[str, float]:
    """The exact noise of a node that sees V independent bits, over the leading order, on any number of samples."""
    samples, law = 10, population.node_law(np.array([[0, 1]]), visible, 0, 0)
    exact, leading = population.node_spread(law, link, (0, 1)), noise.leading_law(visible, samples, link.curvature)
    signal = 2 * link.curvature / visible**2 * math.sqrt(samples)
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
