"""The gradients of W and Q in closed form, against autodiff (Facts A.1, D.1, E.1, F.1; Lemmas D.1 to F.2)."""

from typing import Any

import numpy as np

from stairwise.lab.checks import identical, under
from stairwise.lab.contract import Verdict
from stairwise.papers.lego.claims.ledger import LEDGER
from stairwise.papers.lego.claims.networks import Case, drawn
from stairwise.papers.lego.claims.sizes import Drawn, long_enough, simply_transitive, transitive_not_free
from stairwise.papers.lego.config.task import Task
from stairwise.papers.lego.theory import gradients

CLIPPED = 1.0  # a B that many of the random logits exceed


def all_steps(config: Drawn) -> tuple[int, ...]:
    return tuple(range(1, config.task.length + 1))


def weight_pairs(case: Case, clip: bool) -> dict[str, tuple[Any, Any]]:
    found = case.gradient.weights  # (slot, token, position, class, neuron)
    dense = np.moveaxis(found, (2, 3, 4), (0, 1, 2)).reshape(*found.shape[2:], -1)
    return {"W": (dense, case.mean(lambda step: gradients.weights(step, clip)))}


def score_pairs(case: Case, bias: float, clip: bool) -> dict[str, tuple[Any, Any]]:
    found = case.gradient.scores.blocks
    by_xi = case.mean(lambda step: gradients.scores(step, gradients.clause_weights(step, clip)))
    centred = case.mean(lambda step: gradients.scores(step, gradients.centred_clause_weights(step, bias, clip)))
    return {"Q by Xi": (found, by_xi), "Q by <W,Z> - Lambda + b": (found, centred)}


def clipped_share(case: Case) -> float:
    """How many logits the clip holds."""
    return float(np.mean([1 - step.unclipped.mean() for row in case.found for step in row]))


@LEDGER.theory(
    "factA1",
    kind="identity",
    says="-dLoss/dW_ijr = E sum_l E_ij 1{F<B} sReLU'(Lambda_ijr) sum_k Attn_k Z_k, for all five tokens",
    cases=(Drawn(), Drawn(clip=CLIPPED)),
)
def the_gradient_of_the_weights(config: Drawn, seed: int) -> Verdict:
    return identical(weight_pairs(drawn(config, seed, all_steps(config)), clip=True))


@LEDGER.theory(
    "factA1-printed",
    kind="identity",
    says="as printed: the same without 1{F<B}, which autodiff through the clip of Assumption 3.4 has",
    cases=Drawn(clip=CLIPPED),
)
def the_printed_gradient_of_the_weights(config: Drawn, seed: int) -> Verdict:
    return _printed(weight_pairs, config, seed)


def _printed(pairs, config: Drawn, seed: int) -> Verdict:
    case = drawn(config, seed, all_steps(config))
    share = clipped_share(case)
    note = f"a share {share:.2g} of the logits is clipped; a clipped logit passes no gradient"
    return identical(pairs(case, clip=False), otherwise="refuted", note=note)


def _score_fact(config: Drawn, seed: int) -> Verdict:
    return identical(score_pairs(drawn(config, seed, all_steps(config)), config.bias, clip=True))


@LEDGER.theory(
    "factD1",
    kind="identity",
    says="-dLoss/dQ_pq = E sum_k Attn_k (Xi_k - sum_k' Attn_k' Xi_k') z_query,p z_k,q^T for every block (p,q)",
    cases=(Drawn(), Drawn(clip=CLIPPED)),
)
def the_gradient_of_attention(config: Drawn, seed: int) -> Verdict:
    return under(simply_transitive(config.task.group), _score_fact(config, seed))


@LEDGER.theory(
    "factD1-printed",
    kind="identity",
    says="as printed: the same with E_ij = 1{.} - logit_ij, without the clip's 1{F<B} (also in Facts E.1 and F.1)",
    cases=Drawn(clip=CLIPPED),
)
def the_printed_gradient_of_attention(config: Drawn, seed: int) -> Verdict:
    return _printed(lambda case, clip: score_pairs(case, config.bias, clip), config, seed)


@LEDGER.theory(
    "factE1",
    kind="identity",
    says="the gradient of Q is the same formula under an action that is transitive and not free",
    cases=Drawn(Task("S3", 4, 2)),
)
def the_gradient_of_attention_under_a_symmetric_group(config: Drawn, seed: int) -> Verdict:
    return under(transitive_not_free(config.task.group), _score_fact(config, seed))


# --- the two trained blocks, step by step -----------------------------------------------------------------------------


def block_pairs(case: Case, bias: float, block: str, printed: bool = False) -> dict[str, tuple[Any, Any]]:
    """One block of Q, its diagonal and what is off it, for one step."""
    write = gradients.blocks_printed if printed else gradients.blocks
    index = {"predicate": 0, "answer": 1}[block]
    formula = case.mean(lambda step: np.stack(write(step, gradients.centred_clause_weights(step, bias)))[index])
    found = np.asarray(getattr(case.gradient.scores, block))
    name, diagonal = {"predicate": "Q43", "answer": "Q44"}[block], np.eye(len(found), dtype=bool)
    step = case.steps[0]
    return {
        f"{name} diagonal, l={step}": (found[diagonal], formula[diagonal]),
        f"{name} off it, l={step}": (np.where(diagonal, 0, found), np.where(diagonal, 0, formula)),
    }


def blocks(config: Drawn, seed: int, block: str, steps: tuple[int, ...]) -> Verdict:
    long_enough(config.task, max(steps))
    pairs = {}
    for step in steps:
        pairs |= block_pairs(drawn(config, seed, (step,), value_only=True), config.bias, block)
    return identical(pairs)


SIMPLY, SYMMETRIC, LONGER = Task("C3", 5, 2), Task("S3", 4, 2), Task("S3", 6, 4)


@LEDGER.theory(
    "lemD1",
    kind="identity",
    says="entries of Q43 for l = 1, 2: E Attn_pred sum_j E_j sum_r sReLU' (<W,Z_pred> - Lambda + b), by variable pair",
    cases=Drawn(SIMPLY),
)
def the_predicate_block(config: Drawn, seed: int) -> Verdict:
    return under(simply_transitive(config.task.group), blocks(config, seed, "predicate", (1, 2)))


@LEDGER.theory(
    "lemD2",
    kind="identity",
    says="entries of Q44 for l = 1, 2: the same with answers; off its diagonal Q44 gets nothing at l = 1",
    cases=Drawn(SIMPLY),
)
def the_answer_block(config: Drawn, seed: int) -> Verdict:
    found = drawn(config, seed, (1,), value_only=True).gradient.scores.answer
    empty = identical({"Q44 off its diagonal, l=1": (found - np.diag(np.diag(found)), np.zeros(found.shape))})
    verdict = Verdict.worst({"entries": blocks(config, seed, "answer", (1, 2)), "nothing": empty})
    return under(simply_transitive(config.task.group), verdict)


@LEDGER.theory(
    "lemE1",
    kind="identity",
    says="Lemma D.1 for Loss_5^{2,2} under an action that is not free",
    cases=Drawn(SYMMETRIC),
)
def the_predicate_block_under_a_symmetric_group(config: Drawn, seed: int) -> Verdict:
    return under(transitive_not_free(config.task.group), blocks(config, seed, "predicate", (2,)))


@LEDGER.theory(
    "lemE2",
    kind="identity",
    says="Lemma D.2 for Loss_5^{2,2} under an action that is not free",
    cases=Drawn(SYMMETRIC),
)
def the_answer_block_under_a_symmetric_group(config: Drawn, seed: int) -> Verdict:
    return under(transitive_not_free(config.task.group), blocks(config, seed, "answer", (2,)))


@LEDGER.theory(
    "lemF1",
    kind="identity",
    says="corrected: off its diagonal Q43 gets a term from each of the L_k - 1 other predicates, at its third token",
    cases=Drawn(LONGER),
)
def the_predicate_block_of_longer_chains(config: Drawn, seed: int) -> Verdict:
    return under(transitive_not_free(config.task.group), blocks(config, seed, "predicate", (2,)))


@LEDGER.theory(
    "lemF1-printed",
    kind="identity",
    says="as printed: off its diagonal Q43 gets a term from predicate 1 only, also for L_k > 2",
    cases=Drawn(LONGER),
)
def the_printed_predicate_block_of_longer_chains(config: Drawn, seed: int) -> Verdict:
    long_enough(config.task, 2)
    pairs = block_pairs(drawn(config, seed, (2,), value_only=True), config.bias, "predicate", printed=True)
    note = f"predicates 3..{config.task.length} also show variables that the query scores against"
    return identical(pairs, otherwise="refuted", note=note if config.task.length > 2 else "")


@LEDGER.theory(
    "lemF2",
    kind="identity",
    says="Q44 of longer chains at l = 2: answers 1 (diagonal) and 0 (off it), as for L = 2",
    cases=Drawn(LONGER),
)
def the_answer_block_of_longer_chains(config: Drawn, seed: int) -> Verdict:
    return under(transitive_not_free(config.task.group), blocks(config, seed, "answer", (2,)))
