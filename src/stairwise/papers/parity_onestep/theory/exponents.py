"""The powers of d in Theorem 2(2) and what they mean for Theorems 5 and 7, in exact fractions.

With n = d^nu samples, ||grad f|| = d^nu1, an oracle of accuracy d^-nu2 and T = d^nu3 queries, the loss is at least
1 - O(d^-nu4) where nu = 4 nu1 + 4 nu2 + 2 nu3 + 2 nu4 + 1.
"""

import math
from fractions import Fraction


def samples_needed(gradient: Fraction, accuracy: Fraction, queries: Fraction, loss: Fraction) -> Fraction:
    """nu as Theorem 2 states it."""
    return 4 * gradient + 4 * accuracy + 2 * queries + 2 * loss + 1


def gradient_power_teacher_forcing() -> Fraction:
    """Lemma 4: ||grad f|| = O(d^1/2)."""
    return Fraction(1, 2)


def gradient_power_end_to_end(slope: float) -> float:
    """Lemma 6: ||grad f|| = O(d^g), g = log2 K + 1/2, which tends to 3/2 as K = sup |phi'| tends to 2.

    >>> gradient_power_end_to_end(4.0)
    2.5
    """
    return math.log2(slope) + 0.5


def separation(epsilon: Fraction, gradient: Fraction, oracle: Fraction | None = None) -> Fraction:
    """The nu at which d^(eps/4) queries (and loss below 1/2) still fail, for an oracle of accuracy d^(-2-eps/8).

    >>> separation(Fraction(1), gradient_power_teacher_forcing()), separation(Fraction(1), Fraction(3, 2))
    (Fraction(12, 1), Fraction(16, 1))
    """
    accuracy = 2 + epsilon / 8 if oracle is None else oracle
    return samples_needed(gradient, accuracy, epsilon / 4, Fraction(0))
