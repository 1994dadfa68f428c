"""The refined gradients of Q43 and Q44 on the ideal FFN, against autodiff (Lemmas D.8, D.9, E.8-E.11, F.5-F.8)."""

from collections.abc import Callable
from typing import Any

import numpy as np

from stairwise.lab.contract.checks import note
from stairwise.papers.lego.claims.ledger import LEDGER
from stairwise.papers.lego.claims.networks import Case
from stairwise.papers.lego.claims.refined import LONGER, SIMPLY, SYMMETRIC, checked
from stairwise.papers.lego.claims.sizes import Ideal, assumption_4_1, assumption_c1
from stairwise.papers.lego.theory import gradients, literal, refined

Pairs = Callable[[Case, list[Any]], dict[str, Any]]


def of_the_true_class(step: Any, clause: int) -> float:
    """What one clause writes into Q through the right answer's neurons alone, from the network's own quantities."""
    j = int(step.target[0])
    centred = step.read[clause, 0, j] - step.attention @ step.read[:, 0, j]
    return float(step.attention[clause] * literal.error(step)[0, j] * (step.slope[0, j] @ centred))


def true_parts(case: Case, made: list[Any], index: int) -> tuple[np.ndarray, np.ndarray]:
    """N_i of every clause that writes into Q43 (0) or Q44 (1), chain by chain: of the network, and by the formula."""
    found, formula = [], []
    for row, step in zip(case.found, made, strict=True):
        shown = (
            (step.predicate_attention, step.predicate_features),
            (step.answer_attention, step.answer_features),
        )[index]
        first = index * row[0].predicates
        found.append([of_the_true_class(row[0], first + k) for k in range(len(shown[0]))])
        formula.append([refined.split(step, attention, read)[0] for attention, read in zip(*shown, strict=True)])
    return np.array(found), np.array(formula)


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
        found = {name: (getattr(case.gradient.scores, block), formula)}
        return found if printed else found | {f"N_i of every clause of {name}": true_parts(case, made, index)}

    return pairs


def diagonal(case: Case, block: str) -> float:
    """The diagonal of a block's gradient by autodiff, summed over variables: E over chains, 1{x_1 = s} dropped."""
    return float(np.trace(getattr(case.gradient.scores, block)))


def decomposition_pairs(case: Case, made: list[Any]) -> dict[str, Any]:
    """N_i + N_ii (+ N_iii = 0) of Q43, of Q44 and of their sum; and N_i, the part of the true class, chain by chain."""
    parts = np.array([refined.diagonals(step) for step in made])  # chain, Q43 or Q44, N_i or N_ii
    both = np.array([refined.diagonal_sum(step) for step in made])
    found = np.array([diagonal(case, "predicate"), diagonal(case, "answer")])
    true_ = np.stack([true_parts(case, made, index)[0][:, made[0].own] for index in (0, 1)], axis=1)
    return {
        "Q43 and Q44": (found, parts.sum(axis=2).mean(axis=0)),
        "sum": (found.sum(), both.sum(axis=1).mean()),
        "N_i of Q43 and Q44": (true_, parts[:, :, 0]),
        "N_i of the sum": (true_.sum(axis=1), both[:, 0]),
    }


def sum_pairs(case: Case, made: list[Any]) -> dict[str, Any]:
    """Both diagonals together, from the clauses that should not be read."""
    both = np.mean([sum(refined.diagonal_sum(step)) for step in made])
    return {"Q43 + Q44": (diagonal(case, "predicate") + diagonal(case, "answer"), both)}


# --- as they are ------------------------------------------------------------------------------------------------------


def refined_block(config: Ideal, seed: int, *, index: int, steps: tuple[int, ...] = (2,)):
    yield from checked(config, seed, steps, block_pairs(index))


LEDGER.family(
    refined_block,
    {
        "lemD8": {
            "statement": "Lemma D.8",
            "says": r"ideal FFN: the gradient of $Q_{4,3}$ with sums over $\hat{A}_j$ only and $V(g) - \Lambda$ in each"
            r" term, $\ell = 1, 2$",
            "hypotheses": assumption_4_1,
            "cases": SIMPLY,
            "given": {"index": 0, "steps": (1, 2)},
        },
        "lemD9": {
            "statement": "Lemma D.9",
            "says": r"ideal FFN: the gradient of $Q_{4,4}$ with sums over $\hat{A}_j$ only and $V(y) - \Lambda$ in each"
            r" term, $\ell = 1, 2$",
            "hypotheses": assumption_4_1,
            "cases": SIMPLY,
            "given": {"index": 1, "steps": (1, 2)},
        },
        "lemE8": {
            "statement": "Lemma E.8",
            "says": r"Lemma D.8 with fibers, $\ell = 2$",
            "hypotheses": assumption_c1,
            "cases": SYMMETRIC,
            "given": {"index": 0},
        },
        "lemE9": {
            "statement": "Lemma E.9",
            "says": r"Lemma D.9 with fibers, $\ell = 2$; its off-diagonal entries are those of $Q_{4,4}$, printed as"
            r" $Q_{4,3}$",
            "hypotheses": assumption_c1,
            "cases": SYMMETRIC,
            "given": {"index": 1},
        },
        "lemF5": {
            "statement": "Lemma F.5",
            "says": r"corrected: the refined gradient of $Q_{4,3}$ for $L = L_k$, with a term of every other predicate"
            " off the diagonal",
            "hypotheses": assumption_c1,
            "cases": LONGER,
            "given": {"index": 0},
        },
        "lemF6": {
            "statement": "Lemma F.6",
            "says": r"the refined gradient of $Q_{4,4}$ for $L = L_k$, $\ell = 2$",
            "hypotheses": assumption_c1,
            "cases": LONGER,
            "given": {"index": 1},
        },
    },
    form="exact",
    of=(refined.clause_weights, refined.split, gradients.blocks),
    seeds=3,
)


def sum_of_both_diagonals(config: Ideal, seed: int):
    yield from checked(config, seed, (2,), sum_pairs)


LEDGER.family(
    sum_of_both_diagonals,
    {
        "lemE10": {
            "statement": "Lemma E.10",
            "says": r"corrected: $Q_{4,3}$ and $Q_{4,4}$ together on the diagonal, from"
            r" $\mathrm{Attn}_{\mathrm{ans},0} V(y_0)$, $\mathrm{Attn}_{\mathrm{pred},1} V(g_1)$ and"
            r" $(1 - \mathrm{Attn} - \mathrm{Attn})\Lambda$",
            "cases": SYMMETRIC,
        },
        "lemF7": {
            "statement": "Lemma F.7",
            "says": r"corrected: the same for $L = L_k$; every class reads predicates with its own neurons",
            "cases": LONGER,
        },
    },
    form="exact",
    of=(refined.diagonal_sum, refined._wrongly_read),
    hypotheses=assumption_c1,
    seeds=3,
)


def decompositions(config: Ideal, seed: int):
    yield from checked(config, seed, (2,), decomposition_pairs)


LEDGER.family(
    decompositions,
    {
        "lemE11": {
            "statement": "Lemma E.11",
            "says": r"the decompositions $N_i + N_{ii} + N_{iii}$ of $Q_{4,3}$, of $Q_{4,4}$ and of their sum",
            "cases": SYMMETRIC,
        },
        "lemF8": {
            "statement": "Lemma F.8",
            "says": r"corrected: the decompositions for $L = L_k$, with $V(y_1)$ in eq. (123)",
            "cases": LONGER,
        },
    },
    form="exact",
    of=(refined.diagonals, refined.split, refined.diagonal_sum),
    hypotheses=assumption_c1,
    seeds=3,
)


# --- as printed -------------------------------------------------------------------------------------------------------


@LEDGER.refuted(
    "lemF5-printed",
    statement="Lemma F.5",
    says=r"as printed: off the diagonal only predicate 1 writes into $Q_{4,3}$, also for $L_k > 2$",
    certificate="certificates/lemF1.py",
    corrected="lemF5",
    of=(gradients.blocks_printed,),
    hypotheses=assumption_c1,
    cases=LONGER,
    seeds=3,
)
def the_printed_predicate_block_of_longer_chains(config: Ideal, seed: int):
    yield from checked(config, seed, (2,), block_pairs(0, printed=True))
    yield note(f"predicates 3..{config.task.length} are missing")


def twice_predicate(case: Case, made: list[Any]) -> dict[str, Any]:
    both = np.mean([sum(refined.diagonal_sum(step)) for step in made])
    return {"Q43 + Q43": (2 * diagonal(case, "predicate"), both)}


def wrong_neurons(case: Case, made: list[Any]) -> dict[str, Any]:
    printed = np.mean([refined.diagonal_sum_printed(step) for step in made])
    return {"Q43 + Q44": (diagonal(case, "predicate") + diagonal(case, "answer"), printed)}


def wrong_feature(case: Case, made: list[Any]) -> dict[str, Any]:
    printed = np.mean([refined.answer_diagonal_printed(step) + refined.diagonals(step)[1][1] for step in made])
    return {"Q44": (diagonal(case, "answer"), printed)}


def printed(config: Ideal, seed: int, *, pairs: Pairs):
    yield from checked(config, seed, (2,), pairs)


LEDGER.family(
    printed,
    {
        "lemE10-printed": {
            "statement": "Lemma E.10",
            "says": r"as printed: the sum of the gradient of $Q_{4,3}$ with itself",
            "means": r"the second gradient is that of $Q_{4,4}$",
            "corrected": "lemE10",
            "of": (refined.diagonal_sum,),
            "cases": SYMMETRIC,
            "given": {"pairs": twice_predicate},
        },
        "lemF7-printed": {
            "statement": "Lemma F.7",
            "says": r"as printed: in wrong classes $j$ the predicates are read as $V_{j_2}(g)$"
            r", by the true class's neurons",
            "means": r"the index is $j$, and the second gradient is that of $Q_{4,4}$",
            "corrected": "lemF7",
            "of": (refined.diagonal_sum_printed,),
            "cases": LONGER,
            "given": {"pairs": wrong_neurons},
        },
        "lemF8-printed": {
            "statement": ("Lemma F.8", "eq. (123)"),
            "says": r"as printed: $N_i$ of $Q_{4,4}$ with $V(g_2) - \Lambda$",
            "means": r"$V(y_1) - \Lambda$, as in eq. (124)",
            "corrected": "lemF8",
            "of": (refined.answer_diagonal_printed,),
            "cases": LONGER,
            "given": {"pairs": wrong_feature},
        },
    },
    form="misprint",
    hypotheses=assumption_c1,
    seeds=3,
)
