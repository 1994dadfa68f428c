"""The space of a claim: which fields vary, and between which values."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from stairwise.config import ConfigError, Field, as_text, leaves
from stairwise.lab.contract.claims import ABOUT_PRINT, Claim

FORMS = ("exact", "bound", "rate", *ABOUT_PRINT)


@dataclass(frozen=True)
class SearchAxis:
    """A field that varies: between two numbers, or over some values."""

    path: str
    low: float = 0.0
    high: float = 0.0
    spacing: str = "linear"
    whole: bool = False
    choices: tuple[Any, ...] = ()

    @property
    def count(self) -> float:
        """How many values it takes."""
        return len(self.choices) if self.choices else self.high - self.low + 1 if self.whole else math.inf

    @property
    def values(self) -> Sequence[Any]:
        return self.choices or range(int(self.low), int(self.high) + 1)

    @property
    def least(self) -> Any:
        """The first choice, or the number nearest to zero."""
        return self.choices[0] if self.choices else min(max(self.low, type(self.low)(0)), self.high)

    def holds(self, value: Any) -> bool:
        return value in self.choices if self.choices else self.low <= value <= self.high

    def between(self, a: float, b: float) -> float:
        """The middle, in the spacing of the axis."""
        if self.whole:
            return (int(a) + int(b)) // 2
        return math.sqrt(a * b) if self.spacing == "log" and a > 0 else (a + b) / 2

    def draw(self, random: Random) -> Any:
        """Any value, evenly in the spacing of the axis."""
        if self.choices:
            return random.choice(self.choices)
        if self.spacing == "log" and self.low > 0:
            value = math.exp(random.uniform(math.log(self.low), math.log(self.high)))
        else:
            value = random.uniform(self.low, self.high)
        return self.nearest(value)

    def nearest(self, value: Any) -> Any:
        """The value of the axis next to a number; a list that is a choice is its text."""
        if self.choices:
            value = as_text(value) if isinstance(value, (tuple, list)) else value
            return value if value in self.choices else self.choices[0]
        return min(max(round(value) if self.whole else value, self.low), self.high)

    def move(self, value: Any, random: Random) -> Any:
        """Another value: any, an end of the axis, a round one, or one nearby."""
        kind = random.random()
        if self.choices or kind < 0.2:
            return self.draw(random)
        if kind < 0.3:
            return self.nearest(random.choice((self.low, self.high)))
        if kind < 0.5:  # the next whole number, or a round one: a hypothesis may name it
            return self.nearest(value + random.choice((-1, 1)) if self.whole else float(f"{self.draw(random):.1g}"))
        return self.near(value, random)

    def near(self, value: Any, random: Random) -> Any:
        """Another value, mostly close by."""
        if self.choices:
            return self.draw(random)
        by = random.gauss(0.0, 10.0 ** random.uniform(-2.0, -0.5))  # of any scale
        return self.nearest(value * math.exp(4 * by) if random.random() < 0.5 else value + by * (self.high - self.low))

    def ladder(self, value: Any) -> list[Any]:
        """Other values in order of how far they are: all choices, or powers of two around a number, and the ends."""
        if self.choices:
            return [each for each in self.choices if each != value]
        steps = [value * 2.0**k for n in range(1, 8) for k in (-n, n)]
        found = [*([value - 1, value + 1] if self.whole else []), *steps, self.low, self.high]
        kept = dict.fromkeys(self.nearest(each) for each in found)
        return [each for each in kept if each != value]

    def __str__(self) -> str:
        if self.choices:
            return f"{self.path} in {', '.join(map(as_text, self.choices))}"
        return f"{self.path} from {self.low:.6g} to {self.high:.6g}{' (log)' if self.spacing == 'log' else ''}"


def space(claim: Claim, dropped: str = "", *, wide: bool = False) -> list[SearchAxis]:
    """Where to look. Inside the hypotheses: the space that a claim declares, else one by rule.

    By rule, a field with choices takes all of them. Text with examples takes these and its values in the ledger, a list
    of such text one example at a time. A whole number goes from its lower limit, or 1, to the power of ten
    at or above its largest value in the ledger. Another number goes one power of ten beyond those around its values,
    within its limits. Other lists and free text stay as they are. What is declared lies mostly inside the hypotheses,
    so where one is dropped, all fields vary by rule, and as far as what is declared. A `wide` space goes further within
    the limits: ten times for whole numbers, a thousand times for others.
    """
    if claim.check is None or claim.kind not in FORMS:
        raise ConfigError(f"{claim.name} is {claim.kind}: only theory with a pass line can be false")
    fields = {leaf.path: leaf for leaf in leaves(claim.cases[0])}
    declared = {path: _axis(fields[path], *range_) for path, range_ in claim.search.items()}
    if declared and not dropped:
        return list(declared.values())
    values = {path: [values_of(case)[path] for case in claim.cases] for path in fields}
    ruled = {path: _by_rule(field, values[path]) for path, field in fields.items()}
    axes = [axis for path in fields if (axis := _hull(declared.get(path), ruled[path])) is not None]
    axes = [_widened(axis, fields[axis.path]) if wide else axis for axis in axes]
    if not axes:
        raise ConfigError(f"{claim.name} has no field to search over")
    return axes


def _hull(a: SearchAxis | None, b: SearchAxis | None) -> SearchAxis | None:
    if a is None or b is None:
        return a or b
    low, high = min(a.low, b.low), max(a.high, b.high)
    return replace(a, low=low, high=high, spacing="log" if low > 0 and a.spacing == "log" else "linear")


def _widened(axis: SearchAxis, field: Field) -> SearchAxis:
    if axis.choices:
        return axis
    by = 10 if axis.whole else 1000.0
    low = axis.low if axis.whole else axis.low / by if axis.low > 0 else axis.low * by
    lowest, highest = _limits(field)
    low, high = low if lowest is None else max(low, lowest), axis.high * by
    return replace(axis, low=low, high=high if highest is None else min(high, highest))


def values_of(case: Any) -> dict[str, Any]:
    """The values of all fields of a config."""
    return {leaf.path: leaf.default for leaf in leaves(case)}


def _axis(field: Field, low: float, high: float, spacing: str) -> SearchAxis:
    whole = field.kind is int
    return SearchAxis(field.path, round(low) if whole else low, round(high) if whole else high, spacing, whole)


def _by_rule(field: Field, values: Sequence[Any]) -> SearchAxis | None:
    if field.kind is bool:
        return SearchAxis(field.path, choices=(False, True))
    if given := field.metadata.get("choices") or field.metadata.get("examples"):
        if isinstance(values[0], (tuple, list)):
            return SearchAxis(field.path, choices=tuple(dict.fromkeys((*map(as_text, values), *map(as_text, given)))))
        return SearchAxis(field.path, choices=tuple(dict.fromkeys((*given, *values))))
    if field.kind not in (int, float):
        return None
    lowest, highest = _limits(field)
    smallest, largest = min(map(abs, values)), max(map(abs, values))
    if field.kind is int:
        low, high = (1 if lowest is None else lowest), max(10.0, 10.0 ** math.ceil(math.log10(largest or 1)))
    elif (lowest is not None and lowest < 0) or min(values) <= 0:
        high = 10.0 ** (math.ceil(math.log10(largest or 1)) + 1)
        low = -high if lowest is None or lowest < 0 else 0.0
    else:
        low, high = 10.0 ** (math.floor(math.log10(smallest)) - 1), 10.0 ** (math.ceil(math.log10(largest)) + 1)
    low = low if lowest is None else max(low, lowest)
    high = high if highest is None else min(high, highest)
    if not low < high:
        return None
    return _axis(field, low, high, "log" if low > 0 and high >= 10 * low else "linear")


def _limits(field: Field) -> tuple[float | None, float | None]:
    """The least and the largest value that a field takes."""
    low, high, above, below = (field.metadata.get(name) for name in ("low", "high", "above", "below"))
    if field.kind is int:
        return (low if above is None else above + 1), (high if below is None else below - 1)
    low = low if above is None else math.nextafter(above, math.inf)
    return low, (high if below is None else math.nextafter(below, -math.inf))
