"""Which way the scores are pushed in Appendices D and E, lemma by lemma: signs and orders of gradients along stages."""

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from stairwise.lab.contract.checks import at_least, at_most, equal, true
from stairwise.papers.lego.claims.descents import clip_of, path_of
from stairwise.papers.lego.claims.dynamics import CYCLIC, CYCLIC_DESCENT, FINE, SYMMETRIC_DESCENT
from stairwise.papers.lego.claims.ledger import LEDGER
from stairwise.papers.lego.claims.readings import SYMMETRIC
from stairwise.papers.lego.claims.seen import Moments, at_stage
from stairwise.papers.lego.claims.sizes import both
from stairwise.papers.lego.config.dynamics import AttentionRun, Constants
from stairwise.papers.lego.theory import lengths, pushes

OF = (pushes.split, pushes.features)


@dataclass(frozen=True, eq=False)
class Pushed:
    """Pushes on a, b, c, e over B along a stage, the scores, and what each supervised step sees."""

    config: AttentionRun
    a: np.ndarray
    b: np.ndarray
    c: np.ndarray
    e: np.ndarray
    scores: np.ndarray
    seen: tuple[Moments, ...]

    @property
    def size(self) -> float:
        return float(np.log(self.config.vocabulary))

    @property
    def eps(self) -> np.ndarray:
        return lengths.concentration(self.scores, 2, 2)

    def missed(self, event: str) -> np.ndarray:
        """E[1 - logit | event] of step 2 at each time."""
        seen = self.seen[-1]
        mask = seen.seen.events()[event]
        return seen.miss[:, mask] @ seen.weights[mask] / seen.weights[mask].sum()


Rule = Callable[[Pushed], Iterator[Any]]


def along(config: AttentionRun, seed: int, *, stage: str, rule: Rule):
    """The decomposition against autodiff's gradients of the run, then what the lemma says of it."""
    seen = tuple(at_stage(config, step, stage) for step in config.supervised)
    total, kept = np.sum([each.push for each in seen], axis=0), -path_of(config).gradients[seen[0].times]
    scale = np.abs(kept).max(axis=1, keepdims=True)
    yield equal("N_i + N_ii against the gradient, over its largest entry", total / scale, kept / scale, 1e-10)
    a, b, c, e = total.T / clip_of(config)
    yield from rule(Pushed(config, a, b, c, e, seen[0].scores, seen))


def of_order_b(p: Pushed):
    """Theta(log d / d) of an entry of Q: Theta(B) of a."""
    yield at_least("push on Q43 over B", p.a, 0.1)
    yield at_most("push on Q43 over B", p.a, 0.4)


def answers_of_order_b(p: Pushed):
    yield at_least("push on Q44 over B", p.c, 0.1)
    yield at_most("push on Q44 over B", p.c, 0.4)


def hardly_negative(p: Pushed):
    yield at_least("push on Q44 over that on Q43, times log d", p.c / p.a * p.size, -1.0)
    one = p.seen[0]
    right, wrong = (np.einsum("n,tn->t", one.weights, part[..., 2]) for part in one.pushes)
    yield at_least("N_i of Q44 at step 1", right, 0.0)
    yield at_most("N_ii of Q44 at step 1", wrong, 0.0)
    yield at_least(
        "their sum over the push on Q43, times log d", (right + wrong) / clip_of(p.config) / p.a * p.size, -1.0
    )


def gap_grows(p: Pushed):
    one = p.seen[0]
    event = ~one.seen.same_action
    confused = one.said(2, one.seen.start, event) @ one.weights[event] / one.weights[event].sum()
    yield at_least("(push on Q43 - push on Q44) over that on Q43, over p of g2(y0)", (p.a - p.c) / p.a / confused, 1.5)
    wrong = np.einsum("n,tnk->tk", one.weights, one.pushes[1])
    yield at_least(
        "N_ii of step 1, Q43 less Q44, over the push on Q43",
        (wrong[:, 0] - wrong[:, 2]) / clip_of(p.config) / p.a,
        0.1,
    )


def answers_follow(p: Pushed):
    """From a = Omega(1/log d) on."""
    late = p.scores[:, 0] > 0.5 / p.size
    yield at_least("push on Q44 over that on Q43, once a > 1/(2 log d)", (p.c / p.a)[late], 0.5)


def off_diagonal(p: Pushed):
    """An entry off the diagonal has 1/(|X| - 1) of the push on b; pushes on a and b are of one order."""
    ratio = np.abs([p.b, p.e]) / np.maximum(np.abs(p.a), np.abs(p.c))
    yield at_most(
        "an entry off the diagonal, times d, over the larger one on it",
        ratio * p.config.vocabulary / (p.config.variables - 1),
        2.0,
    )


def gap_stays(p: Pushed):
    """Sums over the stage, each step weighed as the run takes it."""
    loss = path_of(p.config).losses[p.seen[0].times]
    a, c = np.cumsum(p.a / loss), np.cumsum(p.c / loss)
    yield at_least("sum of (push on Q43 - push on Q44) over that of Q43, times log d", (a - c) / a * p.size, -1.0)


def gap_is_kept(p: Pushed):
    a, _, c, _ = p.scores.T
    yield at_least("(a - c) log d", (a - c) * p.size, 0.25)


def answers_grow(p: Pushed):
    """(73): B/d times eps times 1 - logit, which is min(1, d^(1 - (1 - 2 eps) C_B)) or more."""
    factor, d = p.config.network.clip_factor, p.config.vocabulary
    order = p.eps * np.minimum(1.0, d ** (1 - (1 - 2 * p.eps) * factor))
    yield at_least("push on Q44 over B eps min(1, d^(1 - (1 - 2 eps) C_B))", p.c / order, 0.2)


def gap_is_not_negative(p: Pushed):
    for each in p.seen:
        yield at_least(f"near - own, step {each.step}", each.masses[:, 0] - each.masses[:, 2], 0.0)


def scores_are_bounded(p: Pushed):
    yield at_most("a and c over log d", p.scores[:, [0, 2]] / p.size, 1.2)


def predicate_has_half(p: Pushed):
    yield at_most("attention to the predicate", p.seen[-1].masses[:, 0], 0.55)


OFF = r"an entry of $Q$ off the diagonal has $O(1/d)$ of the gradient on it (of the larger of the two blocks)"
LEDGER.family(
    along,
    {
        "lemD16": {
            "statement": "Lemma D.16",
            "says": r"stage 2.1: a diagonal entry of $Q_{4,3}$ has a gradient of order $\log d/d$ (0.1 to 0.4 $B/|X|$)",
            "given": {"stage": "2.1", "rule": of_order_b},
        },
        "lemD17": {
            "statement": "Lemma D.17",
            "says": r"stage 2.1: the gradient of $Q_{4,4}$ is at least $-O(1/\log d)$ of that of $Q_{4,3}$",
            "given": {"stage": "2.1", "rule": hardly_negative},
        },
        "lemD18": {
            "statement": "Lemma D.18",
            "says": r"stage 2.1: $Q_{4,3}$ gains on $Q_{4,4}$ by $\Omega(1)$ of its gradient, through the wrong class"
            r" $g_2(y_0)$ of step 1 (we ask for 1.5 times its chance, which is $\Omega(1)$ by Lemma D.13)",
            "given": {"stage": "2.1", "rule": gap_grows},
        },
        "lemD19": {
            "statement": "Lemma D.19",
            "says": r"once $a = \Omega(1/\log d)$, $Q_{4,4}$ has $\Omega(1)$ of the gradient of $Q_{4,3}$ (half)",
            "given": {"stage": "2.1", "rule": answers_follow},
        },
        "lemD20": {
            "statement": "Lemma D.20",
            "says": f"stage 2.1: {OFF}",
            "given": {"stage": "2.1", "rule": off_diagonal},
        },
        "lemD28": {
            "statement": "Lemma D.28",
            "says": r"stage 2.2: the gradient of $Q_{4,3}$ is of order $\log d/d$",
            "given": {"stage": "2.2", "rule": of_order_b},
        },
        "lemD29": {
            "statement": "Lemma D.29",
            "says": r"stage 2.2: the gradient of $Q_{4,4}$ is of order $\log d/d$",
            "given": {"stage": "2.2", "rule": answers_of_order_b},
        },
        "lemD30": {
            "statement": "Lemma D.30",
            "says": r"stage 2.2: what $Q_{4,4}$ gains on $Q_{4,3}$ is at most $O(1/\log d)$ of what $Q_{4,3}$ gains",
            "given": {"stage": "2.2", "rule": gap_stays},
        },
        "lemD31": {
            "statement": "Lemma D.31",
            "says": r"stage 2.2: $a - c = \Omega(1/\log d)$ (we ask for a quarter)",
            "given": {"stage": "2.2", "rule": gap_is_kept},
        },
        "lemD32": {
            "statement": "Lemma D.32",
            "says": f"stage 2.2: {OFF}",
            "given": {"stage": "2.2", "rule": off_diagonal},
        },
        "lemD40": {
            "statement": "Lemma D.40",
            "says": r"stage 2.3: the gradient of $Q_{4,4}$ is $\Omega(\varepsilon\log d/d^{(1 - 2\varepsilon)C_B})$, or"
            r" $\Omega(\varepsilon\log d/d)$ where that is less",
            "given": {"stage": "2.3", "rule": answers_grow},
        },
        "lemD41": {
            "statement": "Lemma D.41",
            "says": f"stage 2.3: {OFF}",
            "given": {"stage": "2.3", "rule": off_diagonal},
        },
        "lemD42": {
            "statement": "Lemma D.42",
            "says": r"stage 2.3: the gap is never negative, at either step",
            "given": {"stage": "2.3", "rule": gap_is_not_negative},
        },
        "lemD43": {
            "statement": "Lemma D.43",
            "says": r"stage 2.3: $a, c = \tilde O(1)$ (at most $1.2 \log d$)",
            "given": {"stage": "2.3", "rule": scores_are_bounded},
        },
        "lemD44": {
            "statement": "Lemma D.44",
            "says": r"stage 2.3: the asked predicate has at most $0.5 + c$ of the attention ($c = 0.05$)",
            "given": {"stage": "2.3", "rule": predicate_has_half},
        },
    },
    form="bound",
    of=OF,
    hypotheses=CYCLIC_DESCENT,
    cases=CYCLIC,
)


# --- Appendix E -------------------------------------------------------------------------------------------------------


def both_grow_first(p: Pushed):
    least = np.minimum(1 / p.config.group.values, p.missed("E1"))
    yield at_least("push on a + c over B min(1/n_Y, E[1 - logit | E1])", (p.a + p.c) / least, 0.25)


def both_grow(p: Pushed):
    order = p.missed("E1") + (p.missed("E2") + p.missed("E3")) / p.config.group.values
    yield at_least("push on a + c over B times its order", (p.a + p.c) / order, 0.1)


def predicate_stays(p: Pushed):
    near, far, _, _ = p.seen[-1].masses.T
    yield at_least("near - far, times log d / log log d", (near - far) * p.size / np.log(p.size), -1.0)
    yield true("near >= far", near >= far - 1e-12)


def predicate_is_not_ahead(p: Pushed):
    near, _, own, _ = p.seen[-1].masses.T
    yield at_most("near - own over c1", (near - own) / lengths.window_constant(p.config.network.clip_factor), 1.0)


def answer_is_not_far_ahead(p: Pushed):
    near, far, own, _ = p.seen[-1].masses.T
    yield at_least("(near + far - own) / c2", (near + far - own) * 4.02 * p.config.network.clip_factor, 1.0)


def many_values(config: AttentionRun) -> dict[str, bool]:
    """Lemma E.34 leaves the terms of order B/n_Y out against c_2 B."""
    return {"n_Y > 4.02 C_B (1/n_Y below c_2)": config.group.values > 4.02 * config.network.clip_factor}


SYMMETRY = SYMMETRIC_DESCENT
# S_25 has 10^25 actions; Assumption C.1 allows any action that is transitive and not free
MANY_VALUES = (
    dataclasses.replace(FINE, action="D28", network=Constants(clip_factor=6.5)),
    dataclasses.replace(FINE, action="D40"),
)
LEDGER.family(
    along,
    {
        "lemE19": {
            "statement": "Lemma E.19",
            "says": r"until $\varepsilon = 0.4$: $a + c$ is pushed by $\Omega(B\min(1/n_Y,"
            r" E[1 - \mathrm{logit} | E_1]))$",
            "given": {"stage": "1.2.1", "rule": both_grow_first},
        },
        "lemE20": {
            "statement": "Lemma E.20",
            "says": rf"until $\varepsilon = 0.4$: {OFF}",
            "given": {"stage": "1.2.1", "rule": off_diagonal},
        },
        "lemE21": {
            "statement": "Lemma E.21",
            "says": r"until $\varepsilon = 0.4$: attention to predicate 2 is at least that to predicate 1 less"
            r" $O(\log\log d/\log d)$",
            "given": {"stage": "1.2.1", "rule": predicate_stays},
        },
        "lemE22": {
            "statement": "Lemma E.22",
            "says": r"until $\varepsilon = 0.4$: attention to predicate 2 exceeds that to answer 1 by at most $c_1$",
            "given": {"stage": "1.2.1", "rule": predicate_is_not_ahead},
        },
        "lemE31": {
            "statement": "Lemma E.31",
            "says": r"until the loss of Lemma E.35: $a + c$ is pushed by $\Omega(B)$ of $E[1 - \mathrm{logit} | E_1] +"
            r" \frac1{n_Y}\sum_{m = 2, 3} E[1 - \mathrm{logit} | E_m]$",
            "given": {"stage": "1.2.2", "rule": both_grow},
        },
        "lemE32": {
            "statement": "Lemma E.32",
            "says": f"until the loss of Lemma E.35: {OFF}",
            "given": {"stage": "1.2.2", "rule": off_diagonal},
        },
        "lemE33": {
            "statement": "Lemma E.33",
            "says": r"until the loss of Lemma E.35: attention to predicate 2 exceeds that to answer 1 by at most $c_1$",
            "given": {"stage": "1.2.2", "rule": predicate_is_not_ahead},
        },
        "lemE34": {
            "statement": "Lemma E.34",
            "says": r"until the loss of Lemma E.35: attention to answer 1 exceeds that to predicate 2 by at most that"
            r" to predicate 1 less $c_2 = 1/(4.02\,C_B)$",
            "hypotheses": both(SYMMETRY, many_values),
            "cases": MANY_VALUES,
            "given": {"stage": "1.2.2", "rule": answer_is_not_far_ahead},
            "optimise": True,
        },
    },
    form="bound",
    of=OF,
    hypotheses=SYMMETRY,
    cases=SYMMETRIC,
)
