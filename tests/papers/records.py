"""A stored trial as microscopes and answers see it, made by hand."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stairwise.train.stage import Outcome


@dataclass
class HandMade:
    """Arrays by name and series by metric, with a config and a seed."""

    config: Any
    kept: dict[str, Any] = field(default_factory=dict)
    measured: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    seed: int = 0

    @classmethod
    def of(cls, config: Any, outcome: Outcome) -> "HandMade":
        """What a trial left behind, of its only stage."""
        rows = list(zip(outcome.name, outcome.step, outcome.value, strict=True))
        series = {
            name: tuple(np.array(column) for column in zip(*((s, v) for n, s, v in rows if n == name), strict=True))
            for name in dict.fromkeys(outcome.name)
        }
        return cls(config, outcome.arrays, series)  # type: ignore[arg-type]

    def arrays(self) -> list[str]:
        return sorted(self.kept)

    def array(self, name: str) -> Any:
        return np.asarray(self.kept[name])

    def names(self) -> list[str]:
        return list(self.measured)

    def series(self, name: str, stage: str | None = None) -> tuple[Any, Any]:
        steps, values = self.measured[name]
        return np.asarray(steps), np.asarray(values)

    def final(self, name: str, stage: str | None = None) -> float:
        return float(self.measured[name][1][-1])
