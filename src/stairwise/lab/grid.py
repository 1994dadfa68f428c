"""Grids: the values that a sweep gives to config fields, as text or as Python lists, typed by the fields themselves.

0.1,0.3,1        a list (of a field that is itself a list: 30,40;50,60)
1:9:2            a range, last value included: 1, 3, 5, 7, 9
1:64:x2          a geometric range: 1, 2, 4, ..., 64
1e-4:1e-1:log7   seven values, evenly spaced in their logarithm
"""

import itertools
import math
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from stairwise.lab.config import Config, ConfigError, Field, leaves, named, parse
from stairwise.lab.contract import Cell, Experiment, Trials
from stairwise.lab.files import one_line
from stairwise.lab.progress import Silent, watched

MOST_TRIALS = 1_000_000
MOST_VALUES = 100_000


@dataclass(frozen=True)
class Axis:
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


def axes(config: Config, grid: Mapping[str, Any]) -> list[Axis]:
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
        found.append(Axis(path, tuple(dict.fromkeys(tuple(v) if isinstance(v, list) else v for v in values))))
    if not found:
        raise ConfigError("a sweep needs a grid: --grid field=v1,v2,...")
    return found


def texts(field: Field, text: str) -> list[Any]:
    """The values that a text means for a field.

    >>> from stairwise.lab.config import Field
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
    except (ValueError, ZeroDivisionError, OverflowError):
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
    found: Sequence[Axis],
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
    known = {field.path: field for field in leaves(chosen.config)}
    fixed = {
        path: parse(known[path], value) if isinstance(value, str) and path in known else value
        for path, value in (changes or {}).items()
    }
    values = itertools.product(*(axis.values for axis in found))
    combinations = math.prod(len(axis.values) for axis in found)
    fields = ({**fixed, **dict(zip((axis.path for axis in found), each, strict=True))} for each in values)
    blocks: dict[float, list[Cell]] = {}
    for cell in experiment.cells(preset, watched(fields, combinations, "planning", progress)):
        blocks.setdefault(size(cell.config), []).append(cell)
    return Trials(experiment, [blocks[size] for size in sorted(blocks)], experiment.seeds(preset, seeds))


def size(config: Config) -> float:
    """A rough measure of work: the logarithm of the product of all sizes."""
    values = [field.default for field in leaves(config) if not field.numeric]
    return sum(math.log1p(abs(value)) for value in values if isinstance(value, int) and not isinstance(value, bool))
