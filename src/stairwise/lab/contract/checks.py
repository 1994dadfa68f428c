"""What a check yields: named measurements, from which the kernel makes the verdict (see `lab.contract.claims`).

def descent_is_faster_than_the_bound(config, seed):
    yield at_most("time / bound", time, bound)
    yield row(epsilon=epsilon, time=time)
"""

import dataclasses
import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from stairwise.lab.contract.verdict import ratio

TOLERANCE = 1e-12  # an identity, in float64
TINIEST = float(np.finfo(np.float64).tiny)
PRIMES = (2.0, 3.0, 5.0, 7.0, 11.0, 13.0)  # of which no product of powers is another


# --- measurements -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Comparison:
    """A named quantity against what is required of it. `met` is None where one of them is not a number."""

    name: str
    measured: float
    direction: str  # <=, >=, = (a fact) or ~ (an exponent)
    required: float
    met: bool | None
    margin: float | None = None
    note: str = ""

    @property
    def line(self) -> dict[str, Any]:
        found = {"quantity": self.name, "measured": self.measured, "is": self.direction}
        return found | {"required": self.required, "margin": self.margin}


@dataclass(frozen=True)
class Exponent(Comparison):
    """A fitted exponent with its curve. One that says `against` which size it was fitted is a law (`lab.ledger.laws`).

    `low` and `high` are the ends of its interval, which may miss what is expected by `within`; `bound` are the values
    that the statement allows at the same sizes.
    """

    low: float = math.nan
    high: float = math.nan
    side: str = "equal"
    law: str = "power"
    against: str = ""
    sizes: tuple[float, ...] = ()
    values: tuple[float, ...] = ()
    bound: tuple[float, ...] = ()
    within: float = math.nan


@dataclass(frozen=True)
class Quantity:
    """A named quantity without a pass line."""

    name: str
    value: float


@dataclass(frozen=True)
class Table:
    """A row of the table of details."""

    values: Mapping[str, Any]


@dataclass(frozen=True)
class Remark:
    """A sentence for the reader of the verdict."""

    text: str


@dataclass(frozen=True)
class Hypothesis:
    """A hypothesis of the statement that depends on what was drawn."""

    name: str
    met: bool


@dataclass(frozen=True)
class Emptiness:
    """Why what was measured could not have failed (`status` vacuous), or could not be measured (skipped)."""

    why: str
    applies: bool
    status: str = "vacuous"


def at_most(name: str, measured: Any, bound: Any, *, rounding: float = 0.0) -> Comparison:
    """measured <= bound, in every entry where they are arrays: the entry with the least room is kept.

    `rounding` is a relative allowance for float64, where a bound is attained.

    >>> at_most("loss", [0.1, 0.3], 0.6).margin
    2.0
    """
    values, bounds = _pairs(name, measured, bound)
    worst = _tightest(values, bounds)
    found, limit = float(values[worst]), float(bounds[worst])
    lost = math.isnan(found) or math.isnan(limit) or (math.isinf(found) and found == limit)
    met = None if lost else found <= limit + (rounding * abs(limit) if rounding else 0.0)
    margin = None if limit == 0 else ratio(found, limit) if found < 0 and limit < 0 else ratio(limit, found)
    return Comparison(name, found, "<=", limit, met, margin)


def at_least(name: str, measured: Any, bound: Any, *, rounding: float = 0.0) -> Comparison:
    """measured >= bound, in every entry where they are arrays.

    >>> at_least("loss", [0.1, 0.3], 0.2).met
    False
    """
    values, bounds = _pairs(name, measured, bound)
    found = at_most(name, -values, -bounds, rounding=rounding)
    return dataclasses.replace(found, measured=-found.measured, required=-found.required, direction=">=")


def equal(
    name: str, computed: Any, formula: Any, tolerance: float = TOLERANCE, *, scale: float | None = None
) -> Comparison:
    """Two sides of an identity that share no formula: the largest error, relative to the largest entry of the formula.

    The verdict shows that error, as "NAME: error". `scale` is the least that errors are taken relative to: a small sum
    keeps the rounding of its large terms.

    >>> equal("half", 0.5 + 1e-14, 0.5).met, equal("half", 0.5, [0.5, 0.6]).met
    (True, False)
    """
    shapes = np.shape(computed), np.shape(formula)
    if () not in shapes and shapes[0] != shapes[1]:
        raise ValueError(f"{name}: {shapes[0]} and {shapes[1]} are the shapes of two sides that should be equal")
    return at_most(f"{name}: error", relative_error(computed, formula, scale or 0.0), tolerance)


def monomial(name: str, formula: Callable[..., Any], constant: float, **powers: float) -> Comparison:
    """Whether a bound is the printed one, a constant times powers of its arguments, by its value at one point.

    >>> monomial("area", lambda width, height: width * height / 2, 0.5, width=1, height=1).met
    True
    """
    kinds = {each.name: each.annotation for each in inspect.signature(formula).parameters.values()}
    point = {name: int(p) if kinds.get(name) is int else p for name, p in zip(powers, PRIMES, strict=False)}
    printed = constant * math.prod(value ** powers[argument] for argument, value in point.items())
    return equal(f"{name}, as printed", formula(**point), printed)


def true(name: str, fact: Any) -> Comparison:
    """A fact, or an array of them that must all be true.

    >>> true("all are odd", [1 % 2 == 1, 3 % 2 == 1]).met
    True
    """
    facts = np.asarray(fact)
    if facts.dtype != bool or not facts.size:
        raise TypeError(f"{name}: a fact must be True or False, not {facts.dtype} of shape {facts.shape}")
    return Comparison(name, float(facts.mean()), "=", 1.0, bool(facts.all()))


def slope(
    name: str,
    sizes: Any,
    values: Any,
    expected: float,
    *,
    within: float = 0.1,
    side: str = "equal",
    law: str = "power",
    confidence: float = 0.95,
    against: str = "",
    bound: Any = None,
) -> Exponent:
    """The exponent b of values ~ sizes^b (or, with `law="exponential"`, of e^{b sizes}) with its interval.

    The interval of the least-squares line through ln(values) must lie within `within` of what is expected; with `side`
    "at most" or "at least" only its upper or lower end must. `values` may have several measurements per size, one row
    per size. What leaves too wide an interval has not been shown, and is not met.

    `against` names the size of a theorem's rate: the curve is then shown on the page of laws. `bound` are the values
    that the theorem allows at the same sizes, constants included; the page says how far below them the values are.

    >>> found = slope("steps", [8, 16, 32, 64], [64, 256, 1024, 4096], 2.0)
    >>> found.met, round(found.measured, 2)
    (True, 2.0)
    """
    from scipy.special import stdtrit

    if side not in ("equal", "at most", "at least") or law not in ("power", "exponential"):
        raise ValueError(f"{name}: side={side} must be equal, at most or at least; law={law} power or exponential")
    x, y = np.asarray(sizes, dtype=np.float64), np.asarray(values, dtype=np.float64)
    curve = x, y.reshape(len(y), -1).mean(axis=1), np.asarray([] if bound is None else bound, dtype=np.float64)
    if len(x) < 3 or len(set(x)) < 3 or len(x) != len(y):
        raise ValueError(f"{name}: an exponent needs values at three sizes or more, not {len(set(x))}")
    with np.errstate(invalid="ignore", divide="ignore"):
        x, y = (np.log(x) if law == "power" else x), np.log(y.reshape(len(x), -1))
    x, y = np.repeat(x, y.shape[1]), y.reshape(-1)
    spread = x - x.mean()
    exponent = float(spread @ y / (spread @ spread))
    residual = y - y.mean() - exponent * spread
    error = math.sqrt(float(residual @ residual) / (len(x) - 2) / float(spread @ spread))
    half = float(stdtrit(len(x) - 2, (1 + confidence) / 2)) * error
    away = {"equal": abs(exponent - expected), "at most": exponent - expected, "at least": expected - exponent}[side]
    met = None if not math.isfinite(exponent) else away + half <= within
    note = f"{name}: {exponent:.3g}, {confidence:.0%} interval {exponent - half:.3g} to {exponent + half:.3g}"
    return Exponent(
        name,
        exponent,
        "~",
        expected,
        met,
        ratio(within, max(away + half, 0.0)),
        note,
        exponent - half,
        exponent + half,
        side,
        law,
        against,
        *(tuple(each.tolist()) for each in curve),
        within=within,
    )


def measured(name: str, value: Any) -> Quantity:
    """A named quantity without a pass line."""
    return Quantity(name, float(value))


def row(values: Mapping[str, Any] | None = None, /, **more: Any) -> Table:
    """A row of details; names with spaces are given as a mapping."""
    return Table({**(values or {}), **more})


def note(text: str) -> Remark:
    """A sentence for the reader of the verdict."""
    return Remark(text)


def hypothesis(name: str, met: Any) -> Hypothesis:
    """A hypothesis that depends on what the check draws; one of the sizes belongs to the claim's `hypotheses`."""
    return Hypothesis(name, bool(met))


def vacuous_if(condition: Any, why: str) -> Emptiness:
    """Where the condition is true, the bounds of the check are trivially true."""
    return Emptiness(why, bool(condition))


def skip_if(condition: Any, why: str) -> Emptiness:
    """Where the condition is true, what the check needs is not there."""
    return Emptiness(why, bool(condition), "skipped")


def relative_error(a: Any, b: Any, least: float = 0.0) -> float:
    """max|a-b| / max|b|, relative to `least` at least; max|a-b| where b is zero."""
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    difference, scale = np.max(np.abs(a - b), initial=0.0), max(np.max(np.abs(b), initial=0.0), least)
    return float(difference / scale) if scale > 0 else float(difference)


def _pairs(name: str, measured: Any, bound: Any) -> tuple[np.ndarray, np.ndarray]:
    values, bounds = np.broadcast_arrays(np.asarray(measured, np.float64), np.asarray(bound, np.float64))
    if not values.size:
        raise ValueError(f"{name}: nothing was measured")
    return values.reshape(-1), bounds.reshape(-1)


def _tightest(values: np.ndarray, bounds: np.ndarray) -> int:
    """Where values come closest to their bounds, or exceed them most; first of all where one is not a number."""
    with np.errstate(invalid="ignore", over="ignore"):
        excess = (values - bounds) / np.maximum(np.abs(bounds), TINIEST)
    excess[np.isinf(bounds) & np.isfinite(values)] = -np.inf
    return int(np.argmax(np.where(np.isnan(excess), np.inf, excess)))
