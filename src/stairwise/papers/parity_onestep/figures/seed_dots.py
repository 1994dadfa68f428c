"""What the figures share: dots for seeds with their median, and words for a config."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from stairwise.lab.contract.plots import colour

FLOOR = 1e-7  # float32 errors below this are drawn here


def sizes(config: Any) -> str:
    return f"d={config.task.bits}, k={config.task.size}"


def dots(axes: Any, x: Iterable[float], rows: Iterable[Any], label: str, number: int, marker: str = "o"):
    """One column of dots an x, every seed a dot, and a line through the medians."""
    pairs = sorted(zip(x, rows, strict=True), key=lambda pair: pair[0])
    x, rows = [place for place, _ in pairs], [row for _, row in pairs]
    for place, row in zip(x, rows, strict=True):
        axes.plot([place] * len(row), np.maximum(row, FLOOR), marker, color=colour(number), alpha=0.45, markersize=3)
    medians = [np.maximum(np.median(row), FLOOR) for row in rows]
    axes.plot(x, medians, "-", color=colour(number), label=label)


def finals(groups: dict[Any, list[Any]], name: str) -> list[list[float]]:
    """The last value of a metric, for every record of every group."""
    return [[record.final(name) for record in some] for some in groups.values()]


def by_step(record: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
    """A metric against the number of gradient steps taken."""
    ticks, values = record.series(name)
    return ticks // record.config.blocks, values


def count(number: int) -> str:
    """A sample count as a power of two where it is one.

    >>> count(4096), count(800_000)
    ('$2^{12}$', '800,000')
    """
    return f"$2^{{{number.bit_length() - 1}}}$" if number & (number - 1) == 0 else f"{number:,}"
