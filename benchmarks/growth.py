"""How cost grows with size: time and memory of a compiled program over two orders of magnitude, with their exponents.

Time is that of calls after the first, all sizes taking turns. Memory is what the compiler says the program holds at its
peak, arguments, results and temporary buffers together: exact, and free of what else the process has done.

Exponents are fitted to the last factor of eight in size, where the law that counting gives has set in and fixed costs
of a call are small, and are compared with the exponent that this law has there.
"""

import importlib
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.row import Work, race
from benchmarks.run import own_core
from stairwise.measure.estimates import Estimate
from stairwise.measure.fits import Data, fit, slope_estimate

TAIL = 8  # sizes double: the last four of them


class Law(NamedTuple):
    """A name, and how many operations or bytes, up to a factor."""

    name: str
    count: Callable[[Any], Any]


@dataclass(frozen=True)
class Growth:
    """Work whose size can be chosen: `program(size)` gives a compiled function and its arguments."""

    work: str
    size: str
    sizes: tuple[int, ...]
    program: Callable[[int], tuple[Callable[..., Any], tuple[Any, ...]]]
    time: Law
    memory: Law
    why: str


class Point(NamedTuple):
    """Milliseconds in each repeat and peak bytes at a size."""

    size: int
    milliseconds: tuple[float, ...]
    bytes: int


@dataclass(frozen=True)
class Grown:
    """What was measured, and the exponents: of time with an interval over repeats, of memory exactly."""

    growth: Growth
    points: list[Point]

    @property
    def tail(self) -> list[Point]:
        last = self.points[-1].size
        return [point for point in self.points if point.size * TAIL >= last]

    @property
    def time(self) -> Estimate:
        sizes = [point.size for point in self.tail for _ in point.milliseconds]
        return slope_estimate("power", Data.of(sizes, [value for point in self.tail for value in point.milliseconds]))

    @property
    def memory(self) -> float:
        return exponent([point.size for point in self.tail], [point.bytes for point in self.tail])

    def counted(self, law: Law) -> float:
        """The exponent that a law has over the same sizes."""
        sizes = [point.size for point in self.tail]
        return exponent(sizes, [float(law.count(size)) for size in sizes])

    def as_dict(self) -> dict[str, Any]:
        time, memory = self.growth.time, self.growth.memory
        return {
            "work": self.growth.work,
            "size": self.growth.size,
            "points": [point._asdict() for point in self.points],
            "time exponent": {"fitted": self.time._asdict(), "counted": self.counted(time), "law": time.name},
            "memory exponent": {"fitted": self.memory, "counted": self.counted(memory), "law": memory.name},
            "why": self.growth.why,
        }


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """The slope of a line through (ln size, ln value).

    >>> print(round(exponent([1, 2, 4], [3, 12, 48]), 6))
    2.0
    """
    return fit("power", Data.of(sizes, values)).slope


def growth_of(paper: str) -> Growth:
    """The paper's growing work; the module is named, not imported, so that nothing here depends on a paper."""
    return getattr(importlib.import_module("benchmarks.growing"), paper)()


def measure(growth: Growth, repeats: int, seen: Callable[[int], None] = lambda size: None) -> Grown:
    """Every size compiled and weighed, then all of them timed in turns."""
    works, weights = {}, {}
    for size in growth.sizes:
        seen(size)
        function, arguments = growth.program(size)
        compiled = function.lower(*arguments).compile()  # type: ignore[attr-defined]
        works[str(size)], weights[size] = Work(_call(compiled, arguments)), peak_bytes(compiled)
    taken = race(works, repeats)
    return Grown(growth, [Point(size, taken[str(size)], weights[size]) for size in growth.sizes])


def _call(compiled: Callable[..., Any], arguments: tuple[Any, ...]) -> Callable[[], Any]:
    import jax

    return lambda: jax.block_until_ready(compiled(*arguments))


def peak_bytes(compiled: Any) -> int:
    """Arguments, results and temporary buffers of a compiled program; what results reuse of arguments counts once."""
    found = compiled.memory_analysis()
    held = found.argument_size_in_bytes + found.output_size_in_bytes + found.temp_size_in_bytes
    return int(held - found.alias_size_in_bytes)


def draw(grown: Grown, out: Path) -> None:
    """Time and memory against size, both axes logarithmic; the law dashed, through the last point."""
    from stairwise.lab.api import save_figure
    from stairwise.lab.contract.plots import COLOURS, COLUMN, house_style

    with house_style():
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots(1, 2, figsize=(2 * COLUMN, 0.85 * COLUMN))
        sizes = [point.size for point in grown.points]
        times = [statistics.median(point.milliseconds) for point in grown.points]
        for point in grown.points:
            axes[0].plot([point.size] * len(point.milliseconds), point.milliseconds, ".", color=COLOURS[0], alpha=0.4)
        panels = (
            (times, grown.growth.time, "milliseconds a call", f"time: exponent {grown.time}", COLOURS[0]),
            (
                [point.bytes / 2**20 for point in grown.points],
                grown.growth.memory,
                "megabytes (2^20 bytes)",
                f"memory: exponent {grown.memory:.3g}",
                COLOURS[1],
            ),
        )
        for panel, (values, law, label, fitted, colour) in zip(axes, panels, strict=True):
            panel.loglog(sizes, values, "o-", markersize=3, color=colour, label=fitted)
            scale = values[-1] / float(law.count(sizes[-1]))
            name = f"counted: {law_name(law)}, there {grown.counted(law):.3g}"
            panel.loglog(sizes, [scale * float(law.count(size)) for size in sizes], "--", color="#555555", label=name)
            panel.axvspan(grown.tail[0].size, sizes[-1], color="#000000", alpha=0.05, linewidth=0)
            panel.set_xlabel(grown.growth.size)
            panel.set_ylabel(label)
            panel.set_ylim(min(values) / 2, max(values) * 6)  # room for the legend above the lines
            panel.legend(loc="upper left")
        figure.suptitle(f"{grown.growth.work}\nexponents are fitted where it is shaded", fontsize=8)
        save_figure(figure, out)


def law_name(law: Law) -> str:
    return f"size^{law.name}" if law.name.isdigit() else law.name


def show(grown: Grown) -> None:
    from stairwise.terminal import cells, new_table, open_console

    console = open_console()
    console.print(grown.growth.work)
    table = new_table(grown.growth.size, "ms", "range", "MB", right=("ms", "MB"))
    for point in grown.points:
        low, high = min(point.milliseconds), max(point.milliseconds)
        middle = statistics.median(point.milliseconds)
        megabytes = f"{point.bytes / 2**20:.3g}"
        table.add_row(*cells([str(point.size), f"{middle:.4g}", f"[{low:.3g}, {high:.3g}]", megabytes]))
    console.print(table)
    time, memory = grown.growth.time, grown.growth.memory
    first = grown.tail[0].size
    console.print(f"time: exponent {grown.time} from {first} on; counted {grown.counted(time):.3g} ({law_name(time)})")
    console.print(f"memory: exponent {grown.memory:.3g}; counted {grown.counted(memory):.3g} ({law_name(memory)})")
    console.print(f"why: {grown.growth.why}")
    if not math.isclose(grown.time.value, grown.counted(time), abs_tol=0.25):
        console.print("time does not grow as counted: fixed costs of a call, caches, or other work on the machine")


def grow(paper: str, device: str, repeats: int, seen: Callable[[int], None]) -> Grown:
    """One core of the CPU, or the GPU."""
    own_core(device)
    from stairwise.lab.run.execute import prepare_jax

    prepare_jax()
    return measure(growth_of(paper), repeats, seen)
