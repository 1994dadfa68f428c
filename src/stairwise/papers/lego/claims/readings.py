"""What neurons read in Appendices D, E and F, lemma by lemma: Lambda on each event along the stages of a descent."""

import dataclasses

import numpy as np

from stairwise.lab.contract.checks import at_least, at_most, equal, true
from stairwise.papers.lego.claims.descents import network_of
from stairwise.papers.lego.claims.dynamics import CYCLIC, CYCLIC_DESCENT, FINE, SYMMETRIC_DESCENT
from stairwise.papers.lego.claims.ledger import LEDGER
from stairwise.papers.lego.claims.seen import Moments, at_stage
from stairwise.papers.lego.config.dynamics import AttentionRun, Reduced
from stairwise.papers.lego.theory import readings

TIE = 1e-9  # of Lambda: at Q = 0 some neurons read exactly 0
Tables = dict[str, tuple[np.ndarray, readings.Lambdas]]


def height_of(config: Reduced) -> float:
    """B' = B + rho (1 - 1/q), which V(g) and V(y) of a simply transitive action are."""
    constants = config.network
    return constants.clip_factor * np.log(config.vocabulary) + constants.rho * (1 - 1 / constants.power)


def simply(seen: Moments, differ: bool) -> Tables:
    """Events of Appendix D at one step, with their Lambdas: where actions and values differ, or all the others."""
    facts, m, height = seen.seen, seen.shares, height_of(seen.config)
    if seen.step == 1:
        return {
            f"g1 {'=' if same else '!='} g2": (facts.same_action == same, formula(m, height))
            for same, formula in readings.FIRST.items()
            if same != differ
        }
    return {
        f"g1 {'=' if action else '!='} g2, y0 {'=' if value else '!='} y1": (
            (facts.same_action == action) & (facts.same_value == value),
            formula(m, height),
        )
        for (action, value), formula in readings.SECOND.items()
        if (action or value) != differ
    }


def symmetric(seen: Moments, event: str) -> Tables:
    """One event of Appendix E."""
    network = network_of(seen.config)
    table = readings.EVENTS[event](seen.shares, float(network.alpha), float(network.beta))
    return {event: (seen.seen.events()[event], table)}


def compared(seen: Moments, tables: Tables):
    """Lambda of every named neuron against its formula."""
    for event, (mask, table) in tables.items():
        for name, formula in table.items():
            found = seen.named(name, mask)
            if found.size:
                expected = np.broadcast_to(formula[:, 0, 0], found.shape)
                yield equal(f"Lambda of {name}, step {seen.step}, {event}", found, expected, scale=1.0)


def active_as_named(seen: Moments, tables: Tables):
    """Positive Lambdas are those of named neurons whose formula is positive."""
    for event, (mask, table) in tables.items():
        if not mask.any():
            continue
        expected = np.zeros(seen.lam.shape, dtype=bool)
        for name, formula in table.items():
            expected |= seen.seen.neurons(name) & (formula > TIE)
        yield true(f"who is active, step {seen.step}, {event}", (seen.lam[:, mask] > TIE) == expected[:, mask])


def unnamed(seen: Moments, tables: Tables) -> float:
    """The largest Lambda of a neuron that is in no table."""
    largest = -np.inf
    for mask, table in tables.values():
        rest = np.broadcast_to(mask[:, None, None], seen.lam.shape[1:]).copy()
        for name in table:
            rest &= ~seen.seen.neurons(name)
        largest = max(largest, float(np.max(seen.lam[:, rest], initial=-np.inf)))
    return largest


# --- Appendix D -------------------------------------------------------------------------------------------------------

DIFFER = (readings.first_differ, readings.second_differ)
AGREE = (
    readings.first_same,
    readings.second_same_action,
    readings.second_same_value,
    readings.second_same,
)


def who_is_active(config: AttentionRun, seed: int, *, stage: str):
    """On the main events; in stage 2.1 all other neurons are below -rho, later only below 0."""
    for step in (1, 2):
        seen = at_stage(config, step, stage)
        tables = simply(seen, differ=True)
        yield from compared(seen, tables)
        yield from active_as_named(seen, tables)
        rest, bar = unnamed(seen, tables), -config.network.rho if stage == "2.1" else 0.0
        yield at_most(f"largest Lambda of other neurons, step {step}", rest, bar)


SAYS_ACTIVE = r"$g_1 \ne g_2$ (and $y_0 \ne y_1$): only the neurons that fit two clauses can be active"
LEDGER.family(
    who_is_active,
    {
        "lemD11": {
            "statement": "Lemma D.11",
            "says": rf"stage 2.1, {SAYS_ACTIVE}; all others read less than $-\rho$",
            "given": {"stage": "2.1"},
        },
        "lemD23": {"statement": "Lemma D.23", "says": f"stage 2.2, {SAYS_ACTIVE}", "given": {"stage": "2.2"}},
        "lemD35": {
            "statement": "Lemma D.35",
            "says": rf"stage 2.3, {SAYS_ACTIVE} or $g_2(y)$ once the predicate has more than half of the attention"
            r" (the others stay below 0; the print has $\ll -\rho$, which their $(2\,\mathrm{Attn} - 1)B$ leaves)",
            "given": {"stage": "2.3"},
        },
    },
    form="exact",
    of=DIFFER,
    hypotheses=CYCLIC_DESCENT,
    cases=CYCLIC,
)


def main_events(config: AttentionRun, seed: int, *, stage: str):
    """Lambda on g_1 != g_2 and on g_1 != g_2, y_0 != y_1, and the bounds of the stage."""
    one, two = (at_stage(config, step, stage) for step in (1, 2))
    for seen in (one, two):
        yield from compared(seen, simply(seen, differ=True))
    height, size, differ = height_of(config), np.log(config.vocabulary), ~one.seen.same_action
    near, far = (mass[:, 0, 0] for mass in one.shares[:2])
    answer, wrong = one.named("g1(y0)", differ), one.named("g2(y0)", differ)
    ahead = answer - wrong
    yield equal("Lambda of g1(y0) less that of g2(y0)", ahead, np.broadcast_to(2 * (near - far) * height, ahead.shape))
    yield at_least("Lambda of g1(y0) over B'/3", answer / height * 3, 1.0, rounding=1e-12)
    yield at_least("the lead of g1(y0)", ahead, 0.0, rounding=1e-12)
    if stage == "2.1":
        yield at_most("the lead of g1(y0), over C_B", ahead / config.network.clip_factor, 1.0)
        return
    yield at_least("the lead of g1(y0)", ahead, 1.0)
    event = ~two.seen.same_action & ~two.seen.same_value
    right, other = two.named("g2(y1)", event), two.named("g2(y0)", event)
    yield at_least("Lambda of g2(y1) at step 2", right, 1.0)
    own, past = (mass[:, 0, 0] for mass in two.shares[2:])
    behind = right - other
    yield equal("Lambda of g2(y1) less g2(y0)", behind, np.broadcast_to(2 * (own - past) * height, behind.shape))
    if stage == "2.2":
        yield at_least("(Lambda of g1(y0) / B' - 1/3) log d", (answer / height - 1 / 3) * size, 0.2)
        yield at_least("Lambda of g2(y0) at step 2", other, 0.25)
        yield at_most("Lambda of g2(y1) over B/C_B", right / height * config.network.clip_factor, 1.0)


LEDGER.family(
    main_events,
    {
        "lemD12": {
            "statement": "Lemma D.12",
            "says": r"stage 2.1, step 1, $g_1 \ne g_2$: $\Lambda$ of the answer is at least $B'/3$, and leads that of"
            r" $g_2(y_0)$ by $2(\mathrm{near} - \mathrm{far})B'$, between 0 and $O(1)$ (we ask for $C_B$)",
            "given": {"stage": "2.1"},
        },
        "lemD24": {
            "statement": "Lemma D.24",
            "says": r"stage 2.2: the answer's $\Lambda$ is $(\frac13 + \Omega(1/\log d))B$ at step 1 and leads by"
            r" $\Omega(1)$; at step 2 it is between $\Omega(1)$ and $4c_5B$, that of $g_2(y_0)$ is $\Omega(1)$",
            "given": {"stage": "2.2"},
        },
        "lemD36": {
            "statement": "Lemma D.36",
            "says": r"stage 2.3: $\Lambda = (1 - 2\varepsilon)B'$ of the answer at both steps, its leads are"
            r" $2(\mathrm{near} - \mathrm{far})B'$ and $2(\mathrm{own} - \mathrm{past})B'$, and $(2\,\mathrm{near} -"
            r" 1)B'$ of the asked action at other values",
            "given": {"stage": "2.3"},
        },
    },
    form="bound",
    of=DIFFER,
    hypotheses=CYCLIC_DESCENT,
    cases=CYCLIC,
)


def other_events(config: AttentionRun, seed: int, *, stage: str):
    """Lambda where the two actions or the two values are the same, and who is active there."""
    for step in (1, 2):
        seen = at_stage(config, step, stage)
        tables = simply(seen, differ=False)
        yield from compared(seen, tables)
        yield from active_as_named(seen, tables)
        yield at_most(f"largest Lambda of other neurons, step {step}", unnamed(seen, tables), 0.0, rounding=1e-12)
    if stage == "2.1":
        one, two, height = at_stage(config, 1, stage), at_stage(config, 2, stage), height_of(config)
        yield equal("at Q = 0, step 1: g1(y)", one.named("g1(y)", one.seen.same_action)[0] / height, 1 / 3)
        ambiguous = two.seen.same_action ^ two.seen.same_value
        yield equal(
            "at Q = 0, step 2: the answer, actions or values the same", two.named("g2(y1)", ambiguous)[0] / height, 0.5
        )
        plain = two.seen.same_action & ~two.seen.same_value
        yield equal("at Q = 0, step 2: g2(y0)", two.named("g2(y0)", plain)[0] / height, 0.5)


SAYS_OTHER = r"where $g_1 = g_2$ or $y_0 = y_1$: $\Lambda = B'$ less twice the attention of the clauses that do not fit"
LEDGER.family(
    other_events,
    {
        "lemD14": {
            "statement": "Lemma D.14",
            "says": rf"stage 2.1, {SAYS_OTHER}; at $Q = 0$ it is $B'/3$ or $B'/2$ where the answer is ambiguous",
            "given": {"stage": "2.1"},
        },
        "lemD26": {"statement": "Lemma D.26", "says": f"stage 2.2, {SAYS_OTHER}", "given": {"stage": "2.2"}},
        "lemD38": {"statement": "Lemma D.38", "says": f"stage 2.3, {SAYS_OTHER}", "given": {"stage": "2.3"}},
    },
    form="exact",
    of=AGREE,
    hypotheses=CYCLIC_DESCENT,
    cases=CYCLIC,
)


# --- Appendix E -------------------------------------------------------------------------------------------------------


def on_event(config: AttentionRun, seed: int, *, stage: str, event: str):
    """All named neurons of one event, and that no other is active."""
    seen = at_stage(config, 2, stage)
    tables = symmetric(seen, event)
    yield from compared(seen, tables)
    yield from active_as_named(seen, tables)
    yield at_most("largest Lambda of other neurons", unnamed(seen, tables), 0.0)


SYMMETRIC = (FINE, dataclasses.replace(FINE, action="S3"))
SAYS_E1 = r"$y_0 \ne y_1$, actions differ on both: $\Lambda = (\mathrm{near} - \mathrm{past})\alpha + (\mathrm{own} -"
SAYS_E1 += r" \mathrm{far})\beta$ of the answer, $(\mathrm{near} - \mathrm{own})\alpha + \dots$ of $g_2(y_0)$"
SAYS_E2 = r"actions agree on $y_0$ only: $\Lambda = (\mathrm{near} + \mathrm{far} - \mathrm{own})\alpha +"
SAYS_E2 += r" \mathrm{past}\,\beta$ of $g_2(y_0)$ (the print leaves the last term out)"
SAYS_E3 = r"$y_0 = y_1$, actions differ there: $\Lambda = \mathrm{near}\,\alpha$ of the answer and"
SAYS_E3 += r" $\mathrm{far}\,\alpha$ of $g_1(y_1)$, up to terms with $\beta$"
SAYS_E4 = r"$y_0 \ne y_1$, actions agree on both: $\Lambda = (\mathrm{near} + \mathrm{far} - \mathrm{past})\alpha +"
SAYS_E4 += r" \mathrm{own}\,\beta$ of the answer"
SAYS_E5 = r"actions agree on $y_1$ only: the answer reads as if alone, $g_2(y_0)$ and $g_1(y_0)$ as on the main event"
SAYS_E6 = r"$y_0 = y_1$, actions agree there: $\Lambda = (\mathrm{near} + \mathrm{far})\alpha + (\mathrm{own} +"
SAYS_E6 += r" \mathrm{past})\beta$ of the answer"
LEDGER.family(
    on_event,
    {
        "lemE13": {
            "statement": "Lemma E.13",
            "says": SAYS_E1,
            "of": (readings.on_e1,),
            "given": {"stage": "1.2.1", "event": "E1"},
        },
        "lemE14": {
            "statement": "Lemma E.14",
            "says": SAYS_E2,
            "of": (readings.on_e2,),
            "given": {"stage": "1.2.1", "event": "E2"},
        },
        "lemE15": {
            "statement": "Lemma E.15",
            "says": SAYS_E3,
            "of": (readings.on_e3,),
            "given": {"stage": "1.2.1", "event": "E3"},
        },
        "lemE16": {
            "statement": "Lemma E.16",
            "says": SAYS_E4,
            "of": (readings.on_e4,),
            "given": {"stage": "1.2.1", "event": "E4"},
        },
        "lemE17": {
            "statement": "Lemma E.17",
            "says": SAYS_E5,
            "of": (readings.on_e5,),
            "given": {"stage": "1.2.1", "event": "E5"},
        },
        "lemE18": {
            "statement": "Lemma E.18",
            "says": SAYS_E6,
            "of": (readings.on_e6,),
            "given": {"stage": "1.2.1", "event": "E6"},
        },
        "lemE25": {
            "statement": "Lemma E.25",
            "says": f"until the loss of Lemma E.35, {SAYS_E1}",
            "of": (readings.on_e1,),
            "given": {"stage": "1.2.2", "event": "E1"},
        },
        "lemE26": {
            "statement": "Lemma E.26",
            "says": f"until the loss of Lemma E.35, {SAYS_E2}",
            "of": (readings.on_e2,),
            "given": {"stage": "1.2.2", "event": "E2"},
        },
        "lemE27": {
            "statement": "Lemma E.27",
            "says": f"until the loss of Lemma E.35, {SAYS_E3}",
            "of": (readings.on_e3,),
            "given": {"stage": "1.2.2", "event": "E3"},
        },
        "lemE28": {
            "statement": "Lemma E.28",
            "says": f"until the loss of Lemma E.35, {SAYS_E4}",
            "of": (readings.on_e4,),
            "given": {"stage": "1.2.2", "event": "E4"},
        },
        "lemE29": {
            "statement": "Lemma E.29",
            "says": f"until the loss of Lemma E.35, {SAYS_E5}",
            "of": (readings.on_e5,),
            "given": {"stage": "1.2.2", "event": "E5"},
        },
        "lemE30": {
            "statement": "Lemma E.30",
            "says": f"until the loss of Lemma E.35, {SAYS_E6}",
            "of": (readings.on_e6,),
            "given": {"stage": "1.2.2", "event": "E6"},
        },
    },
    form="exact",
    hypotheses=SYMMETRIC_DESCENT,
    cases=SYMMETRIC,
)
