"""What the network says in Appendix D, lemma by lemma: logits on each event along the stages of a descent."""

import numpy as np

from stairwise.lab.contract.checks import at_least, at_most, equal, row
from stairwise.papers.lego.claims.dynamics import CYCLIC, CYCLIC_DESCENT
from stairwise.papers.lego.claims.ledger import LEDGER
from stairwise.papers.lego.claims.readings import height_of
from stairwise.papers.lego.claims.seen import Moments, at_stage
from stairwise.papers.lego.config.dynamics import AttentionRun
from stairwise.papers.lego.theory import literal, readings

Said = tuple[np.ndarray, np.ndarray, np.ndarray]


def formula(seen: Moments, same_action: bool, same_value: bool = False) -> Said:
    """p, p of the confused class, and 1 - p of an event, from the lemmas' Lambdas; each (times, 1)."""
    config, height = seen.config, height_of(seen.config)
    if seen.step == 1:
        read = readings.FIRST[same_action](seen.shares, height)
        names = ("g1(y0)", "g1(y)" if same_action else "g2(y0)", "g1(y)")
    else:
        read = readings.SECOND[same_action, same_value](seen.shares, height)
        confused = {(True, True): "g2(y)", (False, True): "g1(y1)"}.get((same_action, same_value), "g2(y0)")
        names = ("g2(y1)", confused, "g2(y)")
    active = lambda name: literal.activation(read[name], config.network.rho, config.network.power)[:, 0, 0]  # noqa: E731
    right, wrong, rest = (active(name) for name in names)
    if not same_action and (seen.step == 1 or same_value):
        wrong = wrong + rest  # the confused class has the asked action's neuron as well
    return readings.chances(right, wrong, rest, config.group.values, config.vocabulary)


def found(seen: Moments, same_action: bool, same_value: bool = False) -> Said:
    """The same from the network, (times, contexts of the event)."""
    facts = seen.seen
    event = facts.same_action == same_action
    if seen.step == 2:
        event = event & (facts.same_value == same_value)
    asked = 1 if seen.step == 1 else 2
    right = seen.said(asked, facts.middle, event)
    if seen.step == 2 and same_value:
        wrong = seen.said(1, facts.middle, event)
    else:
        wrong = seen.said(2, facts.start, event)
    return right, wrong, seen.miss[:, event]


def agree(name: str, seen: Moments, same_action: bool, same_value: bool = False):
    """Logarithms of the three against the formula; where the two classes are one, of p and 1 - p alone."""
    shown = ("p", "p of the confused class", "1 - p")
    alone = same_action and (seen.step == 1 or same_value)
    computed, expected = found(seen, same_action, same_value), formula(seen, same_action, same_value)
    for part, x, y in zip(shown, computed, expected, strict=True):
        if x.size and not (alone and part == shown[1]):
            yield equal(f"log of {part}, {name}", np.log(x), np.broadcast_to(np.log(y), x.shape), 1e-9, scale=1.0)


def main_logits(config: AttentionRun, seed: int, *, stage: str):
    """g_1 != g_2 at step 1; g_1 != g_2 and y_0 != y_1 at step 2."""
    one, two, d = at_stage(config, 1, stage), at_stage(config, 2, stage), config.vocabulary
    yield from agree("step 1", one, False)
    yield from agree("step 2", two, False)
    factor, height = config.network.clip_factor, height_of(config)
    p, wrong, miss = found(one, False)
    near, far = one.masses[:, :1], one.masses[:, 1:2]
    _, other, missed = found(two, False)
    if stage == "2.1":
        # until a = 1/log d, with c >= 0, the answer's logit is ahead by 2 B' (near - far) at most
        grown = np.exp(1 / np.log(d))
        least = (1 - d ** (1 - factor / 3)) / (1 + np.exp(2 * height * (grown - 1) / (grown + 2)))
        yield at_least("p of g1(y0) and of g2(y0), step 1", [p.min(), wrong.min()], least)
        yield at_most("what they leave, times d^(C_B/3 - 1)", (1 - p - wrong) * d ** (factor / 3 - 1), 1.0)
        distinct = two.probabilities[:, two.seen.distinct]
        yield at_most("d p of any value, step 2, four images", np.max(d * distinct, initial=0.0), 4.0)
    if stage == "2.2":
        yield equal(
            "p of g2(y0) over p, step 1", np.log(p / wrong), np.broadcast_to(2 * (near - far) * height, p.shape)
        )
        yield at_least("1 - p at step 2", missed, 0.25)
        gap = two.masses[:, :1] - two.masses[:, 2:3]
        yield at_most("p of g2(y0) times d^(1 - gap C_B), step 2", other * d ** (1 - gap * factor), 2.0)
    if stage == "2.3":
        eps = two.masses[:, [1, 3]].sum(axis=1, keepdims=True)
        least = np.minimum(1.0, d ** (1 - factor * (1 - 2 * eps)))
        yield at_least("1 - p at step 2 over min(1, d^(1 - C_B(1 - 2 eps)))", missed / least, 0.3)
        own, past, gap = two.masses[:, 2:3], two.masses[:, 3:], two.masses[:, :1] - two.masses[:, 2:3]
        order = 1 / (d ** (2 * (own - past) * factor) + d ** (1 - gap * factor))
        yield at_least("p of g2(y0) over its order, step 2", other / order, 0.2)
        yield at_most("p of g2(y0) over its order, step 2", other / order, 2.0)
        yield row(
            {
                "1 - p over p of g2(y0), step 1: first": float((miss / wrong)[0].max()),
                "last": float((miss / wrong)[-1].max()),
            }
        )


LEDGER.family(
    main_logits,
    {
        "lemD13": {
            "statement": "Lemma D.13",
            "says": r"stage 2.1: at step 1 the answer and $g_2(y_0)$ have $\Omega(1)$ each (what $a = 1/\log d$ leaves,"
            r" about $e^{-2C_B/3}$) and leave $d^{1-C_B/3}$; at step 2, four images distinct, every value has $O(1/d)$",
            "given": {"stage": "2.1"},
        },
        "lemD25": {
            "statement": "Lemma D.25",
            "says": r"stage 2.2: at step 1 $g_2(y_0)$ has $d^{-2C_B(\mathrm{near} - \mathrm{far})}$ of the answer's; at"
            r" step 2 $1 - \mathrm{logit} = \Omega(1)$ and $g_2(y_0)$ has $O(d^{-1 + c_6C_B})$",
            "given": {"stage": "2.2"},
        },
        "lemD37": {
            "statement": "Lemma D.37",
            "says": r"stage 2.3, step 2: $g_2(y_0)$ has $1/(d^{2(\mathrm{own} - \mathrm{past})C_B} + d^{1-\Delta C_B})$"
            r" up to a constant, and $1 - \mathrm{logit} \ge \Omega(\min(1, d^{1 - C_B(1 - 2\varepsilon)}))$; both"
            r" steps in closed form",
            "given": {"stage": "2.3"},
        },
    },
    form="bound",
    of=(readings.chances,),
    hypotheses=CYCLIC_DESCENT,
    cases=CYCLIC,
)


def other_logits(config: AttentionRun, seed: int, *, stage: str):
    """Where the actions or the values are the same."""
    one, two, d, factor = (
        at_stage(config, 1, stage),
        at_stage(config, 2, stage),
        config.vocabulary,
        config.network.clip_factor,
    )
    yield from agree("step 1, g1 = g2", one, True)
    for action, value in ((True, False), (False, True), (True, True)):
        yield from agree(f"step 2, g1 {'=' if action else '!='} g2, y0 {'=' if value else '!='} y1", two, action, value)
    miss = found(one, True)[2]
    ambiguous = {"g1 = g2": found(two, True, False), "y0 = y1": found(two, False, True)}
    same = found(two, True, True)[2]
    near, far, own, past = (two.masses[:, [k]] for k in range(4))
    floor, first_own = d ** (1 - factor), one.masses[:, 2:3]
    yield at_most(
        "1 - p, step 1, over its order", miss / (config.group.values * d ** (-2 * first_own * factor) + floor), 1.0
    )
    yield at_most(
        "1 - p, both the same, over its order",
        same / (config.group.values * d ** (-2 * (own + past) * factor) + floor),
        1.0,
    )
    if stage != "2.3":
        for name, (p, wrong, _) in ambiguous.items():
            yield at_least(f"p of the answer, {name}", p, 0.25)
            yield at_most(
                f"what two classes leave, {name}, times d^(C_B/2 - 1)", (1 - p - wrong) * d ** (factor / 2 - 1), 2.0
            )
        return
    leads = {"g1 = g2": 2 * (own - past), "y0 = y1": np.minimum(2 * (near - far), 1 - 2 * far)}
    for name, (_, wrong, _) in ambiguous.items():
        yield at_most(f"p of the confused class over d^(-lead C_B), {name}", wrong * d ** (leads[name] * factor), 2.0)


SAYS_SAME = r"where $g_1 = g_2$ or $y_0 = y_1$: one confused class at most, and where both are the same none"
LEDGER.family(
    other_logits,
    {
        "lemD15": {"statement": "Lemma D.15", "says": f"stage 2.1, {SAYS_SAME}", "given": {"stage": "2.1"}},
        "lemD27": {"statement": "Lemma D.27", "says": f"stage 2.2, {SAYS_SAME}", "given": {"stage": "2.2"}},
        "lemD39": {
            "statement": "Lemma D.39",
            "says": r"stage 2.3: $g_2(y_0)$ has $O(d^{-2(\mathrm{own} - \mathrm{past})C_B})$ where $g_1 = g_2$, and"
            r" $g_1(y_1)$ has $O(d^{-2(\mathrm{near} - \mathrm{far})C_B})$ where $y_0 = y_1$; $1 - \mathrm{logit} ="
            r" O(d^{-2\,\mathrm{own}\,C_B} + d^{1-C_B})$ where both are the same (the print lacks the last term)",
            "given": {"stage": "2.3"},
        },
    },
    form="bound",
    of=(readings.chances,),
    hypotheses=CYCLIC_DESCENT,
    cases=CYCLIC,
)
