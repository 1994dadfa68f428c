"""Appendices D.2, E.2 and F.1 on the ideal FFN, where every O(.) is zero: features, Lambda, refined gradients."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from stairwise.lab.contract.checks import at_most, equal, note, true, vacuous_if
from stairwise.papers.lego import model as models
from stairwise.papers.lego.claims.ledger import LEDGER
from stairwise.papers.lego.claims.networks import Case, equals, ideal
from stairwise.papers.lego.claims.sizes import Ideal, assumption_4_1, assumption_c1, long_enough
from stairwise.papers.lego.config.task import Task
from stairwise.papers.lego.theory import features as magnitudes
from stairwise.papers.lego.theory import literal, refined

SIMPLY, SYMMETRIC, LONGER = Ideal(), Ideal(Task("S4", 4, 2)), Ideal(Task("S4", 6, 4))
LATER = {"steps": (2,)}
BOTH = {"steps": (1, 2)}


def with_clip(assumption: Callable[[Any], dict[str, bool]]) -> Callable[[Any], dict[str, bool]]:
    """With Assumption 3.4: if C_B is not large, sReLU is B on its curved branch, not where the ideal FFN has it."""

    def met(config: Ideal) -> dict[str, bool]:
        clip = models.logit_clip(config.task.vocabulary, config.clip_factor)
        return assumption(config) | {"B >= rho/q (Assumption 3.4)": clip >= config.rho / config.q}

    return met


def features_of(config: Ideal) -> Any:
    """alpha and beta by the theorem's formula, and the table."""
    group = config.task.group
    clip = models.logit_clip(config.task.vocabulary, config.clip_factor)
    scale = models.feature_scale(clip, config.rho, config.q)
    alpha, beta = magnitudes.magnitudes(group, scale)
    return refined.RefinedFeatures(float(alpha), float(beta), group.table)


@lru_cache(maxsize=24)
def steps_of(config: Ideal, seed: int, step: int) -> tuple[Case, list[Any]]:
    """The network's own steps, and what the lemmas' formulas make of the same chains."""
    case, features = ideal(config, seed, (step,)), features_of(config)
    actions, values = np.asarray(case.chains.actions), np.asarray(case.chains.values)
    shown = [refined.Chosen(g, y[:step]) for g, y in zip(actions, values, strict=True)]
    first = case.task.starts[2]
    slope = lambda x: literal.slope(x, config.rho, config.q)  # noqa: E731
    made = [
        refined.refined_of(row[0], features, seen, first, slope) for row, seen in zip(case.found, shown, strict=True)
    ]
    return case, made


def checked(config: Ideal, seed: int, steps: tuple[int, ...], pairs: Callable[[Case, list[Any]], dict[str, Any]]):
    """Pairs of one lemma at each of its steps."""
    long_enough(config.task, max(steps))
    for step in steps:
        found = pairs(*steps_of(config, seed, step))
        yield from equals({f"{name}, l={step}": pair for name, pair in found.items()})


# --- features ---------------------------------------------------------------------------------------------------------


def feature_table(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """V_{j,y}(g) as (g, j, y) and V_{j,y}(y') as (y', j, y), from the network's weights."""
    _, action, value = case.task.starts
    W = np.asarray(case.model.weights)[:, :, 0, value:, : case.task.values]
    return W[1, action:value], W[4, value:]


def outputs_before_the_clip(of_action: np.ndarray, of_value: np.ndarray, config: Ideal) -> np.ndarray:
    """sum_r sReLU((V(g) + V(y))/2) of every class on every pair of T^1, (g, y, j)."""
    read = (of_action[:, None] + of_value[None]) / 2
    return literal.activation(read, config.rho, config.q).sum(axis=-1)


def target_features(config: Ideal, seed: int):
    """Properties (42)-(45), (89)-(92), from what they must do: reach B, cancel, keep the conserved sum."""
    case = ideal(config, seed, (1,))
    of_action, of_value = feature_table(case)
    table, size = config.task.group.table, config.task.group.values
    clip = float(case.model.clip)
    fiber = table[:, None, :] == np.arange(size)[:, None]  # (g, j, y)
    own = np.broadcast_to(np.eye(size, dtype=bool)[:, None, :], of_value.shape)  # (y', j, y)
    pair = of_action[:, None] + of_value[None]  # (g, y', j, y)
    right = table[:, :, None] == np.arange(size)  # (g, y, j)
    expected = np.where(right, clip, 0.0)
    yield equal("F before the clip", outputs_before_the_clip(of_action, of_value, config), expected)
    yield equal("confounders / B", pair[fiber[:, None] ^ own[None]] / clip, 0.0)
    yield equal("(sum of V(g) - sum of V(y)) / B", (of_action.sum(axis=0) - of_value.sum(axis=0)) / clip, 0.0)
    if config.task.group.free:
        values = np.broadcast_to(np.einsum("yjy->jy", of_value), fiber.shape)
        yield equal("V(g) against V(y)", of_action[fiber], values[fiber])
    yield true("V(g') < 0 off the fiber", of_action[~fiber] < 0)
    yield true("V(y') < 0 at other values", of_value[~own] < 0)
    yield true("other neurons have no weights", not np.asarray(case.model.weights)[..., size:].any())
    height = float(pair[fiber[:, None] & own[None]].mean()) / 2
    yield note(f"V(phi) = {height:.4g} = B + rho(1-1/q) with this activation, whose flat branch is 0; B = {clip:.4g}")


LEDGER.family(
    target_features,
    {
        "lemD3": {
            "statement": "Lemma D.3",
            "says": r"ideal FFN: every pair's own class reaches exactly $B$ and all others 0, $V(g) = V(y)$,"
            r" $V(g)+V(y') = V(g')+V(y) = 0$, $V(g'), V(y') < 0$",
            "hypotheses": with_clip(assumption_4_1),
            "cases": SIMPLY,
        },
        "lemE3": {
            "statement": "Lemma E.3",
            "says": r"ideal FFN: the same with fibers; that $\sum_g V(g) = \sum_y V(y)$ fixes $V(g) = C V(y)$",
            "hypotheses": with_clip(assumption_c1),
            "cases": SYMMETRIC,
        },
    },
    form="exact",
    of=(models.ideal, models.feature_scale, models.feature_ratio),
    seeds=3,
)


def nothing_else_moves(config: Ideal, seed: int):
    """Where every logit that is due has just been clipped, irrelevant weights have no gradient left."""
    case = ideal(config, seed, (1,), beyond=1 + 1e-9)
    raw = outputs_before_the_clip(*feature_table(case), config)
    right = config.task.group.table[:, :, None] == np.arange(case.task.values)
    yield equal("F before the clip", raw, np.where(right, float(case.model.clip), 0.0), 1e-6)
    _, action, value = case.task.starts
    irrelevant = np.ones(case.model.weights.shape, dtype=bool)
    irrelevant[1, action:value, :, value:] = False
    irrelevant[4, value:, :, value:] = False
    yield true("irrelevant weights are zero", not np.asarray(case.model.weights)[irrelevant].any())
    yield equal("their gradient on one-step chains", case.gradient.weights[irrelevant], 0.0)


LEDGER.family(
    nothing_else_moves,
    {
        "lemD4": {
            "statement": "Lemma D.4",
            "says": r"ideal FFN: weights other than slot 2 on actions and slot 5 on values, and those of classes that"
            r" are no values, stay where they started: they have no gradient",
            "hypotheses": with_clip(assumption_4_1),
            "cases": Ideal(Task("C5", 3, 1), scores=(0.0, 0.0, 0.0, 0.0)),
        },
        "lemE4": {
            "statement": "Lemma E.4",
            "says": "the same under an action that is not free",
            "hypotheses": with_clip(assumption_c1),
            "cases": Ideal(Task("S4", 3, 1), scores=(0.0, 0.0, 0.0, 0.0)),
        },
    },
    form="exact",
    of=(models.ideal,),
    seeds=3,
)


# --- Lambda -----------------------------------------------------------------------------------------------------------


def values_of(case: Case, array: np.ndarray) -> np.ndarray:
    """The value classes and their neurons, of an array (..., 1, classes, neurons)."""
    first, size = case.task.starts[2], case.task.values
    return array[..., 0, first:, :size]


def read_pairs(case: Case, made: list[Any]) -> dict[str, Any]:
    """<W, Z_k> = V(g) of a predicate, V(y) of an answer, 0 outside the value classes."""
    read = np.stack([row[0].read for row in case.found])
    formula = np.stack([np.concatenate([step.predicate_features, step.answer_features]) for step in made])
    outside = read[..., 0, : case.task.starts[2], :]
    return {"<W,Z> of values": (values_of(case, read), formula), "<W,Z> elsewhere": (outside, np.zeros(outside.shape))}


def lambda_pairs(case: Case, made: list[Any]) -> dict[str, Any]:
    """(a) activated neurons, (b) the spare ones, (c) other classes."""
    lam = np.stack([row[0].lam for row in case.found])
    first, size = case.task.starts[2], case.task.values
    spare, outside = lam[:, 0, first:, size:], lam[:, 0, :first]
    return {
        "Lambda of values": (values_of(case, lam), np.stack([step.lam for step in made])),
        "Lambda of spare neurons": (spare, np.zeros(spare.shape)),
        "Lambda of other classes": (outside, np.zeros(outside.shape)),
    }


def clauses_read_as_features(config: Ideal, seed: int, *, steps: tuple[int, ...]):
    yield from checked(config, seed, steps, read_pairs)


LEDGER.family(
    clauses_read_as_features,
    {
        "lemD5": {
            "statement": "Lemma D.5",
            "says": r"ideal FFN: $\langle W, Z_{\mathrm{pred}}\rangle = V(g)$, $\langle W, Z_{\mathrm{ans}}\rangle ="
            r" V(y)$, and 0 for classes that are no values",
            "hypotheses": assumption_4_1,
            "cases": SIMPLY,
            "given": BOTH,
        },
        "lemE5": {
            "statement": "Lemma E.5",
            "says": "the same under an action that is not free",
            "hypotheses": assumption_c1,
            "cases": SYMMETRIC,
            "given": LATER,
        },
    },
    form="exact",
    of=(refined.RefinedFeatures.of_action, refined.RefinedFeatures.of_value),
    seeds=3,
)


def lambda_is_a_mixture_of_features(config: Ideal, seed: int, *, steps: tuple[int, ...]):
    yield from checked(config, seed, steps, lambda_pairs)


LEDGER.family(
    lambda_is_a_mixture_of_features,
    {
        "lemD6": {
            "statement": "Lemma D.6",
            "says": r"ideal FFN: $\Lambda = \sum \mathrm{Attn}_{\mathrm{pred}} V(g) + \sum \mathrm{Attn}_{\mathrm{ans}}"
            r" V(y)$, and 0 for other neurons and classes, $\ell = 1, 2$",
            "hypotheses": assumption_4_1,
            "cases": SIMPLY,
            "given": BOTH,
        },
        "lemE6": {
            "statement": "Lemma E.6",
            "says": r"the same under an action that is not free, $\ell = 2$",
            "hypotheses": assumption_c1,
            "cases": SYMMETRIC,
            "given": LATER,
        },
        "lemF3": {
            "statement": "Lemma F.3",
            "says": r"corrected: $\Lambda$ sums over predicates $1, \dots, L_k$ and answers 0, 1",
            "hypotheses": assumption_c1,
            "cases": LONGER,
            "given": LATER,
        },
    },
    form="exact",
    of=(refined.lambdas,),
    seeds=3,
)


@LEDGER.refuted(
    "lemF3-printed",
    statement="Lemma F.3",
    says=r"as printed: $\Lambda$ sums over predicates 1, 2 and answers $0, \dots, L_k - 1$, of which $Z^{L_k,1}$ shows"
    " only two",
    certificate="certificates/lemF3.py",
    corrected="lemF3",
    of=(refined.lambdas,),
    hypotheses=assumption_c1,
    cases=LONGER,
    seeds=3,
)
def the_printed_lambda_of_longer_chains(config: Ideal, seed: int):
    long_enough(config.task, 2)
    case, made = steps_of(config, seed, 2)
    printed = [
        refined.lambdas(
            (step.predicate_attention[:2], step.answer_attention), step.predicate_features[:2], step.answer_features
        )
        for step in made
    ]
    found = values_of(case, np.stack([row[0].lam for row in case.found]))
    yield equal("Lambda", found, np.stack(printed))
    yield note("the limits of the two sums are swapped: predicates run to L_k, answers to 2")


def absent_pairs_are_idle(config: Ideal, seed: int, *, steps: tuple[int, ...]):
    """sReLU' = 0 outside A-hat_j, and A-hat_j is no larger than it must be: each of its neurons reads some clause."""
    long_enough(config.task, max(steps))
    for step in steps:
        case, made = steps_of(config, seed, step)
        active = np.stack([one.active for one in made])
        slopes = np.stack([values_of(case, row[0].slope) for row in case.found])
        read = np.stack([values_of(case, row[0].read).max(axis=0) for row in case.found])
        yield vacuous_if(active.all(), "no neuron is outside A-hat")
        yield at_most(f"sReLU' outside A-hat, l={step}", np.max(slopes[~active], initial=0.0), 0.0)
        yield true(f"A-hat are the neurons that read some clause positively, l={step}", active == (read > 0))


LEDGER.family(
    absent_pairs_are_idle,
    {
        "lemD7": {
            "statement": "Lemma D.7",
            "says": r"ideal FFN: neurons whose action and value are both absent from the context have"
            r" $\mathrm{sReLU}' = 0$",
            "hypotheses": assumption_4_1,
            "cases": SIMPLY,
            "given": BOTH,
        },
        "lemE7": {
            "statement": "Lemma E.7",
            "says": r"the same with fibers, $L = 2$",
            "hypotheses": assumption_c1,
            "cases": SYMMETRIC,
            "given": LATER,
        },
        "lemF4": {
            "statement": "Lemma F.4",
            "says": r"the same with fibers, $L = L_k$",
            "hypotheses": assumption_c1,
            "cases": Ideal(Task("S4", 6, 3)),
            "given": LATER,
        },
    },
    form="exact",
    of=(refined.active_set,),
    seeds=3,
)
