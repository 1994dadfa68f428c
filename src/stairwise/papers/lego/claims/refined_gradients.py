"""The refined gradients of Q43 and Q44 on the ideal FFN, against autodiff (Lemmas D.8, D.9, E.8-E.11, F.5-F.8)."""

from collections.abc import Callable
from typing import Any

import numpy as np

from stairwise.lab.checks import identical
from stairwise.lab.contract import Verdict
from stairwise.papers.lego.claims.ledger import LEDGER
from stairwise.papers.lego.claims.networks import Case
from stairwise.papers.lego.claims.refined import LONGER, SIMPLY, SYMMETRIC, checked, steps_of
from stairwise.papers.lego.claims.sizes import Ideal, long_enough
from stairwise.papers.lego.theory import gradients, refined

Pairs = Callable[[Case, list[Any]], dict[str, Any]]


def block_pairs(index: int, printed: bool = False) -> Pairs:
    """All of Q43 (index 0) or Q44 (1), diagonal and off it, from what each clause writes."""
    write = "blocks_printed" if printed else "blocks"

    def pairs(case: Case, made: list[Any]) -> dict[str, Any]:
        written = [
            getattr(gradients, write)(row[0], refined.clause_weights(step))
            for row, step in zip(case.found, made, strict=True)
        ]
        formula = np.mean([blocks[index] for blocks in written], axis=0)
        name, block = (("Q43", "predicate"), ("Q44", "answer"))[index]
        return {name: (getattr(case.gradient.scores, block), formula)}

    return pairs


def diagonal(case: Case, block: str) -> float:
    """The diagonal of a block's gradient by autodiff, summed over variables: E over chains, 1{x_1 = s} dropped."""
    return float(np.trace(getattr(case.gradient.scores, block)))


def decomposition_pairs(case: Case, made: list[Any]) -> dict[str, Any]:
    """N_i + N_ii (+ N_iii = 0) of Q43, of Q44 and of their sum."""
    of_predicate, of_answer = (np.mean([sum(refined.diagonals(step)[k]) for step in made]) for k in (0, 1))
    both = np.mean([sum(refined.diagonal_sum(step)) for step in made])
    found = diagonal(case, "predicate"), diagonal(case, "answer")
    return {"Q43": (found[0], of_predicate), "Q44": (found[1], of_answer), "sum": (found[0] + found[1], both)}


def sum_pairs(case: Case, made: list[Any]) -> dict[str, Any]:
    """Both diagonals together, from the clauses that should not be read."""
    both = np.mean([sum(refined.diagonal_sum(step)) for step in made])
    return {"Q43 + Q44": (diagonal(case, "predicate") + diagonal(case, "answer"), both)}


def refuted(config: Ideal, seed: int, pairs: Pairs, note: str) -> Verdict:
    """A printed formula at l = 2."""
    long_enough(config.task, 2)
    return identical(pairs(*steps_of(config, seed, 2)), otherwise="refuted", note=note)


@LEDGER.theory(
    "lemD8",
    kind="identity",
    says="ideal FFN: Q43's gradient with sums over A-hat_j only, V(g) - Lambda in each term, l = 1, 2",
    cases=SIMPLY,
)
def the_refined_predicate_block(config: Ideal, seed: int) -> Verdict:
    return checked("D", config, seed, block_pairs(0))


@LEDGER.theory(
    "lemD9",
    kind="identity",
    says="ideal FFN: Q44's gradient with sums over A-hat_j only, V(y) - Lambda in each term, l = 1, 2",
    cases=SIMPLY,
)
def the_refined_answer_block(config: Ideal, seed: int) -> Verdict:
    return checked("D", config, seed, block_pairs(1))


@LEDGER.theory("lemE8", kind="identity", says="Lemma D.8 with fibers, l = 2", cases=SYMMETRIC)
def the_refined_predicate_block_with_fibers(config: Ideal, seed: int) -> Verdict:
    return checked("E", config, seed, block_pairs(0))


@LEDGER.theory(
    "lemE9",
    kind="identity",
    says="Lemma D.9 with fibers, l = 2 (its off-diagonal entries are those of Q44, printed as Q43)",
    cases=SYMMETRIC,
)
def the_refined_answer_block_with_fibers(config: Ideal, seed: int) -> Verdict:
    return checked("E", config, seed, block_pairs(1))


@LEDGER.theory(
    "lemE10",
    kind="identity",
    says="corrected: Q43 + Q44 on the diagonal, from Attn_ans0 V(y_0), Attn_pred1 V(g_1) and (1 - Attn - Attn) Lambda",
    cases=SYMMETRIC,
)
def the_sum_of_both_diagonals(config: Ideal, seed: int) -> Verdict:
    return checked("E", config, seed, sum_pairs)


def twice_predicate(case: Case, made: list[Any]) -> dict[str, Any]:
    both = np.mean([sum(refined.diagonal_sum(step)) for step in made])
    return {"Q43 + Q43": (2 * diagonal(case, "predicate"), both)}


@LEDGER.theory(
    "lemE10-printed",
    kind="identity",
    says="as printed: the sum of Q43's gradient with itself",
    cases=SYMMETRIC,
)
def the_printed_sum(config: Ideal, seed: int) -> Verdict:
    return refuted(config, seed, twice_predicate, "the second gradient must be that of Q44")


@LEDGER.theory(
    "lemE11",
    kind="identity",
    says="the decompositions N_i + N_ii + N_iii of Q43, Q44 and their sum",
    cases=SYMMETRIC,
)
def the_decompositions(config: Ideal, seed: int) -> Verdict:
    return checked("E", config, seed, decomposition_pairs)


@LEDGER.theory(
    "lemF5",
    kind="identity",
    says="corrected: Q43's refined gradient for L = L_k, with a term of every other predicate off the diagonal",
    cases=LONGER,
)
def the_refined_predicate_block_of_longer_chains(config: Ideal, seed: int) -> Verdict:
    return checked("F", config, seed, block_pairs(0))


@LEDGER.theory(
    "lemF5-printed",
    kind="identity",
    says="as printed: off the diagonal only predicate 1 writes into Q43, also for L_k > 2",
    cases=LONGER,
)
def the_printed_predicate_block_of_longer_chains(config: Ideal, seed: int) -> Verdict:
    note = f"predicates 3..{config.task.length} are missing" if config.task.length > 2 else ""
    return refuted(config, seed, block_pairs(0, printed=True), note)


@LEDGER.theory("lemF6", kind="identity", says="Q44's refined gradient for L = L_k, l = 2", cases=LONGER)
def the_refined_answer_block_of_longer_chains(config: Ideal, seed: int) -> Verdict:
    return checked("F", config, seed, block_pairs(1))


@LEDGER.theory(
    "lemF7",
    kind="identity",
    says="corrected: Q43 + Q44 on the diagonal for L = L_k; every class reads predicates with its own neurons",
    cases=LONGER,
)
def the_sum_of_both_diagonals_of_longer_chains(config: Ideal, seed: int) -> Verdict:
    return checked("F", config, seed, sum_pairs)


def wrong_neurons(case: Case, made: list[Any]) -> dict[str, Any]:
    printed = np.mean([refined.diagonal_sum_printed(step) for step in made])
    return {"Q43 + Q44": (diagonal(case, "predicate") + diagonal(case, "answer"), printed)}


@LEDGER.theory(
    "lemF7-printed",
    kind="identity",
    says="as printed: in wrong classes j the predicates are read as V_{j_2}(g), by the true class's neurons",
    cases=LONGER,
)
def the_printed_sum_of_longer_chains(config: Ideal, seed: int) -> Verdict:
    return refuted(config, seed, wrong_neurons, "the index must be j; the second gradient is that of Q44")


@LEDGER.theory(
    "lemF8",
    kind="identity",
    says="corrected: the decompositions for L = L_k, with V(y_1) in eq. (123)",
    cases=LONGER,
)
def the_decompositions_of_longer_chains(config: Ideal, seed: int) -> Verdict:
    return checked("F", config, seed, decomposition_pairs)


def wrong_feature(case: Case, made: list[Any]) -> dict[str, Any]:
    printed = np.mean([refined.answer_diagonal_printed(step) + refined.diagonals(step)[1][1] for step in made])
    return {"Q44": (diagonal(case, "answer"), printed)}


@LEDGER.theory(
    "lemF8-printed",
    kind="identity",
    says="as printed (123): N_i of Q44 with V(g_2) - Lambda",
    cases=LONGER,
)
def the_printed_decomposition(config: Ideal, seed: int) -> Verdict:
    return refuted(config, seed, wrong_feature, "V(y_1) is meant")
