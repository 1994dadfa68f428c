"""The closed-form gradients of W and Q (Facts A.1, D.1, E.1, F.1 and Lemmas D.1, D.2, E.1, E.2, F.1, F.2).

Each is minus the gradient of one step's loss; the paper's expectation is the mean of these over chains, its sum over l
their sum. `clip=False` is the printed form, which lacks 1{F < B}.
"""

import numpy as np

from stairwise.papers.lego.task import SLOTS
from stairwise.papers.lego.theory.literal import Step, error


def weights(step: Step, clip: bool = True) -> np.ndarray:
    """Fact A.1: E_ij sReLU'(Lambda_ijr) sum_k Attn_k Z_k, (positions, classes, neurons, 5d)."""
    return (error(step, clip)[..., None] * step.slope)[..., None] * (step.attention @ step.Z)


def xi(step: Step, clip: bool = True) -> np.ndarray:
    """Eq. (41), all positions added: Xi_k = sum_ij E_ij sum_r sReLU'(Lambda_ijr) <W_ijr, Z_k>."""
    return np.einsum("ij,ijr,kijr->k", error(step, clip), step.slope, step.read)


def clause_weights(step: Step, clip: bool = True) -> np.ndarray:
    """Attn_k (Xi_k - sum_k' Attn_k' Xi_k'): what the gradient gives each clause."""
    found = xi(step, clip)
    return step.attention * (found - step.attention @ found)


def centred_clause_weights(step: Step, bias: float, clip: bool = True) -> np.ndarray:
    """The same as Lemmas D.1 to F.2 write it: Attn_k sum_ij E_ij sum_r sReLU'(Lambda) (<W, Z_k> - Lambda + b)."""
    centred = step.read - step.lam + bias
    return step.attention * np.einsum("ij,ijr,kijr->k", error(step, clip), step.slope, centred)


def scores(step: Step, per_clause: np.ndarray) -> np.ndarray:
    """Fact D.1: sum_k weight_k Z_query Z_k^T, all of Q as (5, d, 5, d)."""
    tokens = step.Z.shape[1] // SLOTS
    return np.outer(step.Z[-1], per_clause @ step.Z).reshape(SLOTS, tokens, SLOTS, tokens)


def blocks(step: Step, per_clause: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The blocks Q43 and Q44 alone: entry [x, third token] from predicates, [x, fourth token] from answers."""
    tokens, query = step.Z.shape[1] // SLOTS, step.clauses[-1, 3]
    predicate, answer = np.zeros((tokens, tokens)), np.zeros((tokens, tokens))
    np.add.at(predicate[query], step.clauses[: step.predicates, 2], per_clause[: step.predicates])
    np.add.at(answer[query], step.clauses[step.predicates :, 3], per_clause[step.predicates :])
    return predicate, answer


def blocks_printed(step: Step, per_clause: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lemmas F.1 and F.5 as printed: of the predicates only the asked one and the first reach Q43.

    True for L = 2; for L > 2 predicates 3..L write into other off-diagonal entries of the same row.
    """
    kept = per_clause.copy()
    asked = len(step.clauses) - step.predicates - 1
    for predicate in range(step.predicates):
        if predicate not in (0, asked):
            kept[predicate] = 0.0
    return blocks(step, kept)
