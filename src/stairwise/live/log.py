"""`--log`: the measurements of a run where people look: TensorBoard's event files, Weights & Biases, or CSV.

The training thread leaves a reference to what is measured and goes on. A thread of the log takes over what is new, once
a second and when a trial ends. Every trial is a run of its own, under a name that ends in its digest. A trial that is
run again, or resumed, replaces what was logged of it. Trials that the store has already are logged from there, as are
those that a cluster ran.
"""

import importlib.util
import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from stairwise.config import ConfigError, as_dict, one_line
from stairwise.extras import missing
from stairwise.lab.contract.experiment import Trial
from stairwise.lab.progress import Silent, TwoDisplays
from stairwise.lab.run.grid import GridAxis
from stairwise.lab.run.sweep_progress import cell_name
from stairwise.lab.store.files import StoreError
from stairwise.lab.store.store import Store
from stairwise.train.stage import Outcome

KINDS = ("tensorboard", "wandb", "csv")
FOLDER = "logs"
PAUSE = 1.0  # seconds between two takings


class Row(NamedTuple):
    """One measurement."""

    stage: str
    name: str
    step: int
    value: float


class Writer(Protocol):
    """Where the measurements of one trial go."""

    def add(self, rows: Sequence[Row]) -> None: ...

    def close(self) -> None: ...


def check_kind(kind: str) -> None:
    """ConfigError in one line where a package is missing."""
    if kind not in KINDS:
        raise ConfigError(f"log={kind} must be one of {', '.join(KINDS)}")
    if kind != "csv" and importlib.util.find_spec(kind) is None:
        raise ConfigError(missing(f"--log {kind}", "log"))


# --- where measurements go --------------------------------------------------------------------------------------------


class Csv:
    """A file with the columns stage, metric, step, value."""

    def __init__(self, path: Path, trial: Trial):
        import csv

        path.parent.mkdir(parents=True, exist_ok=True)
        self.file = path.with_name(f"{path.name}.csv").open("w", newline="", encoding="utf-8")
        self.table = csv.writer(self.file)
        self.table.writerow(("stage", "metric", "step", "value"))

    def add(self, rows: Sequence[Row]) -> None:
        self.table.writerows(rows)
        self.file.flush()

    def close(self) -> None:
        self.file.close()


class TensorBoard:
    """Event files in a folder per trial; the tag of a metric is stage/metric."""

    def __init__(self, path: Path, trial: Trial):
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        path.mkdir(parents=True, exist_ok=True)
        for old in path.glob("events.out.tfevents.*"):
            old.unlink()
        self.events = EventFileWriter(str(path))

    def add(self, rows: Sequence[Row]) -> None:
        from tensorboard.compat.proto.event_pb2 import Event  # pyright: ignore[reportAttributeAccessIssue]
        from tensorboard.compat.proto.summary_pb2 import Summary  # pyright: ignore[reportAttributeAccessIssue]

        for (stage, step), group in groupby(rows, key=lambda row: (row.stage, row.step)):
            values = [Summary.Value(tag=f"{stage}/{row.name}", simple_value=row.value) for row in group]
            self.events.add_event(Event(wall_time=time.time(), step=step, summary=Summary(value=values)))
        self.events.flush()

    def close(self) -> None:
        self.events.close()


class Wandb:
    """A run of Weights & Biases per trial, of the project `stairwise`, in the group of its experiment."""

    def __init__(self, path: Path, trial: Trial):
        import wandb  # pyright: ignore[reportMissingImports]

        path.parent.mkdir(parents=True, exist_ok=True)
        self.run: Any = wandb.init(
            project="stairwise",
            group=trial.experiment.name,
            name=path.name,
            config={**as_dict(trial.config), "seed": trial.seed, "digest": trial.digest},
            dir=str(path.parent),
            reinit="create_new",
        )
        self.stages: set[str] = set()

    def add(self, rows: Sequence[Row]) -> None:
        for (stage, step), group in groupby(rows, key=lambda row: (row.stage, row.step)):
            if stage not in self.stages:
                self.stages.add(stage)
                self.run.define_metric(f"{stage}/*", step_metric=f"{stage}/step")
            self.run.log({f"{stage}/step": step} | {f"{stage}/{row.name}": row.value for row in group})

    def close(self) -> None:
        self.run.finish()


WRITERS: dict[str, Any] = {"tensorboard": TensorBoard, "wandb": Wandb, "csv": Csv}


# --- the log of a run -------------------------------------------------------------------------------------------------


class Followed:
    """A trial that is logged: where to, and how much of it has been."""

    def __init__(self, trial: Trial, outcome: Outcome | None):
        self.trial, self.outcome = trial, outcome
        self.taken, self.over = 0, False
        self.writer: Writer | None = None


class Log(Silent):
    """A display of a run that writes what is measured; `close` waits until all of it is written."""

    def __init__(self, kind: str, folder: Path, store: Store, axes: Sequence[GridAxis] = ()):
        self.kind, self.folder, self.store, self.axes = kind, folder, store, axes
        self.lock = threading.Lock()
        self.followed: dict[str, Followed] = {}
        self.wake, self.closing = threading.Event(), False
        self.error = ""
        self.thread = threading.Thread(target=self._work, name="stairwise-log", daemon=True)
        self.thread.start()

    # called by the thread that trains

    def measured(self, trials: Sequence[Trial], outcomes: Sequence[Outcome]) -> None:
        with self.lock:
            for trial, outcome in zip(trials, outcomes, strict=False):  # a group may be filled up with dummies
                known = self.followed.get(trial.digest)
                if known is None:
                    self.followed[trial.digest] = Followed(trial, outcome)
                else:
                    known.outcome = outcome

    def concluded(self, trial: Trial, status: str, message: str, finals: Any, called: str | None = None) -> None:
        self._ended(trial)

    def stored(self, trials: Sequence[Trial]) -> None:
        """Trials that the store has already."""
        for trial in trials:
            self._ended(trial)

    def _ended(self, trial: Trial) -> None:
        with self.lock:
            self.followed.setdefault(trial.digest, Followed(trial, None)).over = True
        self.wake.set()

    def close(self) -> str:
        """Writes the rest; what went wrong, or nothing."""
        self.closing = True
        self.wake.set()
        self.thread.join()
        return self.error

    # called by the thread of the log

    def _work(self) -> None:
        try:
            while not self.closing:
                self.wake.wait(PAUSE)
                self.wake.clear()
                self._take_all()
            self._take_all()
            for each in self.followed.values():
                if each.writer is not None:
                    each.writer.close()
        except Exception as error:  # a full disk, a service that is away: the training goes on
            self.error = f"--log {self.kind}: {type(error).__name__}: {one_line(str(error))[:200]}"

    def _take_all(self) -> None:
        with self.lock:
            known = [(each, each.over) for each in self.followed.values()]
        for each, over in known:
            rows = self._new(each, over)
            if rows:
                writer = each.writer = each.writer or WRITERS[self.kind](self.path(each.trial), each.trial)
                writer.add(rows)
            if over:
                if each.writer is not None:
                    each.writer.close()
                with self.lock:
                    del self.followed[each.trial.digest]

    def _new(self, each: Followed, over: bool) -> list[Row]:
        """What has been measured since the last time; a list may grow meanwhile, the values last."""
        if each.outcome is None:
            return self._read(each.trial) if over else []
        found, start = each.outcome, each.taken
        each.taken = end = len(found.value)
        columns = (found.stage, found.name, found.step, found.value)
        return [Row(*row) for row in zip(*(column[start:end] for column in columns), strict=True)]

    def _read(self, trial: Trial) -> list[Row]:
        try:
            columns = self.store.read(trial).table().select(list(Row._fields)).to_pydict().values()
        except StoreError:  # it failed before it measured anything
            return []
        return [Row(*row) for row in zip(*columns, strict=True)]

    def path(self, trial: Trial) -> Path:
        """FOLDER/PAPER/EXPERIMENT/CELL-seed-N-DIGEST, of characters that every file system takes."""
        called = re.sub(r"[^\w.=+-]+", "-", cell_name(trial, self.axes)).strip("-")[:80]
        name = "-".join(filter(None, (called, f"seed-{trial.seed}", trial.digest[:8])))
        return self.folder.joinpath(*trial.experiment.name.split("/"), name)


@contextmanager
def logged(
    display: Silent, kind: str, folder: Path, store: Store, trials: Sequence[Trial], *, axes: Any = (), fresh: bool
) -> Iterator[Silent]:
    """A display that also logs; what goes wrong with the log is said once, at the end."""
    from stairwise.lab.run.stale import made_now

    log = Log(kind, folder, store, axes)
    settled = made_now(store) if fresh else store.has
    log.stored([trial for trial in trials if settled(trial)])
    try:
        yield TwoDisplays(display, log)
    finally:
        said = log.close()
        if said:
            display.warn(f"stairwise: {said}")
