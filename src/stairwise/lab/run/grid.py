"""Grids: the values that a sweep gives to config fields, as text or as Python lists, typed by the fields themselves.

0.1,0.3,1        a list (of a field that is itself a list: 30,40;50,60)
1:9:2            a range, last value included: 1, 3, 5, 7, 9
1:64:x2          a geometric range: 1, 2, 4, ..., 64
1e-4:1e-1:log7   seven values, evenly spaced in their logarithm
"""

import dataclasses
import itertools
import math
import typing
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from stairwise.config import (
    Config,
    ConfigError,
    Field,
    as_dict,
    canonical,
    changed,
    checked,
    leaves,
    named,
    one_line,
    parse,
    static_fields,
    update,
)
from stairwise.lab.contract.experiment import MOST_SHARED, Cell, Experiment, SharedParts, Trials
from stairwise.lab.progress import Silent, watched

MOST_TRIALS = 1_000_000
MOST_VALUES = 100_000


@dataclass(frozen=True)
class GridAxis:
    """One field and the values it takes."""

    path: str
    values: tuple[Any, ...]


def from_words(words: Sequence[str]) -> dict[str, str]:
    """The grid that a command line gives, field by field.

    >>> from_words(["rate=0.1,0.3", "task.length=8:16:4"])
    {'rate': '0.1,0.3', 'task.length': '8:16:4'}
    """
    grid: dict[str, str] = {}
    for word in words:
        path, equals, values = word.partition("=")
        if not equals or not path:
            raise ConfigError(f"grid {word!r} must be written as field=v1,v2,... or field=first:last:step")
        if path in grid:
            raise ConfigError(f"grid {path} is given twice")
        grid[path] = values
    return grid


def axes(config: Config, grid: Mapping[str, Any]) -> list[GridAxis]:
    """The typed values of every field of a grid; ConfigError names a field that is unknown, empty or mistyped."""
    known = {field.path: field for field in leaves(config)}
    found = []
    try:
        grid = named(config, grid)
    except ConfigError as error:
        raise ConfigError(f"grid: {error}") from None
    for path, given in grid.items():
        values = texts(known[path], given) if isinstance(given, str) else list(given)
        if not values:
            raise ConfigError(f"grid {path} has no values")
        found.append(GridAxis(path, tuple(dict.fromkeys(tuple(v) if isinstance(v, list) else v for v in values))))
    if not found:
        raise ConfigError("a sweep needs a grid: --grid field=v1,v2,...")
    return found


def texts(field: Field, text: str) -> list[Any]:
    """The values that a text means for a field.

    >>> from stairwise.config import Field
    >>> rate = Field("rate", float, 0.1, {})
    >>> texts(rate, "0.1:0.5:0.2"), texts(rate, "1e-3:1e-1:log3")
    ([0.1, 0.3, 0.5], [0.001, 0.01, 0.1])
    >>> texts(Field("length", int, 8, {}), "1:8:x2")
    [1, 2, 4, 8]
    """
    if typing.get_origin(field.kind) is tuple:
        return [parse(field, part) for part in text.split(";") if part.strip()]
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if field.kind in (int, float):
        return [value for part in parts for value in (_range(field, part) if ":" in part else [parse(field, part)])]
    return [parse(field, part) for part in parts]


def _range(field: Field, text: str) -> list[Any]:
    shown = f"{field.path}={one_line(text)[:60]}"
    ends = text.split(":")
    if len(ends) != 3:
        raise ConfigError(f"{shown} must be first:last:step, first:last:xFACTOR or first:last:logCOUNT")
    first, last, step = parse(field, ends[0]), parse(field, ends[1]), one_line(ends[2].strip())
    if not (math.isfinite(first) and math.isfinite(last)):
        raise ConfigError(f"{shown} must have finite ends")
    if step.startswith(("log", "x")) and not (first > 0 and last > 0):
        raise ConfigError(f"{shown}: both ends must be above 0 in a range by factors")
    try:
        if step.startswith("log"):
            values = _logarithmic(first, last, int(step.removeprefix("log")))
        elif step.startswith("x"):
            values = _geometric(first, last, Fraction(step.removeprefix("x")))
        else:
            values = _arithmetic(Fraction(str(first)), Fraction(str(last)), Fraction(step))
    except OverflowError:
        raise ConfigError(f"grid {shown} has more values than {MOST_VALUES:,}") from None
    except (ValueError, ZeroDivisionError):
        raise ConfigError(f"{shown}: {step!r} must be a step, xFACTOR (above 1) or logCOUNT (2 or more)") from None
    if not values:
        raise ConfigError(f"grid {shown} has no values: the step leads away from {last}")
    return list(dict.fromkeys(round(value) if field.kind is int else float(value) for value in values))


def _arithmetic(first: Fraction, last: Fraction, step: Fraction) -> list[Fraction]:
    count = math.floor((last - first) / step) + 1  # exact: 0.1:0.5:0.1 ends at 0.5
    if count > MOST_VALUES:
        raise OverflowError
    return [first + k * step for k in range(count)]


def _geometric(first: float, last: float, factor: Fraction) -> list[float]:
    if factor <= 1 or first <= 0:
        raise ValueError
    count = math.floor(math.log(last / first) / math.log(factor) + 1e-9) + 1 if last >= first else 0
    if count > MOST_VALUES:
        raise OverflowError
    return [float(Fraction(str(first)) * factor**k) for k in range(count)]


def _logarithmic(first: float, last: float, count: int) -> list[float]:
    if not 2 <= count <= MOST_VALUES or first <= 0 or last <= 0:
        raise ValueError
    inside = (first * (last / first) ** (k / (count - 1)) for k in range(1, count - 1))
    return [first, *(float(f"{value:.6g}") for value in inside), last]  # six digits: values that can be typed again


# --- trials -----------------------------------------------------------------------------------------------------------


def trials(
    experiment: Experiment,
    preset: str,
    found: Sequence[GridAxis],
    seeds: Sequence[int] | None = None,
    changes: Mapping[str, Any] | None = None,
    progress: Silent | None = None,
) -> Trials:
    """Every combination of the axes' values, with every arm of the preset at every seed; equal trials merge.

    Small sizes come before large ones, and of one size the first seed of every combination before the second of any,
    so that the first results soon cover the grid.
    """
    chosen = experiment.preset(preset)
    count = math.prod(len(axis.values) for axis in found) * len(chosen.arms)
    count *= chosen.seeds if seeds is None else len(seeds)
    if count > MOST_TRIALS:
        raise ConfigError(f"the grid has {count} trials and must have at most {MOST_TRIALS}")
    cells, blocks = Cells(experiment, preset, found, changes or {}), {}
    combinations = math.prod(map(len, cells.values))
    for number, values in enumerate(watched(itertools.product(*cells.values), combinations, "planning", progress)):
        for arm in cells.arms:
            config = cells.config(arm, values, check=True)
            place = number * len(cells.first) + arm
            blocks.setdefault(cells.shared(arm, values, config)[0], array("L")).append(place)
    ordered = [CellBlock(cells, blocks[size]) for size in sorted(blocks)]
    return Trials(experiment, ordered, experiment.seeds(preset, seeds))


class Cells:
    """Every arm of a preset at every combination of the axes' values; a config is made when it is asked for.

    Fields and single values are checked once, so that only the rules between fields are left for each combination.
    """

    def __init__(self, experiment: Experiment, preset: str, found: Sequence[GridAxis], changes: Mapping[str, Any]):
        self.experiment, self.preset = experiment, experiment.preset(preset)
        base, self.names = self.preset.config, list(self.preset.arms)
        known = {field.path: field for field in leaves(base)}
        self.paths = [axis.path for axis in found]
        self.values = [list(dict.fromkeys(checked(known[axis.path], each) for each in axis.values)) for axis in found]
        self.static = [k for k, path in enumerate(self.paths) if not known[path].numeric]
        self.naming = [k for k, path in enumerate(self.paths) if path in self.preset.axes]
        fixed = {path: checked(known[path], value) for path, value in named(base, changes).items()}
        fixed |= {path: values[0] for path, values in zip(self.paths, self.values, strict=True)}
        self.first = [changed(base, {**named(base, fields), **fixed}) for fields in self.preset.arms.values()]
        # which arms are equal depends on what is changed, not on the values that it takes; the first of them stays
        equal: dict[str, int] = {}
        for arm, config in enumerate(self.first):
            equal.setdefault(canonical(as_dict(config)), arm)
        self.arms = list(equal.values())
        self.plans = [_plan(config, list(enumerate(self.paths))) for config in self.first]
        self.known: dict[Any, tuple[float, str]] = {}
        self.called: dict[Any, str] = {}

    def config(self, arm: int, values: Sequence[Any], *, check: bool = False) -> Config:
        try:
            return _made(self.plans[arm], values, check)
        except ConfigError:
            return update(self.first[arm], dict(zip(self.paths, values, strict=True)))  # says so by full path

    def shared(self, arm: int, values: Sequence[Any], config: Config) -> tuple[float, str]:
        """The size and the program of a config, which it shares with those that differ in numeric fields only."""
        key = (arm, *(values[k] for k in self.static))
        if key not in self.known:
            if len(self.known) >= MOST_SHARED:
                self.known.clear()
            self.known[key] = size(config), SharedParts(self.experiment, config).program_key
        return self.known[key]

    def __getitem__(self, place: int) -> Cell:
        number, arm = divmod(place, len(self.first))
        values: list[Any] = []
        for each in reversed(self.values):
            number, which = divmod(number, len(each))
            values.append(each[which])
        values.reverse()
        config = self.config(arm, values)
        key = (arm, *(values[k] for k in self.naming))
        if key not in self.called:
            if len(self.called) >= MOST_SHARED:
                self.called.clear()
            self.called[key] = self.preset.name(self.names[arm], config)
        return Cell(config, self.called[key], self.shared(arm, values, config)[1])


class CellBlock(Sequence[Cell]):
    """The cells at some places."""

    def __init__(self, cells: Cells, places: Sequence[int]):
        self.cells, self.places = cells, places

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: Any) -> Any:
        return self.cells[self.places[index]]


Plan = tuple[Config, dict[str, Any], list[tuple[str, Any]]]


def _plan(config: Config, paths: Sequence[tuple[int, str]]) -> Plan:
    """A config, its fields, and those that are to be replaced: by the value of that number, or by another plan."""
    groups: dict[str, list[tuple[int, str]]] = {}
    for k, path in paths:
        name, _, rest = path.partition(".")
        groups.setdefault(name, []).append((k, rest))
    fields = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    parts = [(name, _plan(fields[name], of) if of[0][1] else of[0][0]) for name, of in groups.items()]
    return config, fields, parts


def _made(plan: Plan, values: Sequence[Any], check: bool) -> Config:
    """The config of a plan at these values, which are known to be right by themselves."""
    config, fields, parts = plan
    new = {name: values[part] if type(part) is int else _made(part, values, check) for name, part in parts}
    if type(config).__post_init__ is not Config.__post_init__:  # more to be done than the rules
        return dataclasses.replace(config, **new)
    made = object.__new__(type(config))
    made.__dict__.update(fields)
    made.__dict__.update(new)
    if check:
        made.check()
    return made


def size(config: Config) -> float:
    """A rough measure of work: the logarithm of the product of all sizes."""
    return sum(math.log1p(abs(value)) for value in static_fields(config).values() if type(value) is int)
