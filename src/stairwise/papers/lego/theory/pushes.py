"""What each context pushes the four scores to, split as (50) to (61), Lemma E.11 and Lemma F.8 split it.

N_i is what the answer's class gives, N_ii what the wrong values give. With V_k the features of clauses of kind k,

    -dLoss/ds_k = Attn_k sum_j E_j sum_r sReLU'(Lambda_jr) (V_k,jr - Lambda_jr),    E_j = 1{j is the answer} - logit_j.
"""

from typing import NamedTuple

import numpy as np


class Clauses(NamedTuple):
    """What the four kinds of clauses fit: predicates (contexts, classes, values), answers (contexts, values)."""

    near: np.ndarray
    far: np.ndarray
    own: np.ndarray
    past: np.ndarray


def features(clauses: Clauses, alpha: float, beta: float) -> np.ndarray:
    """V of each kind of clause, (4, contexts, classes, values); fits may be fractions, means over several clauses."""
    predicates = [(alpha + beta) * fits - beta for fits in (clauses.near, clauses.far)]
    answers = [(alpha + beta) * fits[:, None] - alpha + 0 * clauses.near for fits in (clauses.own, clauses.past)]
    return np.stack(predicates + answers)


def split(
    lam: np.ndarray, slope: np.ndarray, error: np.ndarray, V: np.ndarray, masses: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(N_i, N_ii), each (times, contexts, 4): lam and slope (times, contexts, classes, values), masses (times, 4)."""
    gains = np.einsum("tnj,tnjy,ktnjy->tnkj", error, slope, V[:, None] - lam)
    gains = gains * masses[:, None, :, None]
    right = np.take_along_axis(gains, target[None, :, None, None], axis=3)[..., 0]
    return right, gains.sum(axis=3) - right
