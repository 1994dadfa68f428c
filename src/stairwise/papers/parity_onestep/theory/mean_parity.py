"""The mean of all parities at an input, E_p p(x): Lemma 8, in exact integers.

It depends only on m, the number of -1 in x, and is K(m)/C(d, k) with the Krawtchouk polynomial K.
"""

from fractions import Fraction
from math import comb, exp, floor, log
from typing import NamedTuple

from stairwise.tasks.parity import krawtchouk


def even_count(bits: int, size: int, minus: int) -> int:
    """|P_+|, the subsets that hold an even number of the m bits that are -1, by definition."""
    return sum(comb(minus, 2 * j) * comb(bits - minus, size - 2 * j) for j in range(min(minus, size) // 2 + 1))


def even_count_printed(bits: int, size: int, minus: int) -> Fraction:
    """|P_+| as the proof rewrites it: C(d,k)/2 + (s^k/2) sum_j (-1)^j C(m', j) C(d-2m', k-2j).

    m' = min(m, d-m), and s = 1 where m' = m, otherwise -1.
    """
    fewer, sign = (minus, 1) if 2 * minus <= bits else (bits - minus, -1)
    terms = ((-1) ** j * comb(fewer, j) * comb(bits - 2 * fewer, size - 2 * j) for j in range(size // 2 + 1))
    return Fraction(comb(bits, size) + sign**size * sum(terms), 2)


def mean(bits: int, size: int, minus: int) -> Fraction:
    """E_p p(x) at an x with `minus` entries -1."""
    return Fraction(krawtchouk(bits, size, minus), comb(bits, size))


def second_moment(bits: int, size: int) -> Fraction:
    """E_x (E_p p(x))^2, which is 1/|P| since parities are orthonormal.

    >>> second_moment(6, 3)
    Fraction(1, 20)
    """
    return sum((Fraction(comb(bits, m), 2**bits) * mean(bits, size, m) ** 2 for m in range(bits + 1)), Fraction(0))


def mean_magnitude(bits: int, size: int) -> Fraction:
    """E_x |E_p p(x)|: the largest correlation that one predictor can have with every parity at once.

    sign(E_p p(x)) attains it, with all p alike, because it depends on m only; it is at most |P|^(-1/2).

    >>> mean_magnitude(4, 4)
    Fraction(1, 1)
    """
    total = sum(comb(bits, m) * abs(krawtchouk(bits, size, m)) for m in range(bits + 1))
    return Fraction(total, 2**bits * comb(bits, size))


def event_width(bits: int, size: int) -> Fraction:
    """delta = min(1/4, k/(2d)), as the proof chooses it for k <= d/2."""
    return min(Fraction(1, 4), Fraction(size, 2 * bits))


def event(bits: int, size: int) -> list[int]:
    """The m with |m - d/2| <= delta d/2."""
    delta = event_width(bits, size)
    return [m for m in range(bits + 1) if abs(2 * m - bits) <= delta * bits]


class Tail(NamedTuple):
    """The event of the proof: its chance, the bound on that, and the largest |E_p p| there."""

    delta: float
    chance: float
    chance_bound: float
    largest: float


def on_the_event(bits: int, size: int) -> Tail:
    """For k <= d/2; the chance is exact, the bound on it Chernoff's."""
    delta, inside = event_width(bits, size), event(bits, size)
    chance = Fraction(sum(comb(bits, m) for m in inside), 2**bits)
    largest = max((abs(mean(bits, size, m)) for m in inside), default=Fraction(0))
    return Tail(float(delta), float(chance), 1 - 2 * exp(-(float(delta) ** 2) * bits / 6), float(largest))


class Chain(NamedTuple):
    """The successive bounds of the proof on ||P_+|/|P| - 1/2| over the event, from tight to loose."""

    exact: float
    absolute_terms: float
    binomials: float
    vandermonde: float
    quarters: float
    power: float


def chain_of_bounds(bits: int, size: int, terms: int | None = None) -> Chain:
    """Each line of the proof at k <= d/2; `terms` = floor(k/2) is printed where the sum has floor(k/2)+1 of them."""
    total, delta = comb(bits, size), event_width(bits, size)
    window = floor(delta * bits)
    fewer = [min(m, bits - m) for m in event(bits, size)]
    absolute = max(
        (sum(comb(m, j) * comb(bits - 2 * m, size - 2 * j) for j in range(size // 2 + 1)) for m in fewer), default=0
    )
    terms = size // 2 + 1 if terms is None else terms
    binomials = Fraction(terms * comb(bits // 2, size // 2) * comb(window, window // 2), 2 * total)
    rest = comb(max(bits - bits // 2 - window, 0), max(size - size // 2 - floor(delta * bits / 2), 0))
    quarters = comb(bits // 4, size // 4)
    return Chain(
        on_the_event(bits, size).largest / 2,
        float(Fraction(absolute, 2 * total)),
        float(binomials),
        bits / 4 / rest if rest else float("inf"),
        bits / 4 / quarters,
        power_bound(bits, size),
    )


def power_bound(bits: int, size: int) -> float:
    """(d/4)(d/k)^(-k/4), the last line with a power (it is printed like a binomial); |E_p p| is at most twice it."""
    return bits / 4 * exp(-size / 4 * log(bits / size))
