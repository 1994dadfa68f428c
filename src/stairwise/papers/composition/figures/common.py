"""What the figures share: a metric after every gradient step, groups of records, words for a config."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from stairwise.lab.plots import COLOURS


def after_steps(record: Any, name: str) -> np.ndarray:
    """A metric before any and after every gradient step, by whichever way the step was taken."""
    taken, values = record.series("steps taken")[1], record.series(name)[1]
    found = {int(step): float(value) for step, value in zip(taken, values, strict=True)}
    return np.array([found[step] for step in sorted(found)])


def step_names(config: Any) -> list[str]:
    """KQ1, Psi1, KQ2, ... (curriculum) or KQ1, KQ2, ..., Psi (mixture), after the start."""
    steps = range(1, config.steps + 1)
    if config.algorithm == "mixture":
        return ["start", *(f"KQ{t}" for t in steps), "Ψ"]
    return ["start", *(name for t in steps for name in (f"KQ{t}", f"Ψ{t}"))]


def hops(count: int) -> str:
    return f"{count} hop{'s' if count > 1 else ''}"


def grouped(records: Iterable[Any], by: Callable[[Any], Any]) -> dict[Any, list[Any]]:
    """Records by a property, in the order of first appearance."""
    groups: dict[Any, list[Any]] = {}
    for record in records:
        groups.setdefault(by(record), []).append(record)
    return groups


def colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]


def size(config: Any) -> str:
    return f"k={config.task.blocks}, N={config.task.alphabet}"
