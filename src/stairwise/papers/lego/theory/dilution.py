"""How attention thins out with length when Q43 = a I + b (J - I) and Q44 = c I + e (J - I) (Section 6.2.1)."""

import math
from typing import NamedTuple


class Attention(NamedTuple):
    """What answer l-1 pays to: predicate l, each other predicate, itself, each earlier answer."""

    predicate: float
    other_predicate: float
    own: float
    other_answer: float

    @property
    def gap(self) -> float:
        """Attn to the predicate less Attn to itself, signed; eq. (20) is its absolute value."""
        return self.predicate - self.own


def attention(a: float, b: float, c: float, e: float, length: int, step: int) -> Attention:
    """The four kinds of clause at step l of a chain of length L."""
    top = max(a, b, c, e)
    kinds = [math.exp(score - top) for score in (a, b, c, e)]
    total = kinds[0] + (length - 1) * kinds[1] + kinds[2] + (step - 1) * kinds[3]
    return Attention(*(kind / total for kind in kinds))


def concentration(a: float, b: float, c: float, e: float, length: int, step: int) -> float:
    """eps(L, l) (19) = [(L-1)e^b + (l-1)e^e] / [e^a + e^c + (L-1)e^b + (l-1)e^e]."""
    found = attention(a, b, c, e, length, step)
    return (length - 1) * found.other_predicate + (step - 1) * found.other_answer


def diluted(at_two: float, length: int, constant: float = 2.0) -> float:
    """Section 6.2.1: eps(L) <= C L / (C L + 1/eps(2, 2)); C = 2 is enough wherever eps(2, 2) <= 1/2."""
    return constant * length / (constant * length + 1 / at_two)


def rotten_length(a: float, b: float, c: float, e: float, values: int, step: float) -> float:
    """The number L of predicates at which step l is no longer read: Section 8's context rot, in the mean over chains.

    Each of the L - 1 other predicates and l - 1 earlier answers agrees with the right neuron by chance, 1/n_Y, so that
    it reads e^a + e^c - (1 - 2/n_Y) ((L-1) e^b + (l-1) e^e), up to a positive factor. Two values never fail.

    >>> round(rotten_length(math.log(3), 0.0, math.log(3), 0.0, 6, 1), 9)
    10.0
    """
    if values <= 2:
        return math.inf
    read = values / (values - 2) * (math.exp(a) + math.exp(c)) - (step - 1) * math.exp(e)
    return 1 + read / math.exp(b)
