"""Why the interval of a fitted exponent misses the printed one: which lower-order factor bridges the gap, if any does.

A free exponent and the printed exponent with one factor more have as many parameters. So where the second fits much
better, the factor is what the straight line took for another exponent.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

Law = Mapping[str, Any]
CLEAR = 2.0  # so many times smaller must the residual be than that of the straight line


class Bridge(NamedTuple):
    """A factor beside the printed law, its parameter s if it has one, and the largest relative residual of the fit."""

    factor: str
    parameter: float | None
    residual: float
    fit: np.ndarray  # over the values


def misses(law: Law) -> bool:
    """Whether the interval leaves the printed exponent out; where it is a bound, on the side that it forbids."""
    if law["side"] == "at most":
        return law["low"] > law["printed"]
    if law["side"] == "at least":
        return law["high"] < law["printed"]
    return not law["low"] <= law["printed"] <= law["high"]


def straight(law: Law) -> float:
    """The largest relative residual of the line with the fitted exponent."""
    return _largest(np.log(law["values"]) - law["measured"] * _axis(law))


def bridges(law: Law) -> list[Bridge]:
    """The factors that were tried beside the printed law, the one that fits best first.

    >>> sizes = [4.0, 8.0, 16.0, 32.0]
    >>> curve = {"law": "power", "against": "d", "printed": 1.0, "sizes": sizes, "values": [x + 3 for x in sizes]}
    >>> best = bridges(curve)[0]
    >>> best.factor, round(best.parameter, 3), best.residual < 1e-9
    ('a factor $1 + s/x$', 3.0, True)
    """
    return sorted(_tried(law), key=lambda bridge: bridge.residual)


def chosen(law: Law) -> Bridge:
    """The factor that fits best; one without a parameter is taken where it does much better than the line."""
    found = bridges(law)
    plain = [bridge for bridge in found if bridge.parameter is None and bridge.residual * CLEAR <= straight(law)]
    return (plain or found)[0]


def reason(law: Law) -> str:
    """One sentence: the factor that bridges the gap, the rounding that does, or what was ruled out."""
    best = chosen(law)
    if best.residual * CLEAR <= straight(law):
        return f"The printed exponent fits with {best.factor}."
    if rounding(law) >= abs(law["measured"] - law["printed"]):
        return "Values are whole numbers: one more or less in each of them moves the exponent by more than the gap."
    if _whole(law) and _off(law, best) <= 1:
        return f"Values are whole numbers, and the printed law is within 1 of each with {best.factor}."
    names = ", ".join(bridge.factor for bridge in bridges(law))
    return f"No reason was found. Ruled out, since they fit hardly better than the line: {names}."


def rounding(law: Law) -> float:
    """By how much the exponent moves where every value is a whole number and changes by 1; otherwise 0.

    >>> round(rounding({"law": "exponential", "sizes": [1, 2, 3], "values": [10, 20, 40]}), 4)
    0.0625
    """
    values, spread = np.array(law["values"], float), _axis(law) - _axis(law).mean()
    if not _whole(law):
        return 0.0
    return float(np.sum(np.abs(spread) / values) / (spread @ spread))


def neighbours(law: Law) -> tuple[float, float]:
    """The exponent between the first two sizes, and between the last two: the statement is about the last ones.

    The last are the largest; where sizes are below 1, as a step or an error that shrinks, the smallest.
    """
    order = np.argsort(law["sizes"])
    slopes = np.diff(np.log(law["values"])[order]) / np.diff(_axis(law)[order])
    first, last = float(slopes[0]), float(slopes[-1])
    return (last, first) if max(law["sizes"]) < 1 else (first, last)


def _tried(law: Law) -> Iterator[Bridge]:
    x, values = np.array(law["sizes"], float), np.array(law["values"], float)
    left = np.log(values) - law["printed"] * _axis(law)  # what the printed law leaves, up to a constant
    yield _added("a factor $1 + s/x$", 1 / x, left)
    if law["law"] == "power":
        yield _added(r"a factor $1 + s/\sqrt{x}$", x**-0.5, left)
        yield _added("a factor $1 + s x$", x, left)
        if x.min() > 1.5:
            yield _power(r"a factor $(\ln x)^s$", np.log(np.log(x)), left)
        return
    yield _power("a factor $x^s$", np.log(x), left)
    yield _added("a constant that is added", np.exp(-law["printed"] * (x - x.mean())), left)
    if law["against"] == "d":
        functions = np.log([math.comb(int(d), int(d) // 2) for d in x]) - x * math.log(2)
        beside = left - law["printed"] / math.log(2) * functions
        name = r"$\binom{d}{d/2}$ in place of $2^d$"
        yield _power(name, np.zeros_like(x), beside)
        yield _added(f"{name}, and a constant that is added", np.exp(beside - np.log(values)), beside)


def _whole(law: Law) -> bool:
    return all(value == round(value) for value in law["values"])


def _off(law: Law, bridge: Bridge) -> float:
    """How far a fit is from the values at most."""
    return float(np.abs((bridge.fit - 1) * law["values"]).max())


def _axis(law: Law) -> np.ndarray:
    sizes = np.array(law["sizes"], float)
    return np.log(sizes) if law["law"] == "power" else sizes


def _power(name: str, term: np.ndarray, left: np.ndarray) -> Bridge:
    """left = constant + s term."""
    spread = term - term.mean()
    s = float(spread @ left / (spread @ spread)) if spread.any() else None
    rest = left - (s or 0.0) * spread
    return Bridge(name, s, _largest(rest), np.exp(rest.mean() - rest))


def _added(name: str, term: np.ndarray, left: np.ndarray) -> Bridge:
    """e^left = A (1 + s term), by least squares of the relative error."""
    rows = np.stack([np.ones_like(term), term], axis=1) * np.exp(left.mean() - left)[:, None]
    (A, slope), *_ = np.linalg.lstsq(rows, np.ones_like(left), rcond=None)
    fit = rows @ [A, slope]
    return Bridge(name, float(slope / A), float(np.abs(fit - 1).max()), fit)


def _largest(residual: np.ndarray) -> float:
    return float(np.abs(np.expm1(residual - residual.mean())).max())
