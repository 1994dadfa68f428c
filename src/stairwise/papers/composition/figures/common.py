"""What the figures share: a metric after every gradient step, words for a config."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from stairwise.lab.contract.plots import grouped
from stairwise.measure.complexity import Hits

LEARNT = 0.95  # held-out accuracy from which on a run has learnt a hop


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


def size(config: Any) -> str:
    return f"k={config.task.blocks}, N={config.task.alphabet}"


# --- the standard transformer -----------------------------------------------------------------------------------------


def arms_of(records: Iterable[Any]) -> tuple[list[Any], list[Any]]:
    """The runs on a mixture of hops, and those on the hardest hop alone."""
    by_arm = grouped(records, lambda record: len(record.config.hops) > 1)
    return by_arm.get(True, []), by_arm.get(False, [])


def hits(records: Iterable[Any], hop: int) -> Hits:
    """The first measured step at which each run has learnt a hop; censored at its last one."""
    pairs = []
    for record in records:
        steps, accuracy = record.series(f"accuracy {hop}")
        learnt = np.flatnonzero(np.asarray(accuracy) >= LEARNT)
        pairs.append((float(steps[learnt[0]]), False) if len(learnt) else (float(steps[-1]), True))
    return Hits.of(pairs)
