"""How long a chain concentrated attention carries, and how much concentration a stage leaves: closed forms.

On the ideal network the right neuron reads, in the mean over the other clauses, B' (1 - 2 eps + 2 eps/nY) when the
attention that misses falls half on predicates and half on answers: positive until eps* = nY/(2 (nY - 1)).
"""

import math
from collections.abc import Sequence

import numpy as np

Scores = Sequence[float] | np.ndarray  # a, b, c, e
Count = float | np.ndarray


def masses(scores: Scores, length: Count, step: Count) -> np.ndarray:
    """Attention to the right predicate, to all others, to the own answer, to all earlier ones; scores (..., 4).

    >>> masses([0.0, 0.0, 0.0, 0.0], 2, 1).round(3).tolist()
    [0.333, 0.333, 0.333, 0.0]
    """
    scores = np.asarray(scores, dtype=np.float64)
    crowd = np.stack(np.broadcast_arrays(1, np.asarray(length) - 1, 1, np.asarray(step) - 1), axis=-1)
    weights = crowd * np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def concentration(scores: Scores, length: Count, step: Count) -> np.ndarray:
    """eps(L, l), eq. (19): what misses the two clauses."""
    return np.asarray(masses(scores, length, step)[..., [1, 3]].sum(axis=-1))


def gap(scores: Scores, length: Count, step: Count) -> np.ndarray:
    """The signed gap: attention to the right predicate less that to the own answer; eq. (20) is its size."""
    found = masses(scores, length, step)
    return np.asarray(found[..., 0] - found[..., 2])


def doubled_error(scores: Scores, length: int) -> np.ndarray:
    """Remark F.1: eps(2L, 2) is at most so many times eps(L, 2), 2 + (x-1)/((L-1)x+1) with x = e^{b-e}; 2 where b = e.

    >>> doubled_error(np.array([[1.0, 0.0, 1.0, 0.0]]), 4).tolist()
    [2.0]
    """
    x = np.exp(np.asarray(scores)[..., 1] - np.asarray(scores)[..., 3])
    return 2 + (x - 1) / ((length - 1) * x + 1)


def every_step(scores: Scores, length: int) -> np.ndarray:
    """eps(L, l) for l = 1..L: eq. (12) is about all of them."""
    return concentration(scores, length, np.arange(1, length + 1))


def critical_concentration(values: int) -> float:
    """eps* = nY / (2 (nY - 1)) for misses that fall half on predicates and half on answers.

    >>> critical_concentration(5)
    0.625
    """
    return values / (2 * (values - 1))


def critical_length(scores: Scores, values: int) -> float:
    """L* = 1 + nY/(nY - 2) (e^a + e^c)/(e^b + e^e), where eps(L, L) = eps*; two values never fail.

    >>> critical_length([1.0, 0.0, 1.0, 0.0], 2)
    inf
    """
    if values <= 2:
        return math.inf
    a, b, c, e = (float(score) for score in scores)
    return 1 + values / (values - 2) * math.exp(np.logaddexp(a, c) - np.logaddexp(b, e))


def answer_push(vocabulary: Count, clip_factor: Count, rho: float, q: int) -> Count:
    """Stage 2.1: the push of the first step's loss on Q44 over that on Q43 at Q = 0, to leading order.

    It is 2/3 of 1 - p - p', what the softmax leaves beside the right value and g_2(y_0). Their logits are those of
    Lambda = (B + rho (1 - 1/q))/3 in the linear part, B/3 - 2 rho (1 - 1/q)/3, so that d e^{-F}/2 is left.
    """
    return vocabulary ** (1 - clip_factor / 3) * math.exp(2 * rho * (1 - 1 / q) / 3) / 3


# --- the window of Lemmas E.24, E.35, F.9 and F.16 --------------------------------------------------------------------


def window_constant(clip_factor):
    """c1 = 1.005 log d / B = 1.005 / C_B."""
    return 1.005 / clip_factor


def window_log_loss(clip_factor, clip):
    """log of the loss that ends the stage, (-1/2 + 3.01 c1) 2B: negative only for C_B > 6.05."""
    return (-0.5 + 3.01 * window_constant(clip_factor)) * 2 * clip


def window(clip_factor):
    """Lemma E.24: eps >= 4 c1/3 until the stage ends. Lemma E.35: eps <= 2.52 c1 when it does."""
    c1 = window_constant(clip_factor)
    return 4 * c1 / 3, 2.52 * c1


def stage_window(clip_factor):
    """The same for the stages that label themselves: Lemma F.9's 4 c1/3 and Lemma F.16's 5.04 c1."""
    c1 = window_constant(clip_factor)
    return 4 * c1 / 3, 5.04 * c1


def clip_factor_for(concentration: float) -> float:
    """The C_B from which on Theorem F.1's 20.16 c1 is at most this.

    >>> round(clip_factor_for(0.01))
    2026
    """
    return 20.16 * 1.005 / concentration
