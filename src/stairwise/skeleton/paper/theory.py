"""What is proven, as functions. With q = (0, s) the attention to the mark is p, and L is the population loss:

p(s)  = 1 / (1 + (T-1) exp(-s / sqrt 2)),
L(s)  = T (1-p)^2 / (2 (T-1)),
L'(s) = -T p (1-p)^2 / (sqrt 2 (T-1)).

The loss is even in the value entry of q, so gradient descent from zero stays on this line: `descent` is all of it.

To change: the closed forms, constructions and bounds of your paper, in plain NumPy where they need no autodiff. A
printed statement that is wrong stays here beside the corrected one.
"""

import math

import numpy as np


def attention_to_mark(length: int, score: float) -> float:
    """p(s).

    >>> attention_to_mark(4, 0.0)
    0.25
    """
    return 1 / (1 + (length - 1) * math.exp(-score / math.sqrt(2)))


def population_loss(length: int, score: float) -> float:
    """L(s)."""
    return length / (length - 1) * (1 - attention_to_mark(length, score)) ** 2 / 2


def population_gradient(length: int, score: float) -> float:
    """L'(s)."""
    p = attention_to_mark(length, score)
    return -length / (length - 1) * p * (1 - p) ** 2 / math.sqrt(2)


def descent(length: int, learning_rate: float, steps: int) -> np.ndarray:
    """The attention to the mark after 0, 1, ..., `steps` steps of gradient descent on L from s = 0."""
    score, seen = 0.0, []
    for _ in range(steps + 1):
        seen.append(attention_to_mark(length, score))
        score -= learning_rate * population_gradient(length, score)
    return np.array(seen)
