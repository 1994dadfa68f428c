"""A row of the benchmark: one piece of work, timed here, in eager PyTorch and in compiled PyTorch.

All sides take turns, repeat by repeat, so that what else the machine does hits all of them; a ratio is taken within a
repeat, and the row gives the median and the range over repeats. Nothing is timed before outputs or gradients of both
sides, on the same inputs and weights, have been compared.
"""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

SHORTEST = 0.05  # seconds of one timed stretch: shorter work is repeated within it


@dataclass(frozen=True)
class Settings:
    """What the user asked for; `tiny` sizes check that all of it works, and their times mean nothing."""

    device: str = "cpu"
    repeats: int = 5
    compile: bool = True
    tiny: bool = False

    @property
    def torch_device(self) -> str:
        return "cuda" if self.device == "gpu" else "cpu"


@dataclass(frozen=True)
class Job:
    """A row to be made, and the precision (32 or 64) it is made in."""

    work: str
    make: Callable[[Settings], "Row"]
    precision: int = 32


class Work(NamedTuple):
    """A call that does its work, waits for its end, and counts as `units` of it."""

    call: Callable[[], Any]
    units: int = 1


@dataclass(frozen=True)
class Row:
    """Milliseconds a unit in each repeat, how well both sides agree, and why something is missing."""

    bench: str
    work: str
    unit: str = "step"
    mirror: str = ""
    ours: tuple[float, ...] = ()
    eager: tuple[float, ...] = ()
    compiled: tuple[float, ...] = ()
    error: float | None = None
    failure: str = ""
    no_compile: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    timed: Work | None = None  # what was timed, or has the same kernels, for a look at it after all rows are

    def ratio(self, side: str) -> tuple[float, float, float] | None:
        """Lowest, median and highest of (PyTorch's time / ours) over the repeats.

        >>> Row("a", "b", ours=(1.0, 2.0, 2.0), eager=(10.0, 10.0, 30.0)).ratio("eager")
        (5.0, 10.0, 15.0)
        """
        theirs = self.eager if side == "eager" else self.compiled
        found = [b / a for a, b in zip(self.ours, theirs, strict=False)]
        return (min(found), statistics.median(found), max(found)) if found else None

    def as_dict(self) -> dict[str, Any]:
        """For JSON: every repeat, and the ratios."""
        sides = {name: list(getattr(self, name)) for name in ("ours", "eager", "compiled")}
        ratios = {f"times faster than {name}": self.ratio(name) for name in ("eager", "compiled")}
        named = {"bench": self.bench, "work": self.work, "unit": self.unit, "mirror": self.mirror}
        rest = {"error": self.error, "failure": self.failure, "no compile": self.no_compile, "facts": dict(self.facts)}
        return named | {"milliseconds": sides} | ratios | rest


def timed(work: Work) -> float:
    """Milliseconds a unit over as many calls in a row as the shortest stretch takes."""
    began, calls, seconds = time.perf_counter(), 0, 0.0
    while seconds < SHORTEST:
        work.call()
        calls, seconds = calls + 1, time.perf_counter() - began
    return 1e3 * seconds / (calls * work.units)


def race(sides: Mapping[str, Work], repeats: int) -> dict[str, tuple[float, ...]]:
    """Milliseconds a unit of every side in every repeat, taking turns; calls before that compile and warm up.

    >>> found = race({"a": Work(lambda: None), "b": Work(lambda: None)}, 2)
    >>> {name: len(milliseconds) for name, milliseconds in found.items()}
    {'a': 2, 'b': 2}
    """
    for work in sides.values():
        work.call()
        work.call()
    taken = [{name: timed(work) for name, work in sides.items()} for _ in range(repeats)]
    return {name: tuple(one[name] for one in taken) for name in sides}


def contest(
    settings: Settings,
    row: Row,
    ours: Work,
    eager: Work | None = None,
    compiled: Callable[[], Work] | None = None,
    *,
    profiled: Work | None = None,
    tolerance: float = 0.0,
) -> Row:
    """The row with its times, or with what kept it from having them; a side that is None is not part of it.

    `profiled` has the kernels of `ours` one by one, where that launches them as a graph, whose loops a profile lacks.
    """
    if row.error is not None and not row.error <= tolerance:
        return replace(row, failure=f"not timed: the two sides differ by {row.error:.2g} (allowed: {tolerance:g})")
    sides = {"ours": ours} | ({} if eager is None else {"eager": eager})
    reason = ""
    if compiled is not None and settings.compile:
        try:
            sides["compiled"] = compiled()
            sides["compiled"].call()
        except Exception as error:  # no C++ compiler, or something that the compiler does not know
            sides.pop("compiled", None)
            reason = f"torch.compile: {type(error).__name__}: {first_line(error)}"
    taken = race(sides, settings.repeats)
    return replace(row, **taken, no_compile=reason, timed=profiled or ours)


def first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:200] if lines else ""
