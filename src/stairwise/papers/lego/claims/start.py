"""Logit bounds, the start of training, and the concentration inequality (Facts B.2-B.4, Lemmas B.9, B.11, C.1, C.9)."""

import math
from dataclasses import dataclass

import numpy as np

from stairwise.lab.checks import empty_if, identical, under
from stairwise.lab.config import Config, option, require
from stairwise.lab.contract import Verdict
from stairwise.papers.lego.claims.ledger import LEDGER
from stairwise.papers.lego.claims.networks import ideal
from stairwise.papers.lego.claims.sizes import Ideal, simply_transitive, transitive_not_free
from stairwise.papers.lego.config.task import Task, action_of
from stairwise.papers.lego.theory import chains, literal, start
from stairwise.tasks import groups


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


@LEDGER.theory(
    "factB2",
    kind="identity",
    says="0 <= F <= B: 1 - logit >= lambda = (d-1)/(d-1+e^B), attained; the loss floor is log(1+(d-1)e^-B)",
    cases=Clip(),
)
def clipped_logits_are_bounded(config: Clip, seed: int) -> Verdict:
    pairs, ratios, random = {}, [], []
    rng = np.random.default_rng(seed)
    for d in config.tokens:
        B = config.clip_factor * math.log(d)
        one, several = np.zeros(d), np.zeros(d)
        one[0], several[: config.values] = B, B
        others = float(np.exp(one[1:] - B).sum())
        pairs[f"d={d}: lambda"] = (others / (1 + others), start.logit_floor(d, B))
        pairs[f"d={d}: loss"] = (math.log1p(others), start.loss_floor(d, B))
        least = float(literal.softmax(several)[-1])
        pairs[f"d={d}: smallest logit"] = (least, start.smallest_logit(d, config.values, B))
        ratios.append(least * config.values * d / start.logit_floor(d, B))
        drawn = rng.uniform(0, B, size=(config.draws, d)) * (rng.random((config.draws, 1)) < 0.5)
        drawn[:, 0] = B
        rest = np.exp(drawn[:, 1:] - B).sum(axis=1)
        random.append(float((rest / (1 + rest)).min()) / start.logit_floor(d, B))
    return Verdict.worst(
        {
            "closed forms": identical(pairs),
            "no logit gets closer to 1": Verdict.at_least(min(random), 1.0 - 1e-12),
            "smallest logit over lambda/(|Y| d)": Verdict.at_least(min(ratios), 1.0),
        }
    )


# --- the start --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Start(Config):
    """W ~ N(0, sigma_0^2), b = sigma_0 log d."""

    action: str = option("C3", f"the action: {groups.NAMES}")
    tokens: int = option(256, "vocabulary size d", low=8, high=1_000_000)
    neurons: int = option(8, "neurons m of a class", low=1, high=256)
    sigma0: float = option(0.0625, "standard deviation of W (the paper: d^-1/2)", above=0.0, high=10.0)
    rho: float = option(0.8, "knot rho of the smoothed ReLU", above=0.0, high=10.0)
    draws: int = option(400, "initialisations", low=20, high=20_000)

    def check(self) -> None:
        action = action_of(self.action)
        entries = self.draws * self.neurons * action.values * (action.actions + action.values)
        require(entries <= 20_000_000, f"draws={self.draws}: {entries} features must be at most 20000000")
        least = 2 + action.actions + action.values
        require(self.tokens >= least, f"tokens={self.tokens} must be at least {least}: blank, variable, {self.action}")

    @property
    def bias(self) -> float:
        """mu = sigma_0 log d."""
        return self.sigma0 * math.log(self.tokens)


def small_bias(config: Start) -> tuple[str, ...]:
    """The regime sigma_0 log d << rho, in which sReLU is its power branch at the start."""
    return () if config.bias < config.rho else (f"sigma0*log(tokens)={config.bias:.3g} must be below rho={config.rho}",)


def features(config: Start, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """V_{j,r}(g) (draws, j, r, g) and V_{j,r}(y) (draws, j, r, y)."""
    action, rng = action_of(config.action), np.random.default_rng([seed, config.neurons])
    shape = (config.draws, action.values, config.neurons)
    return tuple(config.sigma0 * rng.standard_normal((*shape, size)) for size in (action.actions, action.values))  # type: ignore[return-value]


def correct_features(config: Start, seed: int, fibers: bool) -> tuple[np.ndarray, float]:
    """V_psi of all correct psi, one row a draw, and the smallest deviation of a difference of two.

    psi is a pair (g, y) with g(y) = j at a neuron of class j, or (`fibers`) the mean over the fiber.
    """
    action = action_of(config.action)
    of_action, of_value = features(config, seed)
    rows = []
    for j in range(action.values):
        for y in range(action.values):
            if not action.fibers[j, y].any():  # no action takes y to j: an action that is not transitive
                continue
            fiber = of_action[:, j][:, :, action.fibers[j, y]]
            chosen = fiber.mean(axis=2, keepdims=True) if fibers else fiber
            rows.append(((chosen + of_value[:, j, :, y : y + 1]) / 2).reshape(config.draws, -1))
    size = action.fiber_sizes.max()
    smallest = math.sqrt(2) * config.sigma0 / 2 * (math.sqrt(1 / size + 1) if fibers else 1.0)
    return np.concatenate(rows, axis=1), smallest


def separated(config: Start, seed: int, fibers: bool) -> Verdict:
    """How often two initial features are closer than sigma_0/(|Y|^4 m^2 log d), against the union bound."""
    action = action_of(config.action)
    found, deviation = correct_features(config, seed, fibers)
    if found.shape[1] < 2:
        return Verdict("vacuous", note="a single feature has no gap to another")
    gap = start.separation(action.values, config.neurons, config.tokens, config.sigma0)
    failures = float((start.smallest_gaps(found) < gap).mean())
    bound = start.separation_failure(found.shape[1], gap, deviation)
    allowed = bound + 4 * math.sqrt(max(bound * (1 - min(bound, 1)), 1 / config.draws) / config.draws)
    note = f"{found.shape[1]} features, gap {gap:.3g}, union bound {bound:.3g} and four standard errors"
    return empty_if(bound >= 1, Verdict.at_most(failures, allowed, note=note), "the union bound exceeds 1")


def bounded(config: Start, seed: int) -> Verdict:
    """max |W| over sigma_0 sqrt(2 log N) of each draw: near 1, and never above 1 + 3/sqrt(2 log N) or so."""
    both = np.concatenate([part.reshape(config.draws, -1) for part in features(config, seed)], axis=1)
    count = both.shape[1]
    scale = config.sigma0 * math.sqrt(2 * math.log(2 * count * config.draws * 1e4))
    return Verdict.at_most(np.abs(both).max() / scale, 1.0, note="a union bound that fails once in 10^4 runs")


@LEDGER.theory(
    "factB3",
    kind="bound",
    says="start: |W| <= O(sigma_0 sqrt(log d)), features sigma_0/(|Y|^4 m^2 log d) apart but for O(1/log d)",
    cases=(Start(), Start("C5", neurons=6)),
)
def the_start_is_spread_out(config: Start, seed: int) -> Verdict:
    verdict = Verdict.worst({"size": bounded(config, seed), "gaps": separated(config, seed, fibers=False)})
    return under(simply_transitive(action_of(config.action)), verdict)


def first_activations(config: Start, seed: int) -> tuple[Verdict, np.ndarray]:
    """Lambda^(0) = b + five weights/2: mean b and deviation sigma_0 sqrt(5)/2."""
    rng = np.random.default_rng([seed, 4])
    lam = config.bias + config.sigma0 * rng.standard_normal((config.draws * 250, 5)).sum(axis=1) / 2
    count, sd = len(lam), config.sigma0 * math.sqrt(5) / 2
    mean = abs(lam.mean() - config.bias) / (sd / math.sqrt(count))
    spread = abs(lam.std() / sd - 1) * math.sqrt(2 * count)
    verdicts = {"mean, standard errors": mean, "deviation, standard errors": spread}
    return Verdict.worst({name: Verdict.at_most(value, 4.0) for name, value in verdicts.items()}), lam


@LEDGER.theory(
    "factB4",
    kind="bound",
    says="Lambda^(0) has mean b and deviation sigma_0 sqrt(5)/2 = O(b/log d): (1 + O(1/sqrt(log d))) b, below rho",
    cases=Start(),
)
def first_activations_concentrate(config: Start, seed: int) -> Verdict:
    verdict, lam = first_activations(config, seed)
    typical = float(np.abs(lam / config.bias - 1).max()) * math.sqrt(math.log(config.tokens))
    row = {"largest |Lambda/b - 1| sqrt(log d)": typical, "share below rho": float((lam < config.rho).mean())}
    return under(small_bias(config), Verdict.worst({"law": verdict, "sizes": Verdict("holds", details=(row,))}))


@LEDGER.theory(
    "lemC1",
    kind="bound",
    says="the same for fiber means: sizes, gaps, and Lambda^(0) = Omega(b) for all but few neurons",
    cases=(Start("S3"), Start("S4", neurons=4, draws=200)),
)
def the_start_of_fiber_features(config: Start, seed: int) -> Verdict:
    law, lam = first_activations(config, seed)
    half = math.erfc(math.log(config.tokens) / math.sqrt(10)) / 2  # P(Lambda < b/2), exactly
    below = float((lam < config.bias / 2).mean())
    spread = math.sqrt(half / len(lam)) + 1 / len(lam)
    verdict = Verdict.worst(
        {
            "size": bounded(config, seed),
            "gaps": separated(config, seed, fibers=True),
            "law of Lambda": law,
            "share below b/2": Verdict.at_most(below, half + 4 * spread),
        }
    )
    return under(transitive_not_free(action_of(config.action)), verdict)


# --- the end of the FFN's training ------------------------------------------------------------------------------------


def converged(config: Ideal, seed: int) -> Verdict:
    """On T^1 with the ideal FFN every pair (g, y) sits on the floor of Fact B.2."""
    case = ideal(config, seed, (1,))
    network = literal.network_of(case.model)
    network, d = network._replace(scores=np.zeros_like(network.scores)), case.task.vocabulary
    right, wrong = [], []
    for row in chains.sentences(case.task, chains.every_word(case.task).examples):
        step = literal.step_of(network, row[[0, case.task.length]], 1, row[case.task.length + 1, 4:])
        powers = np.exp(step.F[0] - step.F[0, step.target[0]])
        others = np.delete(powers, step.target[0])
        right.append(others.sum() / (1 + others.sum()))
        wrong.append(others.max() / (1 + others.sum()))
    floor = start.logit_floor(d, float(case.model.clip))
    pairs = {"1 - logit of the true value": (np.array(right), np.full(len(right), floor))}
    pairs["largest wrong logit"] = (np.array(wrong), np.full(len(wrong), floor / (d - 1)))
    return identical(pairs, tolerance=1e-6, note=f"lambda = {floor:.6g}, d = {d}")


@LEDGER.theory(
    "lemB9",
    kind="bound",
    says="with all features learned 1 - logit_true = lambda = (d-1)/(d-1+e^B) and wrong logits are lambda/(d-1)",
    cases=Ideal(Task("C5", 3, 1)),
)
def logits_at_convergence(config: Ideal, seed: int) -> Verdict:
    return under(simply_transitive(config.task.group), converged(config, seed))


@LEDGER.theory(
    "lemC9",
    kind="bound",
    says="the same under an action that is transitive and not free",
    cases=Ideal(Task("S4", 3, 1)),
)
def logits_at_convergence_with_fibers(config: Ideal, seed: int) -> Verdict:
    return under(transitive_not_free(config.task.group), converged(config, seed))


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


def tails(config: Tails, bound, otherwise: str) -> Verdict:
    """The largest ratio of the exact tail to the bound."""
    rows = []
    for t in config.t:
        exact, allowed = start.sign_products_tail(config.n, config.order, t), bound(config.n, config.order, 1.0, t)
        rows.append({"t": t, "P(|U| > t)": exact, "bound": allowed, "ratio": exact / allowed})
    divisible = config.n % config.order == 0
    wrong = () if divisible else (f"n={config.n} must be a multiple of order={config.order}",)
    worst = max(rows, key=lambda row: row["ratio"])
    note = f"t = {worst['t']}: {worst['P(|U| > t)']:.4g} against {worst['bound']:.4g}"
    return under(wrong, Verdict.at_most(worst["ratio"], 1.0, otherwise=otherwise, details=tuple(rows), note=note))


@LEDGER.theory(
    "lemB11",
    kind="bound",
    says="corrected: P(|U - EU| > t) <= 2 exp(-n t^2/(2 m M^2)), against the exact law of products of m signs",
    cases=(Tails(), Tails(24, 1), Tails(30, 3)),
)
def pseudo_u_statistics_concentrate(config: Tails, seed: int) -> Verdict:
    return tails(config, start.pseudo_u_tail, "fails")


@LEDGER.theory(
    "lemB11-printed",
    kind="bound",
    says="as printed: P(|U - EU| > t) <= exp(-n t^2/(m M^2)), without Hoeffding's factors of 2",
    cases=Tails(24, 1),
)
def the_printed_tail_is_too_thin(config: Tails, seed: int) -> Verdict:
    return tails(config, start.pseudo_u_tail_printed, "refuted")
