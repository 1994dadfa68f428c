"""The tensor power method (Lemmas B.12, B.13, Corollary B.1): x grows by eta x^{q-1}, and a small lead wins.

As eta -> 0 with elapsed time eta t, x solves x' = x^{q-1}, so x^{2-q} falls linearly: every statement has a closed form
in that limit, and the recursion differs from it by O(eta).
"""

import math

import numpy as np

MOST = 4_000_000  # steps of a sequence that should grow


def _checked(steps: int, value: float) -> None:
    if steps > MOST or not value > 0:
        raise ArithmeticError(f"x = {value:g} after {steps} steps does not grow to its goal")


def recursion(start: float, goal: float, rate: float, q: int, speed: float = 1.0) -> np.ndarray:
    """x_0, x_1, ... up to the first that reaches `goal`, with x <- x + rate speed x^{q-1}."""
    values = [start]
    while values[-1] < goal:
        _checked(len(values), values[-1])
        values.append(values[-1] + rate * speed * values[-1] ** (q - 1))
    return np.array(values)


def followed(start: float, steps: int, rate: float, q: int, speed: float = 1.0) -> float:
    """The value after that many steps."""
    value = start
    for _ in range(steps):
        value += rate * speed * value ** (q - 1)
    return value


def hitting_time(start: float, goal: float, q: int) -> float:
    """eta t at which x reaches the goal: (x_0^{2-q} - A^{2-q}) / (q - 2).

    >>> round(hitting_time(0.05, 1.0, 4), 6)
    199.5
    """
    return (start ** (2 - q) - goal ** (2 - q)) / (q - 2)


def lateness(rate: float, log_growth: float) -> float:
    """How much later than the flow x' = f(x), f convex and growing, steps of eta reach the goal, at most.

    A step from x to x' covers at least eta f(x)/f(x') >= eta - eta ln(f(x')/f(x)) of the flow's time, and the last one
    may pass the goal: eta (1 + ln(f(x_N)/f(x_0))) in all, with `log_growth` that logarithm. Steps are never earlier.
    """
    return rate * (1 + log_growth)


def hitting_bounds(start: float, goal: float, q: int, delta: float) -> tuple[float, float]:
    """Lemma B.13's two sides for eta -> 0: the time counted in intervals [x, (1 + delta) x]."""
    grown = (1 + delta) ** (q - 2)
    lower = delta / (1 + delta) / (grown - 1) * (1 - ((1 + delta) * start / goal) ** (q - 2))
    return lower / start ** (q - 2), grown / (q - 2) / start ** (q - 2)


def loser_growth(lead: float, start: float, goal: float, q: int, speed: float = 1.0, late: float = 0.0) -> float:
    """y(T)/y_0 when x = lead y_0 reaches the goal: [1 - S lead^{2-q} (1 - (x_0/A)^{q-2})]^{-1/(q-2)}; S = y's speed.

    Infinite where y escapes first, x_0 <= y_0 S^{1/(q-2)}. `late` is time that y has beyond x's: in steps y is behind
    its flow, so with `lateness` this bounds the recursion too.

    >>> round(loser_growth(1.2, 0.05, 1.0, 4), 4)
    1.804
    """
    left = 1 - speed * lead ** (2 - q) * (1 - (start / goal) ** (q - 2))
    left -= speed * (q - 2) * (start / lead) ** (q - 2) * late
    return left ** (-1 / (q - 2)) if left > 0 else math.inf


# --- with noise inside the power (Lemma B.12) -------------------------------------------------------------------------


def noisy_power(value: float, noise: float, power: int) -> float:
    """E (xi + x)^p for xi ~ N(0, noise^2), from the even moments.

    >>> noisy_power(2.0, 1.0, 3)
    14.0
    """
    terms = range(0, power + 1, 2)
    return sum(math.comb(power, k) * value ** (power - k) * noise**k * _even_moment(k) for k in terms)


def _even_moment(k: int) -> int:
    """E z^k = (k - 1)!! of a standard normal, k even."""
    return math.prod(range(1, k, 2))


def noise_speed(start: float, noise: float, power: int) -> float:
    """K with x^p <= E (xi + x)^p <= K x^p for all x >= start: noise speeds both up, the smaller one by at most this."""
    return noisy_power(start, noise, power) / start**power


def noisy_race(
    ahead: float, behind: float, goal: float, rate: float, noise: float, power: int
) -> tuple[np.ndarray, np.ndarray]:
    """Both sequences of Lemma B.12, until the first reaches the goal."""
    first, second = [ahead], [behind]
    while first[-1] < goal:
        _checked(len(first), first[-1])
        first.append(first[-1] + rate * noisy_power(first[-1], noise, power))
        second.append(second[-1] + rate * noisy_power(second[-1], noise, power))
    return np.array(first), np.array(second)
