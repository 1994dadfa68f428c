"""Assumption 2 and Lemma 5 in log space: from which n on does each inequality hold?

Everything is a function of x = ln n, which goes far beyond any float for n itself. With L = ln(n/delta) the powers of n
are cancelled by hand; sums of logarithms would lose all digits from x of 1e15 on. `power` is the p of k = n / L^p.
Each condition is a function whose value is positive where it holds, on a logarithmic scale: ln(larger / smaller).
"""

import math
from collections.abc import Callable
from typing import NamedTuple

SAMPLES = 1.28e7  # C_2 = SAMPLES / eps^2
WIDTH_POWER = 1.1  # d = k L^1.1
BATCH_POWER = 20  # B = C_2 n L^20
LARGEST = 1e60  # the largest ln n that is tried
STEPS = 1000  # of the logarithmic grid of ln n


class Logarithms(NamedTuple):
    """Assumption 2 at ln n = x: L, and what is left of logarithms without their powers of n.

    log_k   ln(k / n)        log_B   ln(B / n)
    """

    x: float
    L: float
    power: float
    failure: float
    log_k: float
    log_B: float

    @property
    def lnL(self) -> float:
        return math.log(self.L)

    def log(self, factor: float, powers_of_n: int, *, k: int = 0, B: int = 0) -> float:
        """ln(factor k^k B^B n^... / delta) where n appears `powers_of_n` times in all."""
        return math.log(factor / self.failure) + powers_of_n * self.x + k * self.log_k + B * self.log_B


def sizes(x: float, power: float, failure: float, scale: float) -> Logarithms:
    L = x - math.log(failure)
    return Logarithms(
        x, L, power, failure, -power * math.log(L), math.log(SAMPLES / scale**2) + BATCH_POWER * math.log(L)
    )


class Condition(NamedTuple):
    """One inequality: what it says, and ln(larger side / smaller side)."""

    says: str
    gap: Callable[[Logarithms, float], float]


def _below(value: float, limit: float) -> float:
    return math.log(limit) - math.log(value)


# m = 2k, and d = k L^1.1, so k/d = L^-1.1; nk/(Bd) = (n/B) L^-1.1
CONDITIONS = {
    "k>=2": Condition("k >= 2", lambda s, eps: s.x + s.log_k - math.log(2)),
    "memory": Condition(
        "d^2 + dm < nk / ln n",
        lambda s, eps: -(s.log_k + WIDTH_POWER * s.lnL + math.log(s.L**WIDTH_POWER + 2) + math.log(s.x)),
    ),
    "B<nk": Condition("B < nk (5.1)", lambda s, eps: s.x + s.log_k - s.log_B),
    "d<n": Condition("d < n (5.1)", lambda s, eps: -(s.log_k + WIDTH_POWER * s.lnL)),
    "5.2": Condition(
        "sqrt(4k/d ln(100Bm/delta)) < 1/100 (5.2, as Lemma 10 needs it)",
        lambda s, eps: _below(math.sqrt(4 * s.L**-WIDTH_POWER * s.log(200, 2, k=1, B=1)), 0.01),
    ),
    "5.3a": Condition(
        "sqrt(k ln(300mnB/delta) / B) < 1/400 (5.3a, as Lemma 15 needs it)",
        lambda s, eps: _below(s.log(600, 3, k=1, B=1), 1 / 160_000) + s.log_B - s.log_k,
    ),
    "5.3b": Condition(
        "sqrt(2k ln(400mn/delta) / d) < 1/100 (5.3b, as Lemma 15 needs it)",
        lambda s, eps: _below(math.sqrt(2 * s.L**-WIDTH_POWER * s.log(800, 2, k=1)), 0.01),
    ),
    "5.3c": Condition(
        "sqrt(2nk / (Bd)) ln(300mnB/delta) < 1/400 (5.3c, as Lemma 15 needs it)",
        lambda s, eps: _below(s.log(600, 3, k=1, B=1), 1 / 400) + 0.5 * (s.log_B + WIDTH_POWER * s.lnL - math.log(2)),
    ),
    "5.4a": Condition(
        "eta0 <= 3 m eps sqrt(B) / (80 sqrt ln(300nB/delta)) (5.4)",
        lambda s, eps: math.log(3 / 80) - 0.5 * math.log(s.log(300, 2, B=1)) + math.log(100 * s.L),
    ),
    "5.4": Condition(
        "eta0 <= m n eps / 120 (5.4)",
        lambda s, eps: 0.5 * s.x - math.log(120) - 0.5 * s.log_B + math.log(100 * s.L),
    ),
    "5.5": Condition(
        "ln^2(300mnB/delta) n sqrt(nk) / (d sqrt(Bd)) < 1/320000 (5.5, as Lemma 21 needs it)",
        lambda s, eps: (
            _below(s.log(600, 3, k=1, B=1) ** 2, 1 / 320_000) + s.log_k + 1.5 * WIDTH_POWER * s.lnL + 0.5 * s.log_B
        ),
    ),
    "5.6": Condition(
        "eta0 eta1 / (256 m n^2) > 40 ln n (5.6)",
        lambda s, eps: s.log_k + math.log(2 * eps**2) + s.log_B - math.log(256e4) - 2 * s.lnL - math.log(40 * s.x),
    ),
    "5.7": Condition(
        "eta2 < eta0 (5.7: the ratio vanishes)",
        lambda s, eps: 0.5 * (s.x + s.log_B) - math.log(200 / 3 * s.L),
    ),
    "5.8": Condition(
        "eta0 + eta1 < 5 n eta2 (5.8)",
        lambda s, eps: 0.5 * s.x - 0.5 * s.log_B + math.log(500 / 3 * s.L),
    ),
    "5.8 for Lemma 25": Condition(
        "eta0 + eta1 < (n+1) eta2 / 50 (what Lemma 25 needs)",
        lambda s, eps: 0.5 * s.x - 0.5 * s.log_B + math.log(2 / 3 * s.L) + math.log1p(math.exp(-s.x)),
    ),
}


def gap(name: str, x: float, power: float, failure: float, scale: float) -> float:
    """ln(larger / smaller) of a condition at ln n = x; positive where it holds.

    -inf where its own logarithm, as ln(100Bm/delta), is not positive: k or B is far below 1 there, and means nothing.
    """
    try:
        return CONDITIONS[name].gap(sizes(x, power, failure, scale), scale)
    except ValueError:  # a logarithm or a root of a negative number
        return -math.inf


def holds_from(name: str, power: float, failure: float, scale: float) -> float:
    """The smallest ln n from which the condition holds for all larger n (up to a huge one); inf where it does not.

    >>> holds_from("5.6", 5, 0.1, 1.0) == math.log(2)  # for any n >= 2
    True
    """
    low, high = math.log(2), LARGEST
    grid = [low * (high / low) ** (step / STEPS) for step in range(STEPS + 1)]
    wrong = [x for x in grid if not gap(name, x, power, failure, scale) > 0]
    if not wrong:
        return low
    if wrong[-1] == grid[-1]:
        return math.inf
    below, above = wrong[-1], grid[grid.index(wrong[-1]) + 1]
    for _ in range(80):
        middle = math.sqrt(below * above)
        below, above = (middle, above) if not gap(name, middle, power, failure, scale) > 0 else (below, middle)
    return above


def as_text(x: float) -> str:
    """n from its logarithm.

    >>> as_text(math.log(2)), as_text(100.0), as_text(1.07e49), as_text(math.inf)
    ('any', '10^43.4', 'exp(1.07e+49)', 'never')
    """
    if math.isinf(x):
        return "never"
    if x <= math.log(2):
        return "any"
    return f"10^{x / math.log(10):.1f}" if x < 1e4 else f"exp({x:.3g})"


# --- exponents of L ---------------------------------------------------------------------------------------------------


def exponent_of_5_5(power: float) -> float:
    """n sqrt(nk) / (d sqrt(Bd)) is of the order L^this: (p - 1.1) - (20 + 1.1) / 2."""
    return (power - WIDTH_POWER) - (BATCH_POWER + WIDTH_POWER) / 2


EXPONENT_OF_5_5_PRINTED = -5.65  # at k = n / L^5


# --- the literal algorithm at a size ----------------------------------------------------------------------------------


class Literal(NamedTuple):
    """Assumption 2 at one n: what would have to be run."""

    size: float
    width: float
    neurons: float
    batch: float
    rate: float
    last_rate: float


def literal(inputs: float, power: float, failure: float, scale: float) -> Literal:
    """k = n / L^p, d, m, B, eta0 = eta1, eta2."""
    L = math.log(inputs / failure)
    k = inputs / L**power
    m, B = 2 * k, SAMPLES / scale**2 * inputs * L**BATCH_POWER
    return Literal(k, k * L**WIDTH_POWER, m, B, m * scale * math.sqrt(B) / (100 * L), 4 * k * scale / 3)
