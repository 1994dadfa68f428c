"""What the value token learns (Theorems B.1 and C.1): magnitudes, their ratio, the curriculum, and how to read both.

A neuron of class j that carries the pairs (g, y) with g(y) = j ends with V(g) = alpha on the fiber, -beta off it,
V(y) = beta at its value and -alpha elsewhere. Confounders cancel, alpha + beta = 2B', and the conserved sum
sum_g V(g) = sum_y V(y) leaves one ratio, alpha = C beta.
"""

import numpy as np

from stairwise.papers.lego.activation import Number
from stairwise.papers.lego.groups import Action
from stairwise.papers.lego.model import feature_ratio


def vocabulary(action: Action, variables: int) -> int:
    """d = |X| + |G| + |Y| + 1, the blank included."""
    return variables + action.actions + action.values + 1


def magnitudes(action: Action, height: Number) -> tuple[Number, Number]:
    """alpha and beta, 2 `height` in all: on its own pair a neuron then reads V(phi) = (alpha + beta)/2 = `height`."""
    C = feature_ratio(action.actions, action.values)
    return 2 * height * C / (1 + C), 2 * height / (1 + C)


def learned(action: Action, height: float, bias: float) -> tuple[np.ndarray, np.ndarray]:
    """V_{j,y}(g) as (j, y, g) and V_{j,y}(y') as (j, y, y') of the neurons that carry (j, y), once descent has ended.

    A confounder rests where its Lambda is 0, that is V(g) + V(y') = -2b.
    """
    alpha, beta = magnitudes(action, height)
    own = np.broadcast_to(np.eye(action.values, dtype=bool), (action.values,) * 3)
    return np.where(action.fibers, alpha, -beta - 2 * bias), np.where(own, beta, -alpha - 2 * bias)


def imbalance(action: Action, residual: Number, kept: Number | np.ndarray) -> Number | np.ndarray:
    """Lemmas B.7, C.7: |V(g) - C V(y)| at most, where confounders are within `residual` of cancelling.

    (((nY - 1) + (nG - F)) residual + |kept|) / (F + nY - 1), with F = nG/nY and the conserved sum `kept`.
    """
    values, fiber = action.values, action.actions / action.values
    return ((values - 1 + action.actions - fiber) * residual + abs(kept)) / (fiber + values - 1)


def magnitudes_printed(values: int, height: float) -> tuple[float, float]:
    """Equation (18): 2B and 2B/nY, the limit of large nY, whose sum is 2B (1 + 1/nY)."""
    return 2 * height, 2 * height / values
