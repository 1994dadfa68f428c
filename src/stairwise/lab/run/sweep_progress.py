"""Progress over a whole sweep: how many trials, the best so far and where it is, which failed and why."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stairwise.config import ConfigError, as_text, leaves
from stairwise.lab.contract.experiment import Trial
from stairwise.lab.progress import CALLS, Silent
from stairwise.lab.run.grid import GridAxis
from stairwise.lab.store.trial import StoredTrial
from stairwise.train.stage import LOST

BAD = ("failed", *LOST)
MOST_WARNINGS = 20
MOST_NAMES = 12  # of metrics


@dataclass(frozen=True)
class Objective:
    """What the best trial is best at: a metric, or the first that is called a loss; lowest unless `highest`."""

    metric: str | None = None
    highest: bool = False

    @classmethod
    def parse(cls, text: str | None) -> "Objective":
        """
        >>> Objective.parse("max:accuracy")
        Objective(metric='accuracy', highest=True)
        """
        if text is None:
            return cls()
        direction, colon, metric = text.rpartition(":")
        if (colon and direction not in ("min", "max")) or not metric:
            raise ConfigError(f"best={text} must be METRIC, min:METRIC or max:METRIC")
        return cls(metric, direction == "max")

    def of(self, finals: Mapping[str, float]) -> tuple[str, float] | None:
        """The metric and its value, where the trial has it."""
        names = [self.metric] if self.metric else sorted(finals, key=lambda name: ("loss" not in name, name))[:1]
        return next(((name, finals[name]) for name in names if name in finals), None)

    def better(self, a: float, b: float) -> bool:
        return a > b if self.highest else a < b

    def best(self, records: Iterable[StoredTrial]) -> StoredTrial | None:
        """The best of the trials that have the metric, but for those that failed or were lost."""
        chosen: tuple[float, StoredTrial] | None = None
        for record in records:
            if record.status in BAD:
                continue
            found = self.of(record.finals())
            if found is not None and (chosen is None or self.better(found[1], chosen[0])):
                chosen = (found[1], record)
        return None if chosen is None else chosen[1]


def settings(trial: Any, axes: Sequence[GridAxis]) -> dict[str, Any]:
    """The values of the grid's fields in a trial or a record."""
    values = {field.path: field.default for field in leaves(trial.config)}
    return {axis.path: values[axis.path] for axis in axes}


def cell_name(trial: Any, axes: Sequence[GridAxis]) -> str:
    """What a trial is called apart from its seed."""
    fields = [f"{path}={as_text(value)}" for path, value in settings(trial, axes).items()]
    named = trial.arm.split(", ")  # an arm that the grid has changed is called by its values
    words = [trial.arm, *(field for field in fields if field not in named)]
    return " ".join(filter(None, words))


def label(trial: Any, axes: Sequence[GridAxis]) -> str:
    return f"{cell_name(trial, axes)} seed {trial.seed}".strip()


class SweepProgress(Silent):
    """Shows a sweep on another display."""

    def __init__(self, display: Silent, axes: Sequence[GridAxis], objective: Objective):
        self.display, self.axes, self.objective = display, axes, objective
        self.counts: Counter[str] = Counter()
        self.best: tuple[str, float, str] | None = None
        self.without = False  # whether a trial was seen that lacks the metric
        for name in CALLS:
            if name != "concluded":
                setattr(self, name, getattr(display, name))

    def concluded(
        self, trial: Trial, status: str, message: str, finals: Mapping[str, float], called: str | None = None
    ) -> None:
        where = called or label(trial, self.axes)
        self.counts[status] += 1
        found = self.objective.of(finals)
        if status in BAD:
            self._warn(f"{status}: {where}: {message}")
        elif found is None and self.objective.metric and not self.without:
            self.without = True
            known = ", ".join(sorted(finals)[:MOST_NAMES]) or "none"
            self.display.warn(f"best {self.objective.metric}: a trial has no such metric (its metrics: {known})")
        elif found is not None and (self.best is None or self.objective.better(found[1], self.best[1])):
            self.best = (*found, where)
        self.display.note(self.text())
        self.display.concluded(trial, status, message, finals, where)

    def _warn(self, text: str) -> None:
        warned = sum(self.counts[status] for status in BAD)
        if warned <= MOST_WARNINGS:
            self.display.warn(text)
        if warned == MOST_WARNINGS:
            self.display.warn("further ones are counted here and named in the store")

    def text(self) -> str:
        parts = [] if self.best is None else [f"best {self.best[0]} {self.best[1]:.4g} ({self.best[2]})"]
        parts += [f"{self.counts[status]} {status}" for status in BAD if self.counts[status]]
        return ", ".join(parts)
