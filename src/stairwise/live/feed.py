"""What is known of a run while it trains: a progress display that any number of readers follow, each at its own pace.

The training thread leaves a note and goes on; the lock that it takes is held by nobody for longer than that. Taking
measurements over, gathering what a reader has not seen, rounding and encoding are done in the reader's thread. A reader
that falls behind gets everything new at once: nothing waits for it, and nothing piles up for it. Memory is bounded: the
latest trials are kept, and a long series loses every second point. Measurements that no reader saw passing by are read
from the store when one asks.
"""

import itertools
import threading
import time
from array import array
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from stairwise.lab.contract.axes import StepAxis, stage_axes
from stairwise.lab.contract.experiment import Trial
from stairwise.lab.progress import Silent
from stairwise.lab.run.sweep_progress import Objective
from stairwise.lab.store.files import StoreError
from stairwise.lab.store.store import Store
from stairwise.report.site.data import short
from stairwise.train.stage import Outcome
from stairwise.words import plain

TRIALS = 300  # on the page: those that run, and the latest others
POINTS = 200  # of a series; one that has twice as many loses every second one
WARNINGS = 20
READING = 0.5  # seconds before a reader hears of the rest
RUNNING = "running"
Key = tuple[int, str, str]  # trial, stage, metric
Ending = tuple[Trial, str, str, Mapping[str, float]]  # how it ended, why, and the last value of each metric


def rounded(values: Iterable[float]) -> list[float | None]:
    """Six digits of each number; None for what a picture cannot show.

    >>> rounded([1 / 3, float("nan")])
    [0.333333, None]
    """
    return [float(f"{value:.6g}") if isfinite(value) else None for value in values]


class Series:
    """One metric of one trial; `epoch` changes when points have been left out, `version` with every change."""

    def __init__(self):
        self.steps, self.values = array("q"), array("d")
        self.epoch = self.version = 0

    def add(self, step: int, value: float) -> None:
        self.steps.append(step)
        self.values.append(value)
        if len(self.steps) >= 2 * POINTS:
            self.steps, self.values = self.steps[::2], self.values[::2]
            self.epoch += 1


@dataclass
class TrialRow:
    """A trial on the page: `taken` counts its measurements that are here, `arrays` what it has kept to look at."""

    id: int
    trial: Trial
    label: str
    version: int = 0
    status: str = RUNNING
    message: str = ""
    final: tuple[str, float] | None = None
    taken: int = 0
    arrays: int = 0
    outcome: Outcome | None = None  # while it trains
    axes: Mapping[str, StepAxis] = field(default_factory=dict)  # of its stages

    def as_dict(self) -> dict[str, Any]:
        """For the page."""
        return {
            "id": self.id,
            "digest": self.trial.digest,
            "label": self.label,
            "seed": self.trial.seed,
            "status": self.status,
            "message": plain(self.message),
            "final": None if self.final is None else [plain(self.final[0]), short(self.final[1])],
            "arrays": self.arrays,
            "axes": {plain(stage): list(axis) for stage, axis in self.axes.items()},
        }


@dataclass
class Seen:
    """How far a reader has got: of every series its epoch, and how many points; `over`: it knows that all is over."""

    version: int = -1
    over: bool = False
    gone: int = 0
    sent: dict[Key, tuple[int, int]] = field(default_factory=dict)


class Feed(Silent):
    """The state of a run; `about` is told once to every reader, `call` names a trial apart from its seed."""

    def __init__(self, store: Store, about: Mapping[str, Any], call: Callable[[Trial], str] | None = None):
        self.store, self.about = store, dict(about)
        self.call = call or (lambda trial: trial.arm)
        self.began, self.ended_at = time.monotonic(), None
        # the notes of the training thread
        self.noting = threading.Lock()
        self.notes = 0
        self.facts: dict[str, Any] = {"what": "", "total": 0, "stored": 0, "done": 0, "counts": {}, "side": 1}
        self.facts |= {"doing": "", "label": "", "tick": 0, "max": 0, "note": "", "over": False, "page": ""}
        self.facts["warnings"] = []
        self.training: tuple[Sequence[Trial], Sequence[Outcome]] = ((), ())
        self.ended: deque[Ending] = deque(maxlen=TRIALS)
        self.counts: Counter[str] = Counter()
        # what readers have made of them
        self.lock = threading.Lock()
        self.version = 0
        self.heard, self.told = 0, 0  # how many notes, and the version at which `facts` were last new
        self.unread: deque[Trial] = deque(maxlen=TRIALS)  # stored, and their measurements are not here
        self.ids = itertools.count()
        self.rows: dict[str, TrialRow] = {}  # by digest, in the order they came
        self.series: OrderedDict[Key, Series] = OrderedDict()  # the latest change last
        self.gone: list[int] = []
        self.axes: dict[str, Mapping[str, StepAxis]] = {}  # by program

    # --- what the run says: called by the thread that trains ---------------------------------------------------------

    def begin(self, what: str, total: int, done: int) -> None:
        self.began = time.monotonic()
        self._note(what=what, total=total, stored=done)

    def status(self, text: str) -> None:
        self._note(doing=text)

    def ticks(self, label: str, tick: int, max_ticks: int, metrics: Mapping[str, float]) -> None:
        self._note(label=label, tick=tick, max=max_ticks, doing="training")

    def measured(self, trials: Sequence[Trial], outcomes: Sequence[Outcome]) -> None:
        with self.noting:
            self.training, self.facts["side"] = (trials, outcomes), len(trials)

    def concluded(
        self, trial: Trial, status: str, message: str, finals: Mapping[str, float], called: str | None = None
    ) -> None:
        self.counts[status] += 1
        with self.noting:
            self.training = ((), ())
            self.ended.append((trial, status, message, finals))
            self.facts.update(done=self.facts["done"] + 1, counts=dict(self.counts), tick=0)
            self.notes += 1

    def note(self, text: str) -> None:
        self._note(note=text)

    def warn(self, text: str) -> None:
        self._note(warnings=[*self.facts["warnings"], plain(text)][-WARNINGS:])

    def show(self, trials: Sequence[Trial]) -> None:
        """Trials that the store has already."""
        with self.lock:
            for trial in trials[-TRIALS:]:
                self._row(trial).status = "stored"
                self.unread.append(trial)

    def close(self, page: str = "") -> None:
        """Nothing more will come; `page` is where the report shows it."""
        self.ended_at = time.monotonic()
        self._note(over=True, doing="", page=page)

    def _note(self, **facts: Any) -> None:
        with self.noting:
            self.facts.update(facts)
            self.notes += 1

    # --- what a reader gets: called by its own thread ----------------------------------------------------------------

    def since(self, seen: Seen) -> dict[str, Any] | None:
        """What is new to a reader, who has then seen it; None where nothing is."""
        with self.lock:
            facts = self._hear()
        self._read_stored()
        with self.lock:
            if seen.version == self.version:
                return None
            found = self._new(seen, facts)
        found["trials"] = [TrialRow.as_dict(row) for row in found["trials"]]
        found["series"] = [
            [id, plain(stage), plain(name), start, list(steps), rounded(values)]
            for (id, stage, name), start, steps, values in found["series"]
        ]
        return found

    def row(self, id: int) -> TrialRow | None:
        """The trial of that number, while it is on the page."""
        with self.lock:
            return next((row for row in self.rows.values() if row.id == id), None)

    def _hear(self) -> dict[str, Any]:
        """Takes over what the training thread has left; returns the facts."""
        with self.noting:
            facts, notes, training, ended = dict(self.facts), self.notes, self.training, list(self.ended)
            self.ended.clear()
        if notes != self.heard:
            self.heard = notes
            self.version += 1
            self.told = self.version
        for ending in ended:  # these came before those that train now
            self._end(*ending)
        for trial, outcome in list(zip(*training, strict=True))[:TRIALS]:
            self._take(self._row(trial), outcome)
        return facts

    def _end(self, trial: Trial, status: str, message: str, finals: Mapping[str, float]) -> None:
        row = self._row(trial)
        if row.outcome is not None:
            self._take(row, row.outcome)
        elif finals:
            self.unread.append(trial)
        row.status, row.message, row.final, row.outcome = status, message, Objective().of(finals), None
        row.arrays += trial.experiment.microscope is not None  # there may be more to see than while it trained
        self._changed(row)

    def _changed(self, row: TrialRow) -> None:
        """Readers who are up to date have this still to see, whatever else is new."""
        self.version += 1
        row.version = self.version

    def _row(self, trial: Trial) -> TrialRow:
        row = self.rows.get(trial.digest)
        if row is None:
            own = trial.experiment.name == self.about["experiment"]  # else one that others start from
            label = plain(self.call(trial) if own else f"{trial.experiment.name} {trial.arm}".strip())
            axes = self.axes.setdefault(trial.program_key, stage_axes(trial.experiment, trial.config))
            row = self.rows[trial.digest] = TrialRow(next(self.ids), trial, label, axes=axes)
            self._changed(row)
            if len(self.rows) > TRIALS:
                self._forget(next((each for each in self.rows.values() if each.status != RUNNING), row))
        return row

    def _forget(self, row: TrialRow) -> None:
        del self.rows[row.trial.digest]
        for key in [key for key in self.series if key[0] == row.id]:
            del self.series[key]
        self.gone.append(row.id)

    def _take(self, row: TrialRow, outcome: Outcome) -> None:
        """Takes over what the trial has measured since the last time; a list may grow meanwhile, the last one last."""
        row.outcome, end = outcome, len(outcome.value)
        if end <= row.taken and len(outcome.arrays) == row.arrays:
            return
        self.version += 1
        for k in range(row.taken, end):
            self._add(row, outcome.stage[k], outcome.name[k], outcome.step[k], outcome.value[k])
        row.taken = max(end, row.taken)
        if len(outcome.arrays) != row.arrays:
            row.arrays, row.version = len(outcome.arrays), self.version

    def _add(self, row: TrialRow, stage: str, name: str, step: int, value: float) -> None:
        key = (row.id, stage, name)
        series = self.series.setdefault(key, Series())
        series.add(step, value)
        series.version = self.version
        self.series.move_to_end(key)

    def _new(self, seen: Seen, facts: Mapping[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {"about": self.about} if seen.version < 0 else {}
        if self.told > seen.version:
            found["facts"] = {**facts, "seconds": (self.ended_at or time.monotonic()) - self.began}
        found["trials"] = [row for row in self.rows.values() if row.version > seen.version]
        found["gone"], seen.gone = self.gone[seen.gone :], len(self.gone)
        if found["gone"]:
            seen.sent = {key: count for key, count in seen.sent.items() if key in self.series}
        found["series"] = []
        for key, series in reversed(self.series.items()):
            if series.version <= seen.version:
                break
            epoch, count = seen.sent.get(key, (series.epoch, 0))
            start = count if epoch == series.epoch else 0
            found["series"].append((key, start, series.steps[start:], series.values[start:]))
            seen.sent[key] = (series.epoch, len(series.steps))
        found["series"].reverse()
        seen.version = self.version
        return found

    def _read_stored(self) -> None:
        """Takes over what is stored of trials whose measurements nobody saw passing by, for a moment."""
        end = time.monotonic() + READING
        while self.unread and time.monotonic() < end:
            try:
                trial = self.unread.popleft()
                record = self.store.read(trial)
                columns = record.table().select(["stage", "name", "step", "value"]).to_pydict().values()
            except (IndexError, StoreError):  # another reader has it; it is gone, or damaged
                continue
            finals = {name: record.final(name) for name in record.names()}
            with self.lock:
                row = self.rows.get(trial.digest)
                if row is None or row.taken:
                    continue
                self.version += 1
                for stage, name, step, value in zip(*columns, strict=True):
                    self._add(row, stage, name, step, value)
                    row.taken += 1
                row.status, row.final, row.version = record.status, Objective().of(finals), self.version
                row.arrays = len(record.arrays())
