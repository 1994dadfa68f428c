"""How the features get there (Appendices B and C): emergence, competition, growth, cancellation, convergence.

Each lemma is stated for simply transitive actions in Appendix B and for transitive ones that are not free in Appendix
C; one function measures both. They look at the same descents, in the theorems' own regime.
"""

import dataclasses
from functools import lru_cache

import jax
import numpy as np

from stairwise.lab.contract.checks import at_least, at_most, note, row, true
from stairwise.papers.lego import ffn
from stairwise.papers.lego.claims.ledger import LEDGER
from stairwise.papers.lego.claims.sizes import assumption_4_1, assumption_c1, both
from stairwise.papers.lego.claims.training import (
    FIBERS,
    FREE,
    Resolved,
    Seen,
    Trained,
    begun,
    carried,
    emergences,
    gammas,
    gradients,
    logits,
    pushes_are_the_gradient,
    regime,
    resolved,
    seen,
)
from stairwise.papers.lego.theory import phases, start

EXPONENT = 0.05  # c_1: a feature has emerged at V = d^{c_1} mu
# with sigma_0 = d^-1/2 no other d is met by chance
NEARBY = {
    "neurons": (3, 12, "linear"),
    "network.clip_factor": (2.5, 3.5, "linear"),
    "network.rho": (0.55, 1.0, "linear"),
}
FREELY = {"hypotheses": both(assumption_4_1, regime, resolved), "cases": FREE, "search": NEARBY}
ON_FIBERS = {"hypotheses": both(assumption_c1, regime, resolved), "cases": FIBERS, "search": NEARBY}


def emerged(config: Trained) -> float:
    return config.vocabulary**EXPONENT * config.bias


def half(config: Trained) -> float:
    """The level (log d)/2 that ends phase II.1."""
    return float(np.log(config.vocabulary)) / 2


def pairs_of(config: Trained) -> float:
    """Pr(H_psi): the chance of the pairs of one psi."""
    return config.fiber / (config.group.actions * config.group.values)


def up_to(one: Seen, first: np.ndarray) -> np.ndarray:
    """(points, classes, values): moments not after `first`."""
    return (np.arange(len(one.V))[:, None, None] <= first) & (first >= 0)


def growth_of(config: Trained, V: np.ndarray) -> np.ndarray:
    group, constants = config.group, config.network
    return phases.growth(V, config.bias, constants.rho, constants.power, group.actions, group.values)


# --- phase I ----------------------------------------------------------------------------------------------------------


@LEDGER.bound(
    "eq16",
    statement="Eq. (16)",
    says=r"an emerging winner's $V_\psi$ grows by $\frac{1+F}{4}\Pr(\phi)((b+V)/\rho)^{q-1}$, $F = n_G/n_Y$, to within"
    r" 2 % between $2\mu$ and $\rho/2$; at least by that where the $V(g)$ of a fiber differ",
    of=(phases.growth,),
    hypotheses=regime,
    cases=(FREE, FIBERS),
    seeds=3,
)
def growth_is_a_power(config: Resolved, seed: int):
    one = seen(config, seed)
    yield carried(one)
    rate = -one.of_winners(emergences(one.token, gradients(one)))
    V = one.of_winners(one.V)
    low, high = 2 * config.bias, config.network.rho / 2
    inside = up_to(one, one.first(high)) & (low < V) & (high > V)
    ratio = (rate / growth_of(config, V))[inside]
    yield at_least("moments seen", inside.sum(), 20)
    yield at_least("growth over the law", ratio, 0.98)
    if config.group.free:  # a mean over a fiber of unequal V(g) grows faster than at their mean
        yield at_most("growth over the law", ratio, 1.02)


def proxy_distance(config: Resolved, seed: int):
    """max |V_psi - proxy| up to its emergence, in units of mu d^{3 c_1 - 1/2}."""
    one = seen(config, seed)
    yield carried(one)
    proxy = emergences(one.token, one.history.proxy)
    distance = np.abs(one.of_winners(one.V) - one.of_winners(proxy))
    worst = float(distance[up_to(one, one.first(emerged(config)))].max())
    yield at_most("distance from the proxy", worst, config.bias * config.vocabulary ** (3 * EXPONENT - 0.5))
    proxies = one.of_winners(proxy)[up_to(one, one.first(emerged(config)))]
    yield at_least("rise of the proxy until then / mu", (proxies.max() - proxies.min()) / config.bias, 1.0)
    yield note(f"c_1 = {EXPONENT}; that is {worst / config.bias:.3g} mu")


def room_for_one(config: Trained) -> dict[str, bool]:
    """The lemma's O(.) hides a constant, which grows as mu/rho does: 2.4 at rho = 0.55 with few neurons."""
    return {"rho >= 0.8 (our constant is 1)": config.network.rho >= 0.8}


SAYS_PROXY = r"until it emerges, $V_\psi$ stays within $\mu d^{3c_1-1/2}$ of the proxy that is only pushed"
LEDGER.family(
    proxy_distance,
    {
        "lemB2": {"statement": "Lemma B.2", "says": f"simply transitive: {SAYS_PROXY}", **FREELY},
        "lemC2": {
            "statement": "Lemma C.2",
            "says": f"not free: {SAYS_PROXY}",
            **ON_FIBERS,
            "hypotheses": both(assumption_c1, regime, resolved, room_for_one),
        },
    },
    form="bound",
    of=(phases.potential,),
    seeds=3,
)


def competitors(config: Resolved, seed: int):
    """When a winner emerges, the largest V_psi of a neuron that will win nothing, over mu."""
    one = seen(config, seed)
    yield carried(one)
    first = one.first(emerged(config))
    idle = np.ones(one.V.shape[1:3], dtype=bool)
    idle[np.arange(len(one.winner))[:, None], one.winner] = False
    worst = max(float(one.V[moment][idle].max()) for moment in np.unique(first[first >= 0]))
    yield at_most(
        "largest V_psi of a neuron that wins nothing",
        worst,
        phases.competitor_bound(config.bias, config.vocabulary),
    )
    yield row({"in units of mu": worst / config.bias, "emergence": config.vocabulary**EXPONENT})


SAYS_RACE = r"when a winner emerges, neurons that win nothing are below $\mu\sqrt{\log d}$ (the lemma: $\tilde O(\mu)$)"
LEDGER.family(
    competitors,
    {
        "lemB3": {"statement": "Lemma B.3", "says": f"simply transitive: {SAYS_RACE}", **FREELY},
        "lemC3": {"statement": "Lemma C.3", "says": f"not free: {SAYS_RACE}", **ON_FIBERS},
    },
    form="bound",
    of=(phases.competitor_bound,),
    seeds=3,
)


@LEDGER.bound(
    "lemB1",
    statement="Lemma B.1",
    says=r"phase I: other $|V(v)|$ of a winner are small (the lemma: $O(\mu/\sqrt{\log d})$; we ask for $2\mu$),"
    r" it is active on its pairs, and wrong logits are $1/d$ to within 1 % until the first winner emerges",
    of=(ffn.ValueToken.probabilities, ffn.ValueToken.preactivations),
    seeds=3,
    **FREELY,
)
def phase_one(config: Resolved, seed: int):
    one = seen(config, seed)
    yield carried(one)
    first = one.first(emerged(config))
    own = one.of_winners(one.V)[up_to(one, first)] + config.bias
    yield at_least("Lambda of winners on their own pairs", own, 0.0)
    begin = range(int(first[first >= 0].min()) + 1)
    wrong = [np.asarray(one.token.probabilities(one.moment(k)))[~np.asarray(one.token.fibers)] for k in begin]
    yield at_most("wrong logits times d", np.max(wrong) * config.vocabulary, 1.01)
    yield at_least("wrong logits times d", np.min(wrong) * config.vocabulary, 0.99)
    of_action, of_value = one.won(int(first[first >= 0].min()))
    own_value = np.broadcast_to(np.eye(config.group.values, dtype=bool), of_value.shape)
    others = max(np.abs(of_action[~config.group.fibers]).max(), np.abs(of_value[~own_value]).max())
    yield at_most("other |V(v)| of winners", others, 2 * config.bias)


@LEDGER.bound(
    "corC1",
    statement="Corollary C.1",
    says=r"at the start the mean of $\mathrm{sReLU}'$ over a fiber is its mean over all actions up to"
    r" $1 \pm 1/\sqrt{n_G/n_Y}$ (slots 1, 3, 4 left out)",
    of=(ffn.ValueToken.preactivations,),
    hypotheses=both(assumption_c1, regime),
    cases=tuple(dataclasses.replace(FIBERS, action=name, neurons=15) for name in ("S4", "S5")),
    seeds=3,
)
def fiber_means(config: Resolved, seed: int):
    token, begin = begun(config, seed)
    scaled = np.clip(np.asarray(token.preactivations(begin)) / config.network.rho, 0, 1)
    slope, fibers = scaled ** (config.network.power - 1), np.asarray(token.fibers)[:, None]
    mean = (slope * fibers).sum(axis=2) / fibers.sum(axis=2)
    yield at_most(
        "|mean over a fiber / mean over all - 1|", np.abs(mean / slope.mean(axis=2) - 1).max(), config.fiber**-0.5
    )


# --- phase II ---------------------------------------------------------------------------------------------------------


def gradient_in_the_middle(config: Resolved, seed: int):
    """Gamma+ over Pr(H_psi) for winners with V between log d/3 and 2 log d/3, where the activation is linear."""
    one, size = seen(config, seed), float(np.log(config.vocabulary))
    yield carried(one)
    yield from pushes_are_the_gradient(one)
    push = one.of_winners(np.asarray(gammas(one).push)) / pairs_of(config)
    V = one.of_winners(one.V)
    inside = (size / 3 < V) & (2 * size / 3 > V)
    yield at_least("moments seen", inside.sum(), 5)
    yield at_least("push over Pr(H)", push[inside], 1 - config.vocabulary ** (-1 / 3))
    yield at_most("push over Pr(H)", push[inside], 1.0, rounding=1e-9)


SAYS_MIDDLE = (
    r"for $V_\psi$ between $\frac13\log d$ and $\frac23\log d$ a winner's push is $(1 - d^{-1/3})\Pr(H)$ or more"
)
LEDGER.family(
    gradient_in_the_middle,
    {
        "lemB4": {"statement": "Lemma B.4", "says": f"simply transitive: {SAYS_MIDDLE}", **FREELY},
        "lemC4": {"statement": "Lemma C.4", "says": f"not free: {SAYS_MIDDLE}", **ON_FIBERS},
    },
    form="bound",
    of=(phases.gamma,),
    seeds=3,
)


def magnitude(config: Resolved, seed: int):
    """(a) at V = (log d)/2, V(g) over V(y); (b) V_psi when the push has vanished."""
    one = seen(config, seed)
    yield carried(one)
    yield from pushes_are_the_gradient(one)
    first = one.first(half(config))
    yield true("every winner passes (log d)/2", first >= 0)
    parts = [one.won(int(moment)) for moment in np.unique(first)]
    errors = []
    for moment, (of_action, of_value) in zip(np.unique(first), parts, strict=True):
        now = first == moment
        on = (of_action * config.group.fibers).sum(axis=2) / config.group.fibers.sum(axis=2)
        own = np.einsum("jyy->jy", of_value)
        # pushes alone give V(y) a fiber's worth of what each V(g) gets
        errors.append((np.abs(own - config.fiber * on) / (own + on))[now].max())
    yield at_most("|V(y) - F V(g)| / (V(y) + V(g)) at V = (log d)/2", max(errors), 0.1)
    push = one.of_winners(np.asarray(gammas(one).push)) / pairs_of(config)
    gone = push < start.logit_floor(config.vocabulary, config.clip) / config.vocabulary
    V = one.of_winners(one.V)
    yield at_least(
        "V_psi where the push has vanished", V[gone & (half(config) < V)], config.height - config.learning_rate
    )
    yield at_least("V_psi at the end over B", V[-1] / config.clip, 1.0)


SAYS_SIZE = (
    r"at $V_\psi = \frac12\log d$ pushes have made $V(y) = F\,V(g)$ up to a tenth; when its push has vanished,"
    r" $V_\psi \ge B$"
)
LEDGER.family(
    magnitude,
    {
        "lemB5": {"statement": "Lemma B.5", "says": f"simply transitive ($F = 1$): {SAYS_SIZE}", **FREELY},
        "lemC5": {"statement": "Lemma C.5", "says": f"not free: {SAYS_SIZE}", **ON_FIBERS},
    },
    form="bound",
    of=(phases.gamma,),
    seeds=3,
)


@lru_cache(maxsize=1)
def _stationary():
    return jax.jit(jax.vmap(phases.stationary, in_axes=(0, None)))


def stationarity(config: Resolved, seed: int):
    """After V = (log d)/2: half the sum of eta Gamma+ against the rise of V(y) - sum of V(g) off the fiber."""
    one = seen(config, seed)
    yield carried(one)
    first = np.maximum(one.first(half(config)), 0)
    pushed = one.of_winners(np.asarray(one.history.pushed))
    raised = _stationary()(one.history.features, one.token.fibers)
    rise = one.of_winners(np.asarray(raised))
    gained, risen = (found[-1] - np.take_along_axis(found, first[None], axis=0)[0] for found in (pushed, rise))
    yield at_most("half of all pushes over the rise of Upsilon", gained / 2 / risen, 1.05)
    yield at_least("half of all pushes over the rise of Upsilon", gained / 2 / risen, 0.95)
    largest = config.clip * (1 + config.group.actions - config.fiber)
    yield at_most("rise of Upsilon over its largest, (1 + nG - F) 2 B", risen / largest, 2.0)
    yield note("so Gamma+ exceeds delta for a time of at most 2 (rise)/delta")


SAYS_STILL = (
    r"all pushes after $V_\psi = \frac12\log d$ together are at most twice the rise of"
    r" $V(y) - \sum_{g' \notin \mathrm{Fiber}} V(g')$, so $\Gamma^+ > \delta$ for a time $O(n_Y \log d/\delta)$ only"
)
LEDGER.family(
    stationarity,
    {
        "lemB6": {"statement": "Lemma B.6", "says": f"simply transitive: {SAYS_STILL}", **FREELY},
        "lemC6": {"statement": "Lemma C.6", "says": f"not free: {SAYS_STILL}", **ON_FIBERS},
    },
    form="bound",
    of=(phases.stationary, phases.gamma),
    seeds=3,
)


def _crossing(one: Seen, level: float) -> np.ndarray:
    """The flow time at which each winner's V_psi passes a level, between kept moments; NaN where it never does."""
    elapsed, height, first = np.asarray(one.history.elapsed), one.of_winners(one.V), one.first(level)
    times = np.full(first.shape, np.nan)
    for j, y in np.argwhere(first > 0):
        k = first[j, y]
        times[j, y] = np.interp(level, height[k - 1 : k + 1, j, y], elapsed[k - 1 : k + 1])
    return times


def arrival(config: Resolved, seed: int):
    """Flow time from d^c1 mu to (log d)/2 over that of the pushes alone; the paper's unit is (d^c1 sigma_0)^{2-q}."""
    levels = np.geomspace(emerged(config), half(config), 4001)
    alone = float(np.trapezoid(1 / growth_of(config, levels), levels))
    one = seen(config, seed)
    yield carried(one)
    taken = (_crossing(one, half(config)) - _crossing(one, emerged(config))) / alone
    yield true("every winner arrives", np.isfinite(taken))
    yield at_least("median time over that of the pushes alone", np.median(taken), 0.85)
    yield at_most("median time over that of the pushes alone", np.median(taken), 1.2)
    unit = (config.vocabulary**EXPONENT * config.sigma0) ** (2 - config.network.power)
    yield row(
        {"least": float(taken.min()), "most": float(taken.max()), "pushes alone, in the paper's unit": alone / unit}
    )


SAYS_TIME = r"the time from $d^{c_1}\mu$ to $\frac12\log d$ is that of the pushes alone to within 20 % in the median"
LEDGER.family(
    arrival,
    {
        "lemB8": {"statement": "Lemma B.8", "says": f"simply transitive: {SAYS_TIME}", **FREELY},
        "lemC8": {"statement": "Lemma C.8", "says": f"not free: {SAYS_TIME}", **ON_FIBERS},
    },
    form="bound",
    of=(phases.growth,),
    seeds=3,
)


# --- phase III --------------------------------------------------------------------------------------------------------


def convergence(config: Resolved, seed: int):
    """While a linear winner is below the clip its push is at least lambda Pr(H); at the end nothing is pushed."""
    one = seen(config, seed)
    yield carried(one)
    yield from pushes_are_the_gradient(one)
    floor = start.logit_floor(config.vocabulary, config.clip)
    unclipped = ((logits(one) < float(one.token.clip)) & np.asarray(one.token.fibers)).sum(axis=2)
    push = one.of_winners(np.asarray(gammas(one).push)) * config.group.actions * config.group.values
    V = one.of_winners(one.V)
    linear = (2 * config.network.rho < V) & (unclipped > 0)
    yield at_least("moments seen", linear.sum(), 20)
    each = (push / np.maximum(unclipped, 1))[linear]
    # lambda takes F >= 0 of the other classes; with the leak of Assumption B.2 it is at least -m w B
    below = config.neurons * config.leak * config.clip if config.activation == "leaky" else 0.0
    least = np.exp(-below)
    yield at_least("push / Pr(phi) of each pair below the clip, over lambda", each / floor, least, rounding=1e-9)
    yield at_most("push / Pr(phi) of each pair below the clip", each, 1.0)
    yield at_most("push at the end over lambda/d", push[-1] / floor * config.vocabulary, 1.0)


SAYS_END = (
    r"a winner's push is $\lambda\Pr(\phi)$ or more for each of its pairs below the clip; at the end nothing is pushed"
)
LEDGER.family(
    convergence,
    {
        "lemB10": {"statement": "Lemma B.10", "says": f"simply transitive: {SAYS_END}", **FREELY},
        "lemC10": {"statement": "Lemma C.10", "says": f"not free: {SAYS_END}", **ON_FIBERS},
    },
    form="bound",
    of=(phases.gamma, start.logit_floor),
    seeds=3,
)
