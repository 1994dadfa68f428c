"""How the features get there (Appendices B and C): emergence, competition, growth, cancellation, convergence.

Each lemma is stated for simply transitive actions in Appendix B and for transitive ones that are not free in Appendix
C; one function measures both. Most bounds are asymptotic: they are reported in the paper's own units.
"""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from stairwise.lab.checks import exactly, under
from stairwise.lab.contract import Verdict
from stairwise.papers.lego import ffn
from stairwise.papers.lego.claims.ledger import LEDGER
from stairwise.papers.lego.claims.sizes import simply_transitive, transitive_not_free
from stairwise.papers.lego.claims.training import (
    Resolved,
    Seen,
    at_rest,
    begun,
    enough_neurons,
    every_seed,
    gradient_left,
    least_miss,
)
from stairwise.papers.lego.theory import phases

FREE = Resolved(seeds=1)
FIBERS = Resolved(action="S3", steps=30_000, seeds=1)
EXPONENT = 0.05  # c_1: a feature has emerged at V = d^{c_1} mu


def hypotheses(config: Resolved, appendix: str) -> tuple[str, ...]:
    kind = simply_transitive if appendix == "B" else transitive_not_free
    return kind(config.group) + enough_neurons(config)


def in_both_appendices(number: int, kind: str, says: str, *, ended: bool = False):
    """Register a measurement as Lemma B.number for free actions and as Lemma C.number for those that are not.

    `ended`: the lemma speaks of the end of descent, or of sums up to it.
    """

    def register(measure: Callable[[Resolved, int], Verdict]):
        for appendix, sizes, word in (("B", FREE, "free"), ("C", FIBERS, "not free")):

            def check(config: Resolved, seed: int, appendix: str = appendix) -> Verdict:
                missing = hypotheses(config, appendix) + (at_rest(config, seed) if ended else ())
                return under(missing, measure(config, seed))

            check.__name__ = measure.__name__
            LEDGER.theory(f"lem{appendix}{number}", kind=kind, says=f"{word}: {says}", cases=sizes)(check)
        return measure

    return register


def mu(config: Resolved) -> float:
    """mu = b = sigma_0 log d."""
    return config.sigma0 * float(np.log(config.vocabulary))


def emerged(config: Resolved) -> float:
    return config.vocabulary**EXPONENT * mu(config)


def half(config: Resolved) -> float:
    """The level (log d)/2 that ends phase II.1."""
    return float(np.log(config.vocabulary)) / 2


def pair_weight(config: Resolved) -> float:
    """Pr(H_phi) of one pair."""
    return 1 / (config.group.actions * config.group.values)


def fiber(config: Resolved) -> float:
    return config.group.actions / config.group.values


def up_to(moments: np.ndarray, first: np.ndarray) -> np.ndarray:
    """(points, classes, values): moments not after `first`."""
    return (moments[:, None, None] <= first) & (first >= 0)


def moments_of(one: Seen) -> np.ndarray:
    return np.arange(len(one.V))


def gammas(one: Seen) -> Any:
    """Gamma+ and Gamma- at every kept moment."""
    return jax.jit(jax.vmap(phases.gamma, in_axes=(None, 0)))(one.token, one.history.features)


def growth_law(config: Resolved, V: np.ndarray) -> np.ndarray:
    """dV_psi/dt of the pushes alone, (1 + F)/4 Pr(H_phi) sReLU'(V + b): V(g) and V(y) each take half of their part."""
    slope = np.clip((V + mu(config)) / config.network.rho, 0, 1) ** (config.network.power - 1)
    return (1 + fiber(config)) / 4 * pair_weight(config) * slope


# --- phase I ----------------------------------------------------------------------------------------------------------


@LEDGER.theory(
    "eq16",
    kind="bound",
    says="an emerging winner's V_psi grows at no less than half of (1+F)/4 Pr(phi) ((b+V)/rho)^{q-1}, F = nG/nY",
    cases=(FREE, FIBERS),
)
def growth_is_a_power(config: Resolved, seed: int) -> Verdict:
    least, most = np.inf, 0.0
    for one in every_seed(config, seed):
        gradient = jax.jit(jax.vmap(jax.grad(one.token.loss)))(one.history.features)
        rate = -one.of_winners(np.asarray(jax.vmap(ffn.emergence, in_axes=(0, None))(gradient, one.token.fibers)))
        height = one.of_winners(one.V)
        inside = up_to(moments_of(one), one.first(config.network.rho / 2)) & (height < config.network.rho / 2)
        ratio = (rate / growth_law(config, height))[inside]
        least, most = min(least, float(ratio.min())), max(most, float(ratio.max()))
    note = f"largest ratio {most:.3f}"
    return under(enough_neurons(config), Verdict.at_least(least, 0.5, note=note))


@in_both_appendices(
    2, "asymptotic", "until it emerges, V_psi stays near the proxy that is only pushed (in units of mu d^{3c1-1/2})"
)
def proxy_distance(config: Resolved, seed: int) -> Verdict:
    """max |V_psi - proxy| up to its emergence, in units of mu d^{3 c_1 - 1/2}."""
    unit, worst = mu(config) * config.vocabulary ** (3 * EXPONENT - 0.5), 0.0
    for one in every_seed(config, seed):
        proxy = np.asarray(jax.vmap(ffn.emergence, in_axes=(0, None))(one.history.proxy, one.token.fibers))
        distance = np.abs(one.of_winners(one.V) - one.of_winners(proxy))
        worst = max(worst, float(distance[up_to(moments_of(one), one.first(emerged(config)))].max()))
    return Verdict.reported(worst / unit, note=f"c_1 = {EXPONENT}; that is {worst / mu(config):.3g} mu")


@in_both_appendices(3, "asymptotic", "when a winner emerges, every later feature is still small (in units of mu)")
def competitors(config: Resolved, seed: int) -> Verdict:
    """When the k-th winner emerges, the largest V_psi that has not emerged and will not be next, over mu."""
    rows, worst = [], 0.0
    for i, one in enumerate(every_seed(config, seed)):
        first = one.first(emerged(config))
        for moment in np.unique(first[first >= 0]):
            left = one.V[moment].copy()
            j, y = np.nonzero((first >= 0) & (first <= moment))
            left[j, one.winner[j, y], y] = -np.inf
            worst = max(worst, float(left.max()) / mu(config))
            rows.append({"seed": seed + i, "emerged": len(j), "largest other V / mu": float(left.max()) / mu(config)})
    note = "O(mu) up to logarithms at d -> infinity; emergence itself is at d^c1 mu"
    return Verdict.reported(worst, details=tuple(rows), note=note)


@LEDGER.theory(
    "lemB1",
    kind="bound",
    says="phase I: a winner's neuron is active on its pairs, and until the first emerges no wrong logit exceeds 2/d",
    cases=FREE,
)
def phase_one(config: Resolved, seed: int) -> Verdict:
    facts, rows = {}, []
    for i, one in enumerate(every_seed(config, seed)):
        first = one.first(emerged(config))
        own = one.of_winners(one.V)[up_to(moments_of(one), first)] + mu(config)
        begin = range(int(first[first >= 0].min()) + 1)
        wrong = max(float(_wrong_logits(one, moment).max()) for moment in begin)
        others = max(float(np.abs(np.asarray(leaf[0])).max()) for leaf in one.history.features) / config.sigma0
        facts[f"seed {seed + i}: Lambda > 0 on its own pairs"] = bool((own > 0).all())
        facts[f"seed {seed + i}: wrong logits at most 2/d"] = wrong <= 2 / config.vocabulary
        rows.append({"seed": seed + i, "largest wrong logit times d": wrong * config.vocabulary,
                     "largest |V| / sigma0 at the start": others})  # fmt: skip
    return under(hypotheses(config, "B"), exactly(facts, details=tuple(rows)))


def _wrong_logits(one: Seen, moment: int) -> np.ndarray:
    found = one.token.probabilities(one.moment(moment))
    return np.where(np.asarray(one.token.fibers), 0, np.asarray(found))


@LEDGER.theory(
    "corC1",
    kind="bound",
    says="at the start the mean of sReLU' over a fiber is its mean over all actions up to 1 +- 1/sqrt(nG/nY)",
    cases=(Resolved(action="S4", neurons=12), Resolved(action="S5", neurons=15)),
)
def fiber_means(config: Resolved, seed: int) -> Verdict:
    """The mean over all actions stands for the expectation; slots 1, 3, 4 are left out."""
    worst = 0.0
    for i in range(config.seeds):
        token, start = begun(config, seed + i)
        scaled = np.clip(np.asarray(token.preactivations(start)) / config.network.rho, 0, 1)
        slope, fibers = scaled ** (config.network.power - 1), np.asarray(token.fibers)[:, None]
        mean = (slope * fibers).sum(axis=2) / fibers.sum(axis=2)
        worst = max(worst, float(np.abs(mean / slope.mean(axis=2) - 1).max()))
    return under(hypotheses(config, "C"), Verdict.at_most(worst, fiber(config) ** -0.5))


# --- phase II ---------------------------------------------------------------------------------------------------------


@in_both_appendices(4, "bound", "between (log d)/3 and 2(log d)/3 a winner's push is at least half of Pr(H)")
def gradient_in_the_middle(config: Resolved, seed: int) -> Verdict:
    """Gamma+ over Pr(H_psi) for winners with V between log d/3 and 2 log d/3, where the activation is linear."""
    size, least = float(np.log(config.vocabulary)), np.inf
    for one in every_seed(config, seed):
        push = one.of_winners(np.asarray(gammas(one).push)) / (fiber(config) * pair_weight(config))
        height = one.of_winners(one.V)
        inside = (height > size / 3) & (height < 2 * size / 3)
        least = min(least, float(push[inside].min(initial=np.inf)))
    return Verdict.at_least(least, 0.5)


@in_both_appendices(5, "bound", "when its push has vanished, a winner's V_psi is at least B", ended=True)
def magnitude(config: Resolved, seed: int) -> Verdict:
    """Once the push is gone, V_psi >= B; |V(g) - V(y)| at V = (log d)/2 is reported."""
    least, rows = np.inf, []
    for i, one in enumerate(every_seed(config, seed)):
        clip, first = float(one.token.clip), one.first(half(config))
        action = np.asarray(one.history.features.action)
        value = np.asarray(one.history.features.value)
        fibers = np.asarray(one.token.fibers)
        for j, y in np.argwhere(first >= 0):
            r, moment = one.winner[j, y], first[j, y]
            g = action[moment, j, r][fibers[j, :, y]].mean()
            rows.append(
                {"seed": seed + i, "j": int(j), "y": int(y), "V(g)": float(g), "V(y)": float(value[moment, j, r, y])}
            )
        least = min(least, float((one.of_winners(one.V)[-1] / clip).min()))
    return Verdict.at_least(least, 1.0, details=tuple(rows[:12]))


@in_both_appendices(
    6, "bound", "all pushes after V = (log d)/2 together are at most twice the rise of Upsilon", ended=True
)
def stationarity(config: Resolved, seed: int) -> Verdict:
    """After V = (log d)/2: (1/2) sum eta Gamma+ over the rise of Upsilon = V(y) - sum_{g off the fiber} V(g)."""
    worst, rows = 0.0, []
    for i, one in enumerate(every_seed(config, seed)):
        first = np.maximum(one.first(half(config)), 0)
        pushed = one.of_winners(np.asarray(one.history.pushed))
        rise = one.of_winners(
            np.asarray(jax.vmap(phases.stationary, in_axes=(0, None))(one.history.features, one.token.fibers))
        )
        gained, risen = (found[-1] - np.take_along_axis(found, first[None], axis=0)[0] for found in (pushed, rise))
        ratio = gained / 2 / risen
        worst = max(worst, float(ratio.max()))
        rows.append(
            {
                "seed": seed + i,
                "largest ratio": float(ratio.max()),
                "largest rise / B": float(risen.max() / one.token.clip),
            }
        )
    note = "so Gamma+ exceeds delta for at most 2 (rise)/(eta delta) steps"
    return Verdict.at_most(worst, 1.01, details=tuple(rows), note=note)


def _crossing(one: Seen, level: float) -> np.ndarray:
    """The flow time at which each winner's V_psi passes a level, between kept moments; NaN where it never does."""
    elapsed, height, first = np.asarray(one.history.elapsed), one.of_winners(one.V), one.first(level)
    times = np.full(first.shape, np.nan)
    for j, y in np.argwhere(first > 0):
        k = first[j, y]
        times[j, y] = np.interp(level, height[k - 1 : k + 1, j, y], elapsed[k - 1 : k + 1])
    return times


@in_both_appendices(8, "asymptotic", "the time from emergence to (log d)/2, over that of the pushes alone")
def arrival(config: Resolved, seed: int) -> Verdict:
    """Flow time from d^c1 mu to (log d)/2 over that of the pushes alone; the paper's unit is (d^c1 sigma_0)^{2-q}."""
    levels = np.geomspace(emerged(config), half(config), 4001)
    alone = float(np.trapezoid(1 / growth_law(config, levels), levels))
    rows = []
    for i, one in enumerate(every_seed(config, seed)):
        begin, end = (_crossing(one, level) for level in (emerged(config), half(config)))
        taken = (end - begin)[np.isfinite(end)]
        low, middle, high = np.quantile(taken / alone, [0, 0.5, 1])
        rows.append({"seed": seed + i, "least": float(low), "median": float(middle), "most": float(high)})
    unit = (config.vocabulary**EXPONENT * config.sigma0) ** (2 - config.network.power)
    note = f"the pushes alone take {alone / unit:.3g} of the paper's unit; ratios to it below"
    return Verdict.reported(
        float(np.median([found["median"] for found in rows])),
        details=tuple(rows),
        note=note,
    )


# --- phase III --------------------------------------------------------------------------------------------------------


@in_both_appendices(
    10, "bound", "below the clip a winner's push is at least lambda Pr(H); at the end nothing moves", ended=True
)
def convergence(config: Resolved, seed: int) -> Verdict:
    """While a linear winner is below the clip its push is at least lambda Pr(H); at the end nothing moves any more."""
    facts, rows = {}, []
    for i, one in enumerate(every_seed(config, seed)):
        parts, clip = gammas(one), float(one.token.clip)
        floor = least_miss(config)
        push = one.of_winners(np.asarray(parts.push)) / (fiber(config) * pair_weight(config))
        height = one.of_winners(one.V)
        linear = (height > 2 * config.network.rho) & (height < 0.9 * clip)
        least = float(push[linear].min(initial=np.inf))
        left = gradient_left(one)
        facts[f"seed {seed + i}: push at least lambda below the clip"] = least >= floor
        facts[f"seed {seed + i}: no gradient at the end"] = left <= floor / config.vocabulary
        rows.append({"seed": seed + i, "least push / lambda": least / floor, "gradient left / lambda": left / floor})
    return exactly(facts, details=tuple(rows))
