"""Sweeps: a grid of config fields, planned into few programs, run here or on a cluster, stored one by one."""

import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stairwise.lab import grid as grids
from stairwise.lab import registry
from stairwise.lab.api import Result, seed_list
from stairwise.lab.board import BAD, Aim, Board, settings
from stairwise.lab.config import ConfigError, named
from stairwise.lab.contract import Experiment, Figure, Trial
from stairwise.lab.execute import execute
from stairwise.lab.grid import Axis
from stairwise.lab.plan import plan
from stairwise.lab.progress import Silent
from stairwise.lab.record import FAILED, StoredTrial
from stairwise.lab.stale import count, is_stale
from stairwise.lab.store import Store
from stairwise.lab.worker import in_worker

WRITERS = ("workers", "client")


@dataclass(frozen=True)
class Request:
    """What a sweep asks for, checked."""

    experiment: Experiment
    preset: str
    axes: list[Axis]
    trials: list[Trial]

    @classmethod
    def of(
        cls,
        target: str | Experiment | Figure,
        grid: Mapping[str, Any],
        preset: str = "quick",
        seeds: int | Sequence[int] | None = None,
        changes: Mapping[str, Any] | None = None,
    ) -> "Request":
        experiment = registry.experiment(target)
        config = experiment.preset(preset).config
        axes, changes = grids.axes(config, grid), named(config, changes or {})
        twice = sorted({axis.path for axis in axes} & set(changes))
        if twice:
            raise ConfigError(f"{twice[0]} is given both as a field and in the grid")
        return cls(experiment, preset, axes, grids.trials(experiment, preset, axes, seed_list(seeds), changes))

    @property
    def group(self) -> int:
        return self.experiment.preset(self.preset).group

    def left(self, store: Store, retry_failed: bool, fresh: bool = False) -> tuple[list[Trial], int]:
        """The trials that are to run, and how many of the others are recorded as failed."""
        left, failed = [], 0
        for trial in self.trials:
            found = store.peek(trial)
            bad = found is not None and found.status == FAILED
            if found is None or (retry_failed and bad) or (fresh and is_stale(found, self.experiment)):
                left.append(trial)
            else:
                failed += bad
        return left, failed


@dataclass(frozen=True)
class Sweep(Result):
    """The stored trials that a sweep asked for, those that failed included."""

    axes: list[Axis] = field(default_factory=list)
    aim: Aim = Aim()

    @property
    def statuses(self) -> Counter[str]:
        return Counter(record.status for record in self.records)

    @property
    def bad(self) -> list[StoredTrial]:
        """The trials that failed or diverged; `run["message"]` says why."""
        return [record for record in self.records if record.status in BAD]

    def best(self, metric: str | None = None, highest: bool = False) -> StoredTrial | None:
        """The trial with the lowest (or highest) last value of a metric, by default of the first that is a loss."""
        aim = Aim(metric, highest) if metric else self.aim
        chosen: tuple[float, StoredTrial] | None = None
        for record in self.records:
            found = aim.of({name: record.final(name) for name in record.names()}) if record.status not in BAD else None
            if found is not None and (chosen is None or aim.better(found[1], chosen[0])):
                chosen = (found[1], record)
        return None if chosen is None else chosen[1]

    def rows(self) -> list[dict[str, Any]]:
        """One row a trial: the grid's fields, arm, seed, how it ended, and the last value of each metric."""
        return [
            {
                **settings(record, self.axes),
                "arm": record.arm,
                "seed": record.seed,
                "status": record.status,
                "message": record.run.get("message", ""),
                "digest": record.digest,
                **{name: record.final(name) for name in record.names()},
            }
            for record in self.records
        ]


def sweep(
    target: str | Experiment | Figure,
    grid: Mapping[str, Any],
    preset: str = "quick",
    seeds: int | Sequence[int] | None = None,
    changes: Mapping[str, Any] | None = None,
    *,
    store: Store | str | None = None,
    group: int | None = None,
    retry_failed: bool = False,
    fresh: bool = False,
    best: str | None = None,
    cluster: str | None = None,
    cluster_config: str | None = None,
    cluster_timeout: float = 10.0,
    writer: str = "workers",
    progress: Silent | None = None,
    command: str | None = None,
    **options: Any,
) -> Sweep:
    """Run an experiment at every combination of the grid's values, with every arm and seed of the preset.

    `grid` maps fields to lists, or to texts such as "0.1,0.3", "8:64:8", "1:64:x2", "1e-4:1e-1:log7". What the store
    has is not run again (with `fresh`: unless other code has made it); a trial that raises or diverges is stored as
    such and the rest goes on. `cluster` is None (this process), "local:4", "tcp://host:8786" or "slurm";
    `writer="client"` has the workers send their results.
    """
    request, aim = Request.of(target, grid, preset, seeds, changes), Aim.parse(best)
    if group is not None and not 1 <= group <= 65536:
        raise ConfigError(f"group={group} must lie in 1..65536")
    if writer not in WRITERS:
        raise ConfigError(f"writer={writer} must be one of {', '.join(WRITERS)}")
    remote = None
    if cluster is not None:
        from stairwise.lab.cluster import Cluster

        remote = Cluster.parse(cluster, cluster_config, cluster_timeout)
    board = Board(progress or Silent(), request.axes, aim)
    call = f"sw.sweep({request.experiment.name!r}, {dict(grid)!r}, {preset!r}, seeds={seeds!r})"

    def work(stop: threading.Event) -> tuple[Store, list[StoredTrial]]:
        began = time.time()
        if remote is not None:
            remote.connect(request.experiment, stop)  # before anything is written
        try:
            opened = store if isinstance(store, Store) else Store.open(store)
            left, _ = request.left(opened, retry_failed, fresh)
            if left:
                entry = _entry(request, grid, changes, command or call, began)
                entry["id"] = opened.write_run(entry)
                common = {"settled": _settled(opened, left, fresh), "progress": board, "stop": stop, **options}
                if remote is not None:
                    remote.execute(request.trials, opened, writer, request.group, group, **common)
                else:
                    from stairwise.lab.estimate import widths

                    execute(request.trials, opened, width=widths(request.group, group), keep_failures=True, **common)
                opened.write_run({**entry, "seconds": time.time() - began})
                opened.index().refresh()
        finally:
            if remote is not None:
                remote.close()
        return opened, [opened.read(trial) for trial in request.trials]

    _, records = in_worker(work)
    return Sweep(request.experiment, records, axes=request.axes, aim=aim)


def _settled(store: Store, left: Sequence[Trial], fresh: bool):
    """Whether a trial need not run: it has a record, or, where its failure is to be retried, a result.

    With `fresh` the present code must have made it; a trial that has been run once and failed is not run again.
    """
    retried = {trial.digest for trial in left if store.peek(trial) is not None}

    def settled(trial: Trial) -> bool:
        found = store.peek(trial)
        if found is None or (fresh and is_stale(found, trial.experiment)):
            return False
        return found.status != FAILED or trial.digest not in retried

    return settled


def _entry(request: Request, grid: Mapping[str, Any], changes, command: str, began: float) -> dict[str, Any]:
    shown = {axis.path: list(axis.values) for axis in request.axes}
    return {
        "experiment": request.experiment.name,
        "preset": request.preset,
        "command": command,
        "grid": shown,
        "changes": {path: str(value) for path, value in {**(changes or {}), **grid}.items()},
        "trials": [trial.digest for trial in request.trials],
        "started": began,
        "seconds": None,
    }


# --- the plan, shown before anything runs -----------------------------------------------------------------------------


def preview(
    request: Request,
    store: Store,
    *,
    group: int | None = None,
    retry_failed: bool = False,
    fresh: bool = False,
    workers: int | None = None,
) -> dict[str, Any]:
    """How many trials and programs, what they take of memory, and how long stored trials of the kind took."""
    from stairwise.lab.estimate import device_bytes, largest_group, seconds, widths

    left, failed = request.left(store, retry_failed, fresh)
    stored = [found for trial in request.trials if (found := store.peek(trial)) is not None]
    width = widths(request.group, group)
    missing = {trial.digest for trial in left}
    groups = plan(left, lambda trial: trial.digest not in missing and store.has(trial), width)
    needed = largest_group(groups)
    room, total = device_bytes(), seconds(left, store)
    return {
        "experiment": request.experiment.name,
        "preset": request.preset,
        "grid": {axis.path: list(axis.values) for axis in request.axes},
        "trials": len(request.trials),
        "stored": len(request.trials) - len(left) - failed,
        "failed before": failed,
        "made by other code": count(stored, request.experiment),
        "to run": len(left),
        "programs": len({each.trials[0].program_key for each in groups}),
        "groups": len(groups),
        "group width": max((each.width for each in groups), default=None),
        "megabytes of the largest group": None if needed is None else float(f"{needed / 1e6:.3g}"),
        "megabytes of the device": None if room is None else round(room / 1e6),
        "seconds (from stored trials)": None if total is None else round(total / (workers or 1), 1),
    }
