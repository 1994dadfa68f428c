"""What there is to see of a trial while it trains: its paper's microscope, or the arrays that its snapshots have left.

A microscope is written for stored trials. While one trains it may lack what only the end of a trial stores; then, and
where a paper has none, the snapshots are shown as they are.
"""

import time
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from threading import Lock
from typing import Any

import numpy as np

from stairwise.lab.contract.axes import StepAxis, stage_axes
from stairwise.lab.contract.experiment import Trial
from stairwise.lab.contract.microscope import Map, MapAxis, Microscope, frames_of, snapshot_ticks
from stairwise.lab.store.files import StoreError
from stairwise.live.feed import Feed, TrialRow
from stairwise.report.site.data import to_json
from stairwise.report.site.scopes import scope_data
from stairwise.train.stage import Outcome

SHARE, FREE = 0.01, 0.05  # processor time for maps: so much of the time that the run has taken, and so many seconds
LATER = b""  # there would be something, but making it now would take too much from the training
KEPT = 12
HEADS = 8  # matrices of an array with three axes


class Unfinished:
    """A trial that trains, as microscopes see a record: what it has measured and kept so far."""

    def __init__(self, trial: Trial, outcome: Outcome):
        end = len(outcome.value)  # lists grow while this is made, the values last
        self.config, self.seed, self.arm, self.digest = trial.config, trial.seed, trial.arm, trial.digest
        self.experiment, self.status = trial.experiment.name, outcome.status
        self._stage, self._name = np.array(outcome.stage[:end]), np.array(outcome.name[:end])
        self._step, self._value = np.array(outcome.step[:end]), np.array(outcome.value[:end])
        self._arrays = dict(outcome.arrays)

    def names(self) -> list[str]:
        return list(dict.fromkeys(self._name.tolist()))

    def series(self, name: str, stage: str | None = None) -> tuple[np.ndarray, np.ndarray]:
        rows = (self._name == name) & (True if stage is None else self._stage == stage)
        if not rows.any():
            raise StoreError(f"trial {self.digest} has not measured {name} yet")
        return self._step[rows], self._value[rows]

    def final(self, name: str, stage: str | None = None) -> float:
        return float(self.series(name, stage)[1][-1])

    def arrays(self) -> list[str]:
        return sorted(self._arrays)

    def array(self, name: str) -> np.ndarray:
        if name not in self._arrays:
            raise StoreError(f"trial {self.digest} has no array {name} yet")
        return self._arrays[name]


def seen_of(trial: Trial, record: Any) -> Microscope | None:
    """The paper's microscope of a record, else its snapshots as they are; None where there are none."""
    if trial.experiment.microscope is not None:
        with suppress(Exception):  # it may lack what only the end of a trial stores
            seen = trial.experiment.microscope(record)
            if seen is not None:
                return seen
    return snapshots(record, stage_axes(trial.experiment, trial.config))


def snapshots(record: Any, axes: Mapping[str, StepAxis]) -> Microscope | None:
    """The snapshots of the latest stage as they are: vectors as one row, arrays with three axes as several maps."""
    names = dict.fromkeys(name.rpartition("@")[0] for name in record.arrays() if "@" in name)
    ticks = {name: snapshot_ticks(record, name) for name in names}
    ticks = {name: found for name, found in ticks.items() if found and 1 <= record.array(f"{name}@{found[0]}").ndim < 4}
    if not ticks:
        return None
    stage = max(ticks, key=lambda name: len(ticks[name])).partition("/")[0]
    longest = max((found for name, found in ticks.items() if name.startswith(f"{stage}/")), key=len)
    maps = [
        made
        for name, found in ticks.items()
        if found == longest and name.startswith(f"{stage}/")
        for made in _maps(name.partition("/")[2], frames_of(record, name))
    ]
    places = axes.get(stage, StepAxis("steps")).places(np.array(longest)).tolist()
    over = axes.get(stage, StepAxis("steps")).title
    labels = [f"{over} {place:,.10g}" for place in places]
    return Microscope("Arrays as the trial keeps them while it trains.", over, places, labels, maps)


def _maps(name: str, frames: list[np.ndarray]) -> list[Map]:
    if len({frame.shape for frame in frames}) > 1 or not frames[0].size or frames[0].dtype.kind not in "fiub":
        return []
    if frames[0].ndim == 3:
        several = range(min(HEADS, len(frames[0])))
        return [each for k in several for each in _maps(f"{name} {k + 1}", [frame[k] for frame in frames])]
    matrices = [np.atleast_2d(frame).astype(np.float64) for frame in frames]
    rows, columns = ([str(k + 1) for k in range(size)] for size in matrices[0].shape)
    return [Map(name, "", matrices, MapAxis("row", rows), MapAxis("column", columns))]


class Maps:
    """Maps of the trials on the page, made when one is asked for, but while the run goes on only as far as is cheap."""

    def __init__(self, feed: Feed):
        self.feed = feed
        self.lock = Lock()  # one at a time: making them competes with the training for cores
        self.made: OrderedDict[int, tuple[tuple[int, str], bytes]] = OrderedDict()
        self.spent = self.last = 0.0

    def of(self, id: int) -> bytes | None:
        """JSON for the page, "null" where a trial has nothing to see; None where there is no such trial.

        It may be older than the trial is: its `state` names what it was made from. `LATER` where there is none yet.
        """
        row = self.feed.row(id)
        if row is None:
            return None
        with self.lock:
            state = (row.arrays, row.status)
            known = self.made.get(id)
            if known is not None and (known[0] == state or not self._affordable()):
                return known[1]
            if not self._affordable():
                return LATER
            began = time.thread_time()
            text = to_json(self._make(row, state)).encode()
            self.last = time.thread_time() - began
            self.spent += self.last
            self.made[id] = (state, text)
            self.made.move_to_end(id)
            while len(self.made) > KEPT:
                self.made.popitem(last=False)
            return text

    def _affordable(self) -> bool:
        allowed = SHARE * (time.monotonic() - self.feed.began) + FREE
        return self.feed.facts["over"] or self.spent + self.last <= allowed

    def _make(self, row: TrialRow, state: tuple[int, str]) -> Any:
        outcome = row.outcome
        try:
            record: Any = Unfinished(row.trial, outcome) if outcome is not None else self.feed.store.read(row.trial)
            seen = seen_of(row.trial, record)
            return None if seen is None else {**scope_data(seen), "state": list(state)}
        except StoreError:
            return None
