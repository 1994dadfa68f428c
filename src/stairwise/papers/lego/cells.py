"""Two actions under one protocol: their exact match over seeds and the interval of the difference. No JAX."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from stairwise.measure.estimates import Estimate, percentile_estimate, resample
from stairwise.papers.lego.config.task import action_of

REPEATS = 2000


class ArmsCompared(NamedTuple):
    """Exact match of a free action and of another at one length, seed by seed, and the difference of their means."""

    actions: tuple[str, str]
    values: tuple[np.ndarray, np.ndarray]
    difference: Estimate

    @property
    def ahead(self) -> str:
        """Which of the two is ahead beyond the interval of the difference: an action, or neither."""
        if self.difference.low > 0:
            return self.actions[0]
        return self.actions[1] if self.difference.high < 0 else "neither"

    @property
    def informative(self) -> bool:
        """Not both perfect and not both lost, where no difference could show."""
        means = [float(np.mean(values)) for values in self.values]
        return max(means) > 0.05 and min(means) < 0.95

    def __str__(self) -> str:
        """Both means, a star at the one that is ahead."""
        marks = ["*" if self.ahead == action else "" for action in self.actions]
        return "\n".join(f"{values.mean():.2f}{mark}" for values, mark in zip(self.values, marks, strict=True))


def compared(records: Sequence[Any], length: int, step: int | None = None) -> ArmsCompared:
    """The free (cyclic) action against the other, at a test length, after `step` steps (by default the last look)."""
    names = list(dict.fromkeys(record.config.task.action for record in records))
    free = [name for name in names if action_of(name).free]
    others = [name for name in names if name not in free]
    if len(free) != 1 or len(others) != 1:
        raise ValueError(f"actions={names} must be one that is free and one that is not (compared)")
    values = tuple(
        np.array([_value(record, length, step) for record in records if record.config.task.action == name])
        for name in (free[0], others[0])
    )
    return ArmsCompared((free[0], others[0]), values, difference(*values))  # type: ignore[arg-type]


def difference(first: np.ndarray, second: np.ndarray) -> Estimate:
    """The difference of two means with the percentile interval of a bootstrap over seeds, each side by itself."""
    together = np.concatenate([first, second])
    weights = resample(np.repeat([0, 1], [len(first), len(second)]), REPEATS)
    split = len(first)
    means = [
        weights[:, part] @ together[part] / weights[:, part].sum(axis=1) for part in (slice(split), slice(split, None))
    ]
    return percentile_estimate(float(first.mean() - second.mean()), means[0] - means[1])


def _value(record: Any, length: int, step: int | None) -> float:
    steps, values = record.series(f"exact {length}")
    return float(values[-1] if step is None else values[list(steps).index(step)])
