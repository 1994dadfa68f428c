"""When a trace has made half of its way, and which of two does so first. NumPy, SciPy."""

import math
from typing import Any, NamedTuple

import numpy as np

LEARNT = 0.2  # accuracy must rise by this much for a run to count


class Halves(NamedTuple):
    """Steps at which entropy and accuracy have made half of their way, infinite where they make none; the rise."""

    entropy: float
    accuracy: float
    rise: float
    fall: float

    @property
    def learnt(self) -> bool:
        return self.rise >= LEARNT

    @property
    def sparse_first(self) -> bool:
        return self.entropy < self.accuracy

    @property
    def described(self) -> dict[str, float | None]:
        return {
            "entropy half-way": self.entropy if math.isfinite(self.entropy) else None,
            "accuracy half-way": self.accuracy if math.isfinite(self.accuracy) else None,
            "rise in accuracy": self.rise,
            "fall in entropy": self.fall,
        }


def halfway(steps: np.ndarray, values: np.ndarray) -> float:
    """The step at which a trace first passes the middle between its start and its farthest rise, interpolated.

    >>> round(halfway(np.array([0, 10, 20]), np.array([0.0, 0.4, 1.0])), 2)
    11.67
    """
    middle = (values[0] + values.max()) / 2
    if values.max() <= values[0]:
        return math.inf
    after = int(np.argmax(values >= middle))
    share = (middle - values[after - 1]) / (values[after] - values[after - 1])
    return float(steps[after - 1] + share * (steps[after] - steps[after - 1]))


def halves(record: Any) -> Halves:
    steps, accuracy = record.series("accuracy")
    _, entropy = record.series("entropy")
    steps = np.asarray(steps) * record.config.measure_every
    return Halves(
        halfway(steps, -entropy),
        halfway(steps, accuracy),
        float(accuracy.max() - accuracy[0]),
        float(entropy[0] - entropy.min()),
    )


def sign_test(wins: int, runs: int) -> float:
    """The two-sided p-value of `wins` out of `runs` fair coins.

    >>> sign_test(4, 4)
    0.125
    """
    from scipy import stats

    return float(stats.binomtest(wins, runs).pvalue) if runs else 1.0
