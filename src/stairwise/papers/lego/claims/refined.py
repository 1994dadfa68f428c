"""Appendices D.2, E.2 and F.1 on the ideal FFN, where every O(.) is zero: features, Lambda, refined gradients."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from stairwise.lab.checks import empty_if, exactly, identical, under
from stairwise.lab.contract import Verdict
from stairwise.papers.lego import model as models
from stairwise.papers.lego.claims.ledger import LEDGER
from stairwise.papers.lego.claims.networks import Case, ideal
from stairwise.papers.lego.claims.sizes import Ideal, long_enough, simply_transitive, transitive_not_free
from stairwise.papers.lego.config.task import Task
from stairwise.papers.lego.theory import features as magnitudes
from stairwise.papers.lego.theory import literal, refined

SIMPLY, SYMMETRIC, LONGER = Ideal(), Ideal(Task("S4", 4, 2)), Ideal(Task("S4", 6, 4))
HYPOTHESIS = {"D": simply_transitive, "E": transitive_not_free, "F": transitive_not_free}
STEPS = {"D": (1, 2), "E": (2,), "F": (2,)}


def features_of(config: Ideal) -> Any:
    """alpha and beta by the theorem's formula, and the table."""
    group = config.task.group
    clip = models.logit_clip(config.task.vocabulary, config.clip_factor)
    scale = models.feature_scale(clip, config.rho, config.q)
    alpha, beta = magnitudes.magnitudes(group, scale)
    return refined.Features(float(alpha), float(beta), group.table)


@lru_cache(maxsize=8)
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


def checked(appendix: str, config: Ideal, seed: int, pairs: Callable[[Case, list[Any]], dict[str, Any]]) -> Verdict:
    """Pairs of one lemma at each of its steps, under the appendix's hypothesis on the action."""
    steps = STEPS[appendix]
    long_enough(config.task, max(steps))
    found: dict[str, Any] = {}
    for step in steps:
        found |= {f"l={step}: {name}": pair for name, pair in pairs(*steps_of(config, seed, step)).items()}
    return under(HYPOTHESIS[appendix](config.task.group), identical(found))


# --- features ---------------------------------------------------------------------------------------------------------


def feature_table(config: Ideal, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """V_{j,y}(g) as (g, j, y) and V_{j,y}(y') as (y', j, y), from the network's weights."""
    case, values = ideal(config, seed, (1,)), config.task.group.values
    _, action, value = case.task.starts
    W = np.asarray(case.model.weights)[:, :, 0, value:, :values]
    return W[1, action:value], W[4, value:]


def target_features(config: Ideal, seed: int, ratio: float) -> Verdict:
    """Properties (42)-(45), (89)-(92): sums, their ratio, cancellations, signs, idle neurons."""
    of_action, of_value = feature_table(config, seed)
    clip = models.logit_clip(config.task.vocabulary, config.clip_factor)
    scale = models.feature_scale(clip, config.rho, config.q)
    table, size = config.task.group.table, config.task.group.values
    fiber = table[:, None, :] == np.arange(size)[:, None]  # (g, j, y)
    own = np.broadcast_to(np.eye(size, dtype=bool)[:, None, :], of_value.shape)  # (y', j, y)
    pair = of_action[:, None] + of_value[None]  # (g, y', j, y)
    here, there = fiber[:, None] & own[None], fiber[:, None] ^ own[None]
    spare = np.asarray(ideal(config, seed, (1,)).model.weights)[..., size:]
    facts = {
        "V(g') < 0 off the fiber": bool((of_action[~fiber] < 0).all()),
        "V(y') < 0 at other values": bool((of_value[~own] < 0).all()),
        "no other neuron has weights": not spare.any(),
    }
    values = np.broadcast_to(np.einsum("yjy->jy", of_value), fiber.shape)
    sums = {
        "(V(g) + V(y))/2 = B'": (pair[here] / 2, np.full(int(here.sum()), scale)),
        "V(g) = C V(y)": (of_action[fiber], ratio * values[fiber]),
        "confounders cancel": (pair[there] / scale, np.zeros(int(there.sum()))),
    }
    note = f"B' = B + rho(1-1/q) = {scale:.4g} where the lemma writes B = {clip:.4g}"
    return Verdict.worst({"sums": identical(sums), "signs": exactly(facts, note=note)})


@LEDGER.theory(
    "lemD3",
    kind="identity",
    says="ideal FFN: (V(g)+V(y))/2 = B', V(g) = V(y), V(g)+V(y') = V(g')+V(y) = 0, other neurons idle",
    cases=SIMPLY,
)
def features_of_a_simply_transitive_action(config: Ideal, seed: int) -> Verdict:
    return under(simply_transitive(config.task.group), target_features(config, seed, 1.0))


@LEDGER.theory(
    "lemE3",
    kind="identity",
    says="corrected: on the ideal FFN V(g) = C V(y) on the fiber, with sums and cancellations as for D.3",
    cases=SYMMETRIC,
)
def features_of_a_symmetric_action(config: Ideal, seed: int) -> Verdict:
    group = config.task.group
    ratio = models.feature_ratio(group.actions, group.values)
    return under(transitive_not_free(group), target_features(config, seed, ratio))


@LEDGER.theory(
    "lemE3-printed",
    kind="identity",
    says="as printed (89): V(y) = C V(g), the ratio of Theorem C.1 upside down",
    cases=SYMMETRIC,
)
def the_printed_ratio(config: Ideal, seed: int) -> Verdict:
    group = config.task.group
    ratio = models.feature_ratio(group.actions, group.values)
    of_action, of_value = feature_table(config, seed)
    y, g = float(of_value.max()), float(of_action.max())
    note = f"V(g) = {g:.5g}, V(y) = {y:.5g}, C = {ratio:.5g}"
    return identical({"V(y) = C V(g)": (y, ratio * g)}, otherwise="refuted", note=note)


def irrelevant_weights(config: Ideal, seed: int) -> Verdict:
    """All weights but V(g), V(y) of the value classes."""
    case = ideal(config, seed, (1,))
    _, action, value = case.task.starts
    W = np.array(case.model.weights)
    W[1, action:value, :, value:] = 0
    W[4, value:, :, value:] = 0
    return Verdict.at_most(np.abs(W).max(), 0.0)


@LEDGER.theory(
    "lemD4",
    kind="identity",
    says="ideal FFN: no weights but slot 2 on actions and slot 5 on values, and none in classes that are no values",
    cases=SIMPLY,
)
def nothing_else_has_weights(config: Ideal, seed: int) -> Verdict:
    return under(simply_transitive(config.task.group), irrelevant_weights(config, seed))


@LEDGER.theory(
    "lemE4",
    kind="identity",
    says="the same under an action that is not free",
    cases=SYMMETRIC,
)
def nothing_else_has_weights_under_a_symmetric_group(config: Ideal, seed: int) -> Verdict:
    return under(transitive_not_free(config.task.group), irrelevant_weights(config, seed))


# --- Lambda -----------------------------------------------------------------------------------------------------------


def values_of(case: Case, array: np.ndarray) -> np.ndarray:
    """The value classes and their neurons, of an array (..., 1, classes, neurons)."""
    first, size = case.task.starts[2], case.task.values
    return array[..., 0, first:, :size]


def read_pairs(case: Case, made: list[Any]) -> dict[str, Any]:
    """<W, Z_k> = V(g) of a predicate, V(y) of an answer, 0 outside the value classes (D.5, E.5)."""
    read = np.stack([row[0].read for row in case.found])
    formula = np.stack([np.concatenate([step.predicate_features, step.answer_features]) for step in made])
    outside = read[..., 0, : case.task.starts[2], :]
    return {"<W,Z> of values": (values_of(case, read), formula), "elsewhere": (outside, np.zeros(outside.shape))}


def lambda_pairs(case: Case, made: list[Any]) -> dict[str, Any]:
    """(a) activated neurons, (b) the spare ones, (c) other classes (D.6, E.6, F.3)."""
    lam = np.stack([row[0].lam for row in case.found])
    first, size = case.task.starts[2], case.task.values
    spare, outside = lam[:, 0, first:, size:], lam[:, 0, :first]
    return {
        "Lambda of values": (values_of(case, lam), np.stack([step.lam for step in made])),
        "spare neurons": (spare, np.zeros(spare.shape)),
        "other classes": (outside, np.zeros(outside.shape)),
    }


def idle(appendix: str, config: Ideal, seed: int) -> Verdict:
    """sReLU' = 0 for neurons outside A-hat_j (D.7, E.7, F.4)."""
    steps = STEPS[appendix]
    long_enough(config.task, max(steps))
    slopes = []
    for step in steps:
        case, made = steps_of(config, seed, step)
        for row, one in zip(case.found, made, strict=True):
            slopes.append(values_of(case, row[0].slope)[~one.active])
    outside = np.concatenate(slopes)
    verdict = Verdict.at_most(np.max(outside, initial=0.0), 0.0, note=f"{len(outside)} neurons outside A-hat")
    return under(HYPOTHESIS[appendix](config.task.group), empty_if(not len(outside), verdict, "none is outside"))


@LEDGER.theory(
    "lemD5",
    kind="identity",
    says="ideal FFN: <W,Z_pred> = V(g), <W,Z_ans> = V(y), and 0 for classes that are no values",
    cases=SIMPLY,
)
def clauses_read_as_features(config: Ideal, seed: int) -> Verdict:
    return checked("D", config, seed, read_pairs)


@LEDGER.theory("lemE5", kind="identity", says="the same under an action that is not free", cases=SYMMETRIC)
def clauses_read_as_features_under_a_symmetric_group(config: Ideal, seed: int) -> Verdict:
    return checked("E", config, seed, read_pairs)


@LEDGER.theory(
    "lemD6",
    kind="identity",
    says="ideal FFN: Lambda = sum Attn_pred V(g) + sum Attn_ans V(y), and 0 for other neurons and classes, l = 1, 2",
    cases=SIMPLY,
)
def lambda_is_a_mixture_of_features(config: Ideal, seed: int) -> Verdict:
    return checked("D", config, seed, lambda_pairs)


@LEDGER.theory("lemE6", kind="identity", says="the same under an action that is not free, l = 2", cases=SYMMETRIC)
def lambda_is_a_mixture_under_a_symmetric_group(config: Ideal, seed: int) -> Verdict:
    return checked("E", config, seed, lambda_pairs)


@LEDGER.theory(
    "lemF3",
    kind="identity",
    says="corrected: Lambda sums over predicates 1..L_k and answers 0, 1",
    cases=LONGER,
)
def lambda_of_longer_chains(config: Ideal, seed: int) -> Verdict:
    return checked("F", config, seed, lambda_pairs)


@LEDGER.theory(
    "lemF3-printed",
    kind="identity",
    says="as printed: Lambda sums over predicates 1, 2 and answers 0..L_k - 1, of which Z^{L_k,1} shows only two",
    cases=LONGER,
)
def the_printed_lambda_of_longer_chains(config: Ideal, seed: int) -> Verdict:
    long_enough(config.task, 2)
    case, made = steps_of(config, seed, 2)
    printed = [
        refined.lambdas(
            (step.predicate_attention[:2], step.answer_attention), step.predicate_features[:2], step.answer_features
        )
        for step in made
    ]
    found = values_of(case, np.stack([row[0].lam for row in case.found]))
    return identical({"Lambda": (found, np.stack(printed))}, otherwise="refuted")


@LEDGER.theory(
    "lemD7",
    kind="identity",
    says="ideal FFN: neurons whose action and value are both absent from the context have sReLU' = 0",
    cases=SIMPLY,
)
def absent_pairs_are_idle(config: Ideal, seed: int) -> Verdict:
    return idle("D", config, seed)


@LEDGER.theory("lemE7", kind="identity", says="the same with fibers, L = 2", cases=SYMMETRIC)
def absent_fibers_are_idle(config: Ideal, seed: int) -> Verdict:
    return idle("E", config, seed)


@LEDGER.theory("lemF4", kind="identity", says="the same with fibers, L = L_k", cases=LONGER)
def absent_fibers_are_idle_in_longer_chains(config: Ideal, seed: int) -> Verdict:
    return idle("F", config, seed)
