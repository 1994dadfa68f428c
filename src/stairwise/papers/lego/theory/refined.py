"""Appendices D.2, E.2 and F.1 on the ideal FFN: Lambda from features, idle neurons, refined gradients of Q43 and Q44.

With sigma_0 = 0 and delta = 0 every O(.) of these lemmas is zero and they become identities. Class j has one neuron
for each value y; V_{j,y}(g) is alpha if g(y) = j, else -beta, V_{j,y}(y') is beta if y' = y, else -alpha. Arrays over
(j, y) are indexed that way; predicates and answers are counted from 0.
"""

from typing import NamedTuple

import numpy as np

from stairwise.papers.lego.theory.literal import Step, error


class Chosen(NamedTuple):
    """A chain's actions g_1..g_L and the values y_0..y_{l-1} that step l may read."""

    actions: np.ndarray
    values: np.ndarray


class RefinedFeatures(NamedTuple):
    """alpha, beta and the action's table."""

    alpha: float
    beta: float
    table: np.ndarray

    def of_action(self, g: int) -> np.ndarray:
        """V_{j,y}(g)."""
        classes = np.arange(self.table.shape[1])[:, None]
        return np.where(self.table[g][None] == classes, self.alpha, -self.beta)

    def of_value(self, value: int) -> np.ndarray:
        """V_{j,y}(y')."""
        size = self.table.shape[1]
        row = np.where(np.arange(size) == value, self.beta, -self.alpha)
        return np.broadcast_to(row, (size, size))


class Refined(NamedTuple):
    """One step: attention to and V of each clause, Lambda, sReLU', E_j 1{F_j < B}, the set A-hat, the target."""

    predicate_attention: np.ndarray
    answer_attention: np.ndarray
    predicate_features: np.ndarray
    answer_features: np.ndarray
    lam: np.ndarray
    slope: np.ndarray
    error: np.ndarray
    active: np.ndarray
    target: int

    @property
    def own(self) -> int:
        """l - 1: the answer that asks, and (counted from 0) the predicate that it should find."""
        return len(self.answer_attention) - 1


def lambdas(attention: tuple[np.ndarray, np.ndarray], predicates: np.ndarray, answers: np.ndarray) -> np.ndarray:
    """Lemmas D.6, E.6, F.3 (a): Lambda = sum over predicates of Attn V(g) + sum over answers of Attn V(y)."""
    return np.tensordot(attention[0], predicates, axes=1) + np.tensordot(attention[1], answers, axes=1)


def active_set(features: RefinedFeatures, chosen: Chosen) -> np.ndarray:
    """A-hat_j: the neurons y of class j with y among the shown values, or g(y) = j for a shown action g."""
    size = features.table.shape[1]
    shown = np.isin(np.arange(size), chosen.values)
    reached = (features.table[chosen.actions][:, None, :] == np.arange(size)[None, :, None]).any(axis=0)
    return shown[None] | reached


def refined_of(step: Step, features: RefinedFeatures, chosen: Chosen, first_value: int, slope) -> Refined:
    """The step's quantities by the lemmas' formulas; only attention and F are taken from the network itself."""
    L, size = step.predicates, features.table.shape[1]
    attention = step.attention[:L], step.attention[L:]
    predicates = np.stack([features.of_action(g) for g in chosen.actions.tolist()])
    answers = np.stack([features.of_value(y) for y in chosen.values.tolist()])
    lam = lambdas(attention, predicates, answers)
    errors = error(step)[0, first_value : first_value + size]
    target = int(step.target[0]) - first_value
    active = active_set(features, chosen)
    return Refined(*attention, predicates, answers, lam, slope(lam), errors, active, target)


# --- gradients --------------------------------------------------------------------------------------------------------


def split(step: Refined, attention: float, read: np.ndarray) -> tuple[float, float]:
    """(N_i, N_ii) of one clause (50)-(61): Attn E_j sum_{y in A-hat_j} sReLU' (V - Lambda), true class and others."""
    per_class = step.error * (step.slope * (read - step.lam) * step.active).sum(axis=1)
    own = attention * per_class[step.target]
    return float(own), float(attention * per_class.sum() - own)


def clause_weights(step: Refined) -> np.ndarray:
    """What each clause writes into Q, predicates first (Lemmas D.8, D.9, E.8, E.9, F.5, F.6)."""
    attention = np.concatenate([step.predicate_attention, step.answer_attention])
    read = np.concatenate([step.predicate_features, step.answer_features])
    return np.array([sum(split(step, a, V)) for a, V in zip(attention, read, strict=True)])


def diagonals(step: Refined) -> tuple[tuple[float, float], tuple[float, float]]:
    """(N_i, N_ii) of the diagonal entries of Q43 and of Q44 (Lemmas E.11, F.8)."""
    own = step.own
    return (
        split(step, step.predicate_attention[own], step.predicate_features[own]),
        split(step, step.answer_attention[own], step.answer_features[own]),
    )


def answer_diagonal_printed(step: Refined) -> float:
    """N_i of Q44 as eq. (123) prints it: with V(g_2) where V(y_1) is meant."""
    return split(step, step.answer_attention[step.own], step.predicate_features[step.own])[0]


def diagonal_sum(step: Refined) -> tuple[float, float]:
    """(N_i, N_ii) of both diagonal entries together (Lemmas E.10, F.7), from the clauses that should not be read."""
    per_class = step.error * (step.slope * _wrongly_read(step, step.lam) * step.active).sum(axis=1)
    return float(per_class[step.target]), float(per_class.sum() - per_class[step.target])


def diagonal_sum_printed(step: Refined) -> float:
    """Lemma F.7 as printed: in the wrong classes the predicates are read by the true class's neurons."""
    others = np.arange(len(step.predicate_attention)) != step.own
    shown = step._replace(predicate_features=step.predicate_features.copy())
    shown.predicate_features[others] = step.predicate_features[others][:, [step.target]]
    per_class = step.error * (step.slope * _wrongly_read(shown, step.lam) * step.active).sum(axis=1)
    return diagonal_sum(step)[0] + float(per_class.sum() - per_class[step.target])


def _wrongly_read(step: Refined, lam: np.ndarray) -> np.ndarray:
    """(1 - Attn_pred - Attn_ans) Lambda less what the other clauses contribute to it."""
    others = np.arange(len(step.predicate_attention)) != step.own
    earlier = np.arange(len(step.answer_attention)) != step.own
    kept = step.predicate_attention[step.own] + step.answer_attention[step.own]
    rest = np.tensordot(step.predicate_attention[others], step.predicate_features[others], axes=1)
    rest = rest + np.tensordot(step.answer_attention[earlier], step.answer_features[earlier], axes=1)
    return (1 - kept) * lam - rest
