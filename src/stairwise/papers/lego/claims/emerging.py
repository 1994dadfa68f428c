"""The induction hypotheses of Appendices B and C along a descent of the features: until when each part is true."""

from functools import lru_cache

import numpy as np

from stairwise.lab.contract.checks import at_least, at_most, equal, measured, row, true
from stairwise.papers.lego import model as models
from stairwise.papers.lego.claims.ledger import LEDGER
from stairwise.papers.lego.claims.phases import EXPONENT, FREELY, ON_FIBERS, emerged, half
from stairwise.papers.lego.claims.training import Resolved, carried, probabilities, seen
from stairwise.papers.lego.theory import emerging


@lru_cache(maxsize=24)
def winners(config: Resolved, seed: int) -> emerging.Winners:
    """The winners' features and logits at every kept moment."""
    one, group = seen(config, seed), config.group
    classes = np.arange(len(one.winner))[:, None]
    action = np.asarray(one.history.features.action)[:, classes, one.winner]
    value = np.asarray(one.history.features.value)[:, classes, one.winner]
    return emerging.winners(
        action, value, probabilities(one), group.fibers, models.feature_ratio(group.actions, group.values)
    )


def by_loops(config: Resolved, seed: int, place: int) -> dict[str, np.ndarray]:
    """The parts of `Winners` at one moment, pair by pair."""
    one, group = seen(config, seed), config.group
    of_action, of_value = one.won(place)
    logit = np.asarray(one.token.probabilities(one.moment(place)))
    ratio = models.feature_ratio(group.actions, group.values)
    found = {name: np.zeros(one.winner.shape) for name in emerging.Winners._fields}
    for j, y in np.ndindex(*one.winner.shape):
        fiber = [g for g in range(group.actions) if group.table[g, y] == j]
        G, Y = of_action[j, y], of_value[j, y]
        others = [G[g] for g in range(group.actions) if g not in fiber] + [Y[z] for z in range(group.values) if z != y]
        one_sided = [(g, z) for g, z in np.ndindex(*group.table.shape) if (g in fiber) != (z == y)]
        found["psi"][j, y] = one.V[place][j, one.winner[j, y], y]
        found["highest"][j, y], found["lowest"][j, y] = max(others), min(others)
        found["residual"][j, y] = max(abs(G[g] + Y[z]) / 2 for g, z in one_sided)
        found["imbalance"][j, y] = max(abs(G[g] - ratio * Y[y]) for g in fiber)
        found["logit"][j, y] = max(logit[j, g, y] for g in fiber)
    return found


def judged(config: Resolved, parts: dict[str, tuple[np.ndarray, np.ndarray]]):
    """Each part over its phase, and the moment until which all features keep it."""
    for name, (fact, phase) in parts.items():
        yield at_least(f"{name}: features that have this phase", phase.any(axis=0).mean(), 1.0)
        share = emerging.share_until(fact, phase)
        yield at_least(f"{name}: share of its phase until it fails", share, 1.0)
        yield row({"part": name, "true until": share, "kept moments": int(phase.sum(axis=0).max())})


def all_phases(config: Resolved, seed: int):
    """Part (b) needs d^{c_1 (q-2)} above the spread of the arrival times, which is no size that runs."""
    one, now = seen(config, seed), winners(config, seed)
    yield carried(one)
    always = np.ones(now.psi.shape, dtype=bool)
    yield from judged(config, {"(a) V_psi + b >= mu/2": (emerging.never_shrinks(now.psi, config.bias), always)})
    yield true("(a) is false of a feature that falls", ~emerging.never_shrinks(-now.psi, config.bias)[-1])
    edge = config.bias * np.array([-0.49, -0.51])[:, None, None]
    yield equal("(a) just above and just below -mu/2", emerging.never_shrinks(edge, config.bias).ravel(), [1.0, 0.0])
    middle = len(now.psi) // 2
    for name, found in by_loops(config, seed, middle).items():
        yield equal(f"{name}, against loops, halfway", getattr(now, name)[middle], found)
    begin, end = (emerging.passed(now.psi, level).argmax(axis=0) for level in (emerged(config), half(config)))
    yield measured("(b) share of the pairs of features whose [T1, T2] overlap", emerging.intervals_overlap(begin, end))


def first_phase(config: Resolved, seed: int):
    one, now = seen(config, seed), winners(config, seed)
    yield carried(one)
    before = ~emerging.passed(now.psi, emerged(config))
    yield from judged(
        config,
        {
            "(a) V(g'), V(y') <= mu sqrt(log d) before T1": (
                emerging.others_are_small(now.highest, config.bias, config.vocabulary),
                before,
            )
        },
    )
    yield at_least("largest V(g'), V(y') before T1 / mu", now.highest[before].max() / config.bias, 0.1)


def second_phase(config: Resolved, seed: int):
    one, now = seen(config, seed), winners(config, seed)
    yield carried(one)
    begun, ended = (emerging.passed(now.psi, level) for level in (emerged(config), half(config)))
    ratio = models.feature_ratio(config.group.actions, config.group.values)
    parts = {
        "(c) V(g'), V(y') <= mu sqrt(log d) from T1": (
            emerging.others_are_small(now.highest, config.bias, config.vocabulary),
            begun,
        ),
        "(c) V(g'), V(y') >= -B - 2 from T1": (emerging.others_are_bounded(now.lowest, config.clip, ratio), begun),
    }
    if config.group.free:
        parts["(a) logit <= 1/sqrt(d) while V < (log d)/2"] = (
            now.logit <= emerging.unlearned_logit(config.vocabulary),
            begun & ~ended,
        )
    yield from judged(config, parts)
    if config.group.free:  # attained: the logit is near that level when the phase ends
        last = np.take_along_axis(now.logit, ended.argmax(axis=0)[None], axis=0)
        level = emerging.unlearned_logit(config.vocabulary)
        yield at_least("logit over its bound at the end of the phase", last.min() / level, 0.1)
    yield at_least("-V(g'), -V(y') at the end / B", -now.lowest[-1].max() / config.clip, 0.9)


def last_phase(config: Resolved, seed: int):
    one, now = seen(config, seed), winners(config, seed)
    yield carried(one)
    error = config.vocabulary**EXPONENT * config.bias + 3 * config.learning_rate  # a step moves a feature by the rate
    shaped = emerging.shaped(now, config.height, error)
    yield from judged(
        config, {"shape within d^c1 mu and three steps, once reached": (shaped, emerging.reached(shaped))}
    )
    yield at_most("share of the moments at which the first feature has its shape", shaped.any(axis=(1, 2)).mean(), 0.9)


SAYS_ALL = (
    r"(a) $V_\psi + b \ge \Omega(\mu)$ throughout (we ask for $\mu/2$); how far (b), intervals one after another, is"
)
LEDGER.family(
    all_phases,
    {
        "indB1": {"statement": "Induction B.1", "says": rf"tracked along the run: {SAYS_ALL} from true", **FREELY},
        "indC1": {"statement": "Induction C.1", "says": rf"the same with fibers: {SAYS_ALL} from true", **ON_FIBERS},
    },
    form="bound",
    of=(emerging.never_shrinks, emerging.winners, emerging.share_until),
    seeds=3,
)
LEDGER.family(
    first_phase,
    {
        "indB2": {
            "statement": "Induction B.2",
            "says": r"tracked along the run: (a) $V(g'), V(y') \le O(\mu)$ until $\psi$ emerges (we ask for"
            r" $\mu\sqrt{\log d}$); the level of (b) is illegible, (c) is Induction B.4",
            **FREELY,
        }
    },
    form="bound",
    of=(emerging.others_are_small, emerging.passed),
    seeds=3,
)
SAYS_TWO = r"from $T^1$ on $V(g'), V(y')$ lie in $(-2BC/(1+C) - O(1), O(\mu))$, tracked along the run"
LEDGER.family(
    second_phase,
    {
        "indB3": {
            "statement": "Induction B.3",
            "says": rf"{SAYS_TWO} ($C = 1$), and the logit is at most $d^{{-1/2}}$ while $V_\psi < \frac12\log d$",
            **FREELY,
        },
        "indC3": {"statement": "Induction C.3", "says": SAYS_TWO, **ON_FIBERS},
    },
    form="bound",
    of=(emerging.unlearned_logit, emerging.others_are_small, emerging.others_are_bounded),
    seeds=3,
)
SAYS_LAST = (
    r"once a feature has its shape within $d^{c_1}\mu$ and three steps, it keeps it to the end, tracked along the run"
)
LEDGER.family(
    last_phase,
    {
        "indB4": {"statement": "Induction B.4", "says": SAYS_LAST, **FREELY},
        "indC4": {"statement": "Induction C.4", "says": f"the same with fibers: {SAYS_LAST}", **ON_FIBERS},
    },
    form="bound",
    of=(emerging.shaped,),
    seeds=3,
)
