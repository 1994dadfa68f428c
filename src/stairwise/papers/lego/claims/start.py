"""Logit bounds, the start of training, and the concentration inequality (Facts B.2-B.4, Lemmas B.9, B.11, C.1, C.9)."""

import itertools
import math
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from stairwise.config import Config, option, require
from stairwise.lab.contract.checks import at_least, at_most, equal, note, row
from stairwise.papers.lego import groups
from stairwise.papers.lego import model as models
from stairwise.papers.lego.claims.ledger import LEDGER
from stairwise.papers.lego.claims.networks import ideal
from stairwise.papers.lego.claims.refined import feature_table, outputs_before_the_clip, with_clip
from stairwise.papers.lego.claims.sizes import Ideal, assumption_4_1, assumption_c1, both
from stairwise.papers.lego.config.task import ACTIONS, Task, action_of
from stairwise.papers.lego.theory import literal, start
from stairwise.train.draws import draws_of
from stairwise.train.keys import role_key


@dataclass(frozen=True)
class Clip(Config):
    """Logits between 0 and B."""

    tokens: tuple[int, ...] = option((11, 64, 256), "vocabulary sizes d", low=3, high=1_000_000)
    clip_factor: float = option(3.0, "C_B of B = C_B log d", above=0.0, high=20.0)
    values: int = option(3, "values |Y|", low=1, high=1000)
    draws: int = option(2000, "random logits", low=10, high=100_000)

    def check(self) -> None:
        require(bool(self.tokens), "tokens must name at least one size")
        require(self.values < min(self.tokens), f"values={self.values} must be below tokens={min(self.tokens)}")


@LEDGER.bound(
    "factB2",
    statement="Fact B.2",
    says=r"for $0 \le F \le B$: $1 - \mathrm{logit} \ge \lambda = (d-1)/(d-1+e^B)$, attained; the least loss is"
    r" $\log(1+(d-1)e^{-B})$; no logit is below $1/(d-|Y|+|Y|e^B) \ge \lambda/(|Y| d)$",
    of=(start.logit_floor, start.loss_floor, start.smallest_logit),
    cases=Clip(),
    search={"clip_factor": (0.5, 15.0, "linear")},
    seeds=3,
)
def clipped_logits_are_bounded(config: Clip, seed: int):
    rng = draws_of(seed, "logits")
    for d in config.tokens:
        B = config.clip_factor * math.log(d)
        floor = start.logit_floor(d, B)
        one, several = np.zeros(d), np.zeros(d)
        one[0], several[: config.values] = B, B
        others = float(np.exp(one[1:] - B).sum())
        yield equal(f"lambda, d={d}", others / (1 + others), floor)
        yield equal(f"least loss, d={d}", math.log1p(others), start.loss_floor(d, B))
        least = float(literal.softmax(several)[-1])
        yield equal(f"smallest logit, d={d}", least, start.smallest_logit(d, config.values, B))
        yield at_least(f"smallest logit, d={d}, over lambda/(|Y| d)", least, floor / (config.values * d))
        drawn = rng.uniform(0, B, size=(config.draws, d)) * (rng.random((config.draws, 1)) < 0.5)
        drawn[:, 0] = B
        rest = np.exp(drawn[:, 1:] - B).sum(axis=1)
        yield at_least(f"1 - logit of random outputs, d={d}", rest / (1 + rest), floor, rounding=1e-12)


# --- the start --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Start(Config):
    """W ~ N(0, sigma_0^2), b = sigma_0 log d."""

    action: str = option("C3", f"the action: {groups.NAMES}", examples=ACTIONS)
    tokens: int = option(256, "vocabulary size d", low=8, high=1_000_000)
    neurons: int = option(8, "neurons m of a class", low=1, high=256)
    sigma0: float = option(0.0625, "standard deviation of W (the paper: d^-1/2)", above=0.0, high=10.0)
    draws: int = option(400, "initialisations", low=20, high=20_000)

    def check(self) -> None:
        action = action_of(self.action)
        entries = self.draws * self.neurons * action.values * (action.actions + action.values)
        require(entries <= 20_000_000, f"draws={self.draws}: {entries} features must be at most 20000000")
        least = 2 + action.actions + action.values
        require(self.tokens >= least, f"tokens={self.tokens} must be at least {least}: blank, variable, {self.action}")
        pairs = self.neurons * action.values
        require(pairs >= 2, f"neurons={self.neurons}: {pairs} feature must be at least 2 for a gap")

    @property
    def bias(self) -> float:
        """mu = sigma_0 log d."""
        return self.sigma0 * math.log(self.tokens)


def paper_scale(config: Start) -> dict[str, bool]:
    return {"sigma_0 = d^-1/2 (Assumption 3.3)": math.isclose(config.sigma0, config.tokens**-0.5, rel_tol=1e-9)}


def one_per_neuron(config: Start, seed: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Weights, V_psi with one psi per neuron of each class (so that they are independent), and the fiber's size.

    psi is (j, r, y), y = r mod |Y|: V_psi = (mean over the actions that take y to j of V(g) + V(y))/2.
    """
    action, rng = action_of(config.action), draws_of(seed, "weights", config.neurons)
    shape = (config.draws, action.values, config.neurons)
    of_action, of_value = (
        config.sigma0 * rng.standard_normal((*shape, size)) for size in (action.actions, action.values)
    )
    rows = []
    for j, r in itertools.product(range(action.values), range(config.neurons)):
        y = r % action.values
        rows.append((of_action[:, j, r, action.fibers[j, y]].mean(axis=1) + of_value[:, j, r, y]) / 2)
    weights = np.concatenate([of_action.reshape(config.draws, -1), of_value.reshape(config.draws, -1)], axis=1)
    return weights, np.stack(rows, axis=1), int(action.fiber_sizes.max())


def the_start_is_spread_out(config: Start, seed: int):
    """Sizes by a union bound that is nearly attained; gaps by counting close pairs, which the union bound adds up."""
    action = action_of(config.action)
    weights, found, fiber = one_per_neuron(config, seed)
    count = weights.shape[1]
    largest = np.abs(weights).max(axis=1)
    exceeded = float((largest > start.largest_weight(count, config.sigma0, 0.05)).mean())
    yield at_most("chance that a weight exceeds sigma_0 sqrt(2 log(N/.05))", exceeded, 0.05)
    yield at_least(
        "median of the largest weight over that with chance 1",
        np.median(largest),
        0.75 * start.largest_weight(count, config.sigma0, 1.0),
    )
    yield at_most(
        "median of the largest weight over sigma_0 sqrt(2 log(2N))",
        np.median(largest),
        start.largest_weight(2 * count, config.sigma0, 1.0),
    )

    deviation = start.feature_deviation(config.sigma0, fiber)
    yield at_most(
        "deviation of V_psi, standard errors", abs(found.std() / deviation - 1), 5 / math.sqrt(2 * found.size)
    )
    features, difference = found.shape[1], math.sqrt(2) * deviation
    gap = start.separation(action.values, config.neurons, config.tokens, config.sigma0)
    wide = 0.05 * difference  # a gap at which pairs can be counted
    ordered = np.sort(found, axis=1)
    close = sum(((ordered[:, k:] - ordered[:, :-k]) < wide).sum(axis=1) for k in range(1, features))
    expected = start.close_pairs(features, wide, difference)
    error = 5 * np.std(close) / math.sqrt(config.draws) + 0.01 * expected
    yield at_most("close pairs, against N(N-1) gap/(sqrt(2 pi) deviation)", abs(np.mean(close) - expected), error)
    whole = action.values**2 * config.neurons  # every psi = (j, r, y), as the union bound of the proof counts
    size = (1 - 1 / whole) / math.sqrt(2 * math.pi) / math.log(config.tokens) * config.sigma0 / difference
    yield equal("union bound over all features", start.close_pairs(whole, gap, difference), size)
    yield row({"gap": gap, "union bound": size, "1/log d": 1 / math.log(config.tokens)})


LEDGER.family(
    the_start_is_spread_out,
    {
        "factB3": {
            "statement": "Fact B.3",
            "says": r"at the start $|W| \le O(\sigma_0\sqrt{\log d})$, and with the gap $\sigma_0/(|Y|^4 m^2 \log d)$"
            r" the union bound over all pairs of features is of order $1/\log d$, whatever $|Y|$ and $m$",
            "hypotheses": both(assumption_4_1, paper_scale),
            "cases": (Start(), Start("C5", neurons=6)),
        },
        "lemC1": {
            "statement": "Lemma C.1",
            "says": r"the same for means over fibers: deviation $\frac{\sigma_0}{2}\sqrt{1/F + 1}$, sizes and gaps",
            "hypotheses": both(assumption_c1, paper_scale),
            "cases": (Start("S3"), Start("S4", neurons=4, draws=200)),
        },
    },
    form="bound",
    of=(start.separation, start.close_pairs, start.feature_deviation, start.largest_weight),
    seeds=3,
)


@dataclass(frozen=True)
class FirstActivations(Config):
    """A network at its start, and the only contexts of one-step chains: two clauses, five tokens."""

    tokens: int = option(256, "vocabulary size d", low=16, high=4096)
    rho: float = option(0.8, "knot rho of the smoothed ReLU", above=0.0, high=10.0)
    neurons: int = option(4, "neurons m of a class", low=1, high=256)
    q: int = option(4, "power q of the smoothed ReLU", low=3, high=12)

    @property
    def sigma0(self) -> float:
        return self.tokens**-0.5

    @property
    def bias(self) -> float:
        return self.sigma0 * math.log(self.tokens)


@LEDGER.bound(
    "factB4",
    statement="Fact B.4",
    says=r"$\Lambda^{(0)}$ has mean $b = \sigma_0\log d$ and deviation $\frac{\sqrt5}{2}\sigma_0$, so it is"
    r" $(1 + O(1/\log d)) b$ in the mean square, and below $\rho$",
    of=(start.activation_deviation, models.initial),
    hypotheses={
        "sigma_0 log d < rho/1.5": lambda config: config.bias < config.rho / 1.5,
        "rho is three deviations above b": lambda config: (
            config.bias + 3 * start.activation_deviation(config.sigma0) <= config.rho
        ),
    },
    cases=(FirstActivations(), FirstActivations(tokens=400, neurons=1)),
    seeds=3,
)
def first_activations_concentrate(config: FirstActivations, seed: int):
    settings = {"sigma0": config.sigma0, "bias": config.bias, "clip": 100.0, "rho": config.rho, "q": config.q}
    key = role_key(seed, "weights")
    model = models.initial(key, config.tokens, config.neurons, positions=1, dtype=jnp.float64, **settings)
    clauses = jnp.array([[1, 3, 2, 0, 0], [0, 0, 0, 2, 4]], dtype=jnp.int32)
    lam = np.asarray(model.pre_activations(clauses, 1)).reshape(-1)
    deviation = start.activation_deviation(config.sigma0)
    yield at_most("mean less b, standard errors", abs(lam.mean() - config.bias) / deviation * math.sqrt(lam.size), 4.5)
    yield at_most("deviation, standard errors", abs(lam.std() / deviation - 1) * math.sqrt(2 * lam.size), 4.5)
    spread = float(np.sqrt(np.mean((lam / config.bias - 1) ** 2)))
    yield at_most("root mean square of Lambda/b - 1, times log d", spread * math.log(config.tokens), 1.2)
    yield at_least("share below rho", np.mean(lam < config.rho), 0.99)


# --- the end of the FFN's training ------------------------------------------------------------------------------------


def logits_at_convergence(config: Ideal, seed: int):
    """On every pair of T^1, from the outputs before the clip: the floor of Fact B.2 is attained, not exceeded."""
    case = ideal(config, seed, (1,))
    group, d, clip = config.task.group, case.task.vocabulary, float(case.model.clip)
    raw = outputs_before_the_clip(*feature_table(case), config)  # (g, y, j)
    right = group.table[:, :, None] == np.arange(group.values)
    true_, wrong = raw[right], raw[~right]
    # wrong values are added up by themselves: beside e^B they would be lost to rounding
    others = np.exp(-true_) * (np.where(right, 0.0, np.exp(raw)).sum(axis=2).reshape(-1) + d - group.values)
    floor = start.logit_floor(d, clip)
    yield equal("1 - logit of the true value", others / (1 + others), floor, 1e-9)
    yield equal("wrong logits", np.exp(wrong.max() - clip) / (1 + others.mean()), floor / (d - 1), 1e-9)
    yield note(f"lambda = {floor:.6g}, d = {d}")


LEDGER.family(
    logits_at_convergence,
    {
        "lemB9": {
            "statement": "Lemma B.9",
            "says": r"with all features learned $1 - \mathrm{logit}_{\mathrm{true}} = \lambda = (d-1)/(d-1+e^B)$, and"
            r" wrong logits are $\lambda/(d-1)$",
            "hypotheses": with_clip(assumption_4_1),
            "cases": Ideal(Task("C5", 3, 1)),
        },
        "lemC9": {
            "statement": "Lemma C.9",
            "says": "the same under an action that is transitive and not free",
            "hypotheses": with_clip(assumption_c1),
            "cases": Ideal(Task("S4", 3, 1)),
        },
    },
    form="exact",
    of=(models.ideal, models.feature_scale, start.logit_floor),
    seeds=3,
)


# --- Lemma B.11 -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tails(Config):
    """Products of m signs, averaged over all m-subsets of n signs: |h| <= 1."""

    n: int = option(24, "symbols n, a multiple of m", low=1, high=400)
    order: int = option(2, "m, the arguments of h", low=1, high=20)
    t: tuple[float, ...] = option((0.05, 0.1, 0.2, 0.3, 0.5, 0.9), "deviations", above=0.0, high=1.0)

    def check(self) -> None:
        require(self.order <= self.n, f"order={self.order} must be at most n={self.n}")
        require(bool(self.t), "t must name at least one deviation")


@LEDGER.bound(
    "lemB11",
    statement="Lemma B.11",
    says=r"in Hoeffding's form, $P(|U - EU| > t) \le 2e^{-nt^2/(2mM^2)}$: against the exact law of products of $m$"
    " signs (the constant of the exponent is illegible in our copy)",
    of=(start.pseudo_u_tail, start.sign_products_tail),
    hypotheses={"m divides n": lambda config: config.n % config.order == 0},
    cases=(Tails(24, 1), Tails(24, 2), Tails(100, 1, (0.1, 0.2, 0.3)), Tails(30, 3)),
    search={"n": (6, 120, "log")},
)
def pseudo_u_statistics_concentrate(config: Tails, seed: int):
    for t in config.t:
        exact = start.sign_products_tail(config.n, config.order, t)
        yield at_most(f"P(|U| > {t:g})", exact, start.pseudo_u_tail(config.n, config.order, 1.0, t))
    one = start.pseudo_u_tail(1, 1, 1.0, 0.05)
    yield at_most("P(|U| > 0.05) of one sign", start.sign_products_tail(1, 1, 0.05), one)
    signs = np.array(list(itertools.product((1, -1), repeat=9)))
    order = min(config.order, 9)
    U = np.mean([signs[:, list(chosen)].prod(axis=1) for chosen in itertools.combinations(range(9), order)], axis=0)
    yield equal("the exact law, at n = 9", start.sign_products_tail(9, order, 0.3), float(np.mean(np.abs(U) > 0.3)))
    n, t = 400, 0.15  # one sign each: where the exponent decides
    rate = math.log(start.sign_products_tail(n, 1, t)) / math.log(start.pseudo_u_tail(n, 1, 1.0, t) / 2)
    yield at_least("exact exponent over the bound's, n = 400", rate, 1.0)
    yield at_most("exact exponent over the bound's, n = 400", rate, 1.5)
