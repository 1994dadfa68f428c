"""What the value token learns (Theorems B.1 and C.1): magnitudes, their ratio, the curriculum, and how to read both.

A neuron of class j that carries the pairs (g, y) with g(y) = j ends with V(g) = alpha on the fiber, -beta off it,
V(y) = beta at its value and -alpha elsewhere. Confounders cancel, alpha + beta = 2B', and the conserved sum
sum_g V(g) = sum_y V(y) leaves one ratio, alpha = C beta.
"""

from typing import Any

import numpy as np

from stairwise.papers.lego.activation import Number
from stairwise.papers.lego.groups import Action
from stairwise.papers.lego.model import feature_ratio


def vocabulary(action: Action, variables: int) -> int:
    """d = |X| + |G| + |Y| + 1, the blank included."""
    return variables + action.actions + action.values + 1


def magnitudes(action: Action, height: Any) -> tuple[Any, Any]:
    """alpha and beta, 2 `height` in all: on its own pair a neuron then reads V(phi) = (alpha + beta)/2 = `height`."""
    C = feature_ratio(action.actions, action.values)
    return 2 * height * C / (1 + C), 2 * height / (1 + C)


def learned(action: Action, height: float | np.ndarray, bias: float) -> tuple[np.ndarray, np.ndarray]:
    """V_{j,y}(g) as (j, y, g) and V_{j,y}(y') as (j, y, y') of the neurons that carry (j, y), once descent has ended.

    A confounder rests where its Lambda is 0, that is V(g) + V(y') = -2b. Heights may differ: (j, y, 1).
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


def lift(action: Action, push: np.ndarray, off: np.ndarray, on: np.ndarray) -> np.ndarray:
    """How far V_psi moves while pairs that share nothing with (j, y) stand still, whatever the order of the steps.

    `push` is the sum of eta Gamma+; `off` sums the changes of V(g') + V(y) over the g' off the fiber, `on` those of
    V(g) + V(y') over g on it and y' != y. Every pair moves V(g) and V(y) alike, so V(y) has moved by
    (push/2 + off)/(1 + nG - F) and the V(g) on the fiber, together, by (F push/2 + on)/(F + nY - 1).
    """
    values, fiber = action.values, action.actions / action.values
    of_value = (push / 2 + off) / (1 + action.actions - fiber)
    of_action = (fiber * push / 2 + on) / (fiber + values - 1) / fiber
    return (of_value + of_action) / 2


def magnitudes_printed(values: int, height: float) -> tuple[float, float]:
    """Equation (18): 2B and 2B/nY, the limit of large nY, whose sum is 2B (1 + 1/nY)."""
    return 2 * height, 2 * height / values
