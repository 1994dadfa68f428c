"""Sweeps: a grid of config fields, planned into few programs, run here or on a cluster, stored one by one."""

import threading
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, NamedTuple

from stairwise.config import ConfigError, named
from stairwise.lab import registry
from stairwise.lab.api import Result, RunRequest, Share, count_left, seed_list, shard_of
from stairwise.lab.cluster.engine import Cluster
from stairwise.lab.contract.experiment import Experiment, Figure, Trial
from stairwise.lab.progress import Silent, for_people, watched
from stairwise.lab.run import grid as grids
from stairwise.lab.run.execute import execute
from stairwise.lab.run.grid import GridAxis
from stairwise.lab.run.plan import once, tally
from stairwise.lab.run.settings import as_toml
from stairwise.lab.run.stale import is_stale
from stairwise.lab.run.sweep_progress import BAD, Objective, SweepProgress, settings
from stairwise.lab.store.entries import is_result
from stairwise.lab.store.store import Store
from stairwise.lab.store.trial import FAILED, StoredTrial
from stairwise.lab.worker import in_worker

WRITERS = ("workers", "client")


class LookedUp(NamedTuple):
    """What the store has of a request: the trials that are to run, those that stay, and digests of those to replace."""

    left: list[Trial]
    there: dict[str, StoredTrial]
    retried: set[str]


@dataclass(frozen=True)
class SweepRequest(RunRequest):
    """What a sweep asks for, checked; `changes` has the grid as well, as it was given."""

    @classmethod
    def of(  # type: ignore[override]
        cls,
        target: str | Experiment | Figure,
        grid: Mapping[str, Any],
        preset: str = "quick",
        seeds: int | Sequence[int] | None = None,
        changes: Mapping[str, Any] | None = None,
        *,
        shard: str | None = None,
        group: int | None = None,
        progress: Silent | None = None,
    ) -> "SweepRequest":
        experiment = registry.experiment(target)
        config = experiment.preset(preset).config
        axes, changes = grids.axes(config, grid), named(config, changes or {})
        twice = sorted({axis.path for axis in axes} & set(changes))
        if twice:
            raise ConfigError(f"{twice[0]} is given both as a field and in the grid")
        if group is not None and not 1 <= group <= 65536:
            raise ConfigError(f"group={group} must lie in 1..65536")
        asked = grids.trials(experiment, preset, axes, seed_list(seeds), changes, progress)
        part, trials = shard_of(shard, asked, group or experiment.preset(preset).group)
        shown = {axis.path: list(axis.values) for axis in axes}
        told = as_toml(experiment.name, preset, experiment.seeds(preset, seed_list(seeds)), config, changes, grid=shown)
        return cls(experiment, preset, {**changes, **grid}, trials, asked, part, group, axes=axes, settings=told)

    def look(self, store: Store, retry_failed: bool, fresh: bool = False) -> "LookedUp":
        """Each trial of the store, opened once: what is there and stays, and what is to run."""
        left, there, retried = [], {}, set()
        for trial in self.trials:
            found = store.peek(trial)
            bad = found is not None and found.status == FAILED
            if found is None or (retry_failed and bad) or (fresh and is_stale(found, self.experiment)):
                left.append(trial)
                retried |= {trial.digest} if found is not None else set()
            else:
                there[trial.digest] = found
        return LookedUp(left, there, retried)


@dataclass(frozen=True, repr=False)
class Sweep(Result):
    """The stored trials that a sweep asked for, those that failed included."""

    axes: Sequence[GridAxis] = ()
    objective: Objective = Objective()

    @property
    def bad(self) -> list[StoredTrial]:
        """The trials that failed, or that a NaN ended; `run["message"]` says why."""
        return [record for record in self.records if record.status in BAD]

    @property
    def objective_is_unknown(self) -> bool:
        """Whether no trial has the metric that was asked for."""
        metric = self.objective.metric
        return bool(metric and self.records) and not any(metric in record.names() for record in self.records)

    def best(self, metric: str | None = None, highest: bool = False) -> StoredTrial | None:
        """The trial with the lowest (or highest) last value of a metric, by default of the sweep's objective."""
        return (Objective(metric, highest) if metric else self.objective).best(self.records)

    def rows(self) -> list[dict[str, Any]]:
        """One row per trial: the grid's fields, arm, seed, how it ended, and the last value of each metric."""
        return [
            {
                **settings(record, self.axes),
                "arm": record.arm,
                "seed": record.seed,
                "status": record.status,
                "message": record.run.get("message", ""),
                "digest": record.digest,
                **record.finals(),
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
    shard: str | None = None,
    retry_failed: bool = False,
    fresh: bool = False,
    best: str | None = None,
    cluster: str | None = None,
    cluster_config: str | None = None,
    cluster_timeout: float | None = None,
    writer: str = "workers",
    progress: Silent | None = None,
    command: str | None = None,
    chunk: int | None = None,
    save_every: float = 10.0,
    **fields: Any,
) -> Sweep:
    """Run an experiment at every combination of the grid's values, with every arm and seed of the preset.

    Other fields are set by keyword (`task__length=30`) or by dotted path in `changes`.

    `grid` maps fields to lists, or to texts such as "0.1,0.3", "8:64:8", "1:64:x2", "1e-4:1e-1:log7". What the store
    has is not run again (with `fresh`: unless other code has made it); a trial that raises or diverges is stored as
    such and the rest goes on. `cluster` is None (this process), "local:4", "tcp://host:8786" or "slurm";
    `writer="client"` has the workers send their results. `shard="2/3"` runs the second third of the trials; equal
    sweeps on one store share the work without it.
    """
    changes = {**(changes or {}), **{path.replace("__", "."): value for path, value in fields.items()}}
    request = SweepRequest.of(target, grid, preset, seeds, changes, shard=shard, group=group)
    call = f"sw.sweep({request.experiment.name!r}, {dict(grid)!r}, {preset!r}, seeds={seeds!r})"
    remote = None if cluster is None else Cluster.parse(cluster, cluster_config, cluster_timeout)
    chosen = {"retry_failed": retry_failed, "fresh": fresh, "best": best, "writer": writer}
    chosen |= {"progress": progress or for_people(), "save_every": save_every}
    chosen |= {} if chunk is None else {"chunk": chunk}  # workers of a cluster choose their own
    return perform_sweep(request, command or call, store=store, remote=remote, **chosen)


def check_writer(writer: str) -> None:
    if writer not in WRITERS:
        raise ConfigError(f"writer={writer} must be one of {', '.join(WRITERS)}")


def perform_sweep(
    request: SweepRequest,
    command: str,
    *,
    store: Store | str | None = None,
    retry_failed: bool = False,
    fresh: bool = False,
    best: str | None = None,
    remote: Cluster | None = None,
    writer: str = "workers",
    progress: Silent | None = None,
    **options: Any,
) -> Sweep:
    """Run what a sweep asks for and the store does not have; `command` is what asked for it, for the record."""
    objective = Objective.parse(best)
    check_writer(writer)
    board = SweepProgress(progress or Silent(), request.axes, objective)

    def run(looked: LookedUp, opened: Store, stop: threading.Event) -> tuple[int, int]:
        settled = once(_settled(opened, looked.retried, fresh), looked.there)
        common = {"settled": settled, "progress": board, "stop": stop, **options}
        if remote is not None:
            return remote.execute(request.trials, opened, writer, request.preset_group, request.group, **common)
        from stairwise.lab.run.estimate import widths

        width = widths(request.preset_group, request.group)
        return execute(request.trials, opened, width=width, keep_failures=True, **common)

    def work(stop: threading.Event) -> Sweep:
        if remote is not None:
            reader = store if isinstance(store, Store) else Store.open(store, create=False)
            count = lambda: len(request.look(reader, retry_failed, fresh).left)  # noqa: E731
            remote.connect(request.experiment, stop, board, count)  # before anything is written
        try:
            opened = store if isinstance(store, Store) else Store.open(store)
            looked = request.look(opened, retry_failed, fresh)
            ran = (0, 0)
            entry = _entry(request, command)
            if looked.left or opened.unfinished(entry):
                with opened.recorded(entry):
                    if looked.left:
                        ran = run(looked, opened, stop)
                opened.index().refresh()
        finally:
            if remote is not None:
                remote.close()
        waiting = count_left(request.asked, request.trials, lambda trial: opened.peek(trial) is not None)
        share = Share(*ran, request.shard, len(request.asked), waiting)
        there = looked.there
        records = [
            there[trial.digest].of(trial) if trial.digest in there else opened.read(trial) for trial in request.trials
        ]
        return Sweep(request.experiment, records, share=share, axes=request.axes, objective=objective)

    return in_worker(work)


def _settled(store: Store, retried: Set[str], fresh: bool):
    """Whether a trial need not run: it has a record, or, where its failure is to be retried, a result.

    With `fresh` the present code must have made it; a trial that has been run once and failed is not run again.
    """

    def settled(trial: Trial) -> bool:
        found = store.peek(trial)
        if found is None or (fresh and is_stale(found, trial.experiment)):
            return False
        return found.status != FAILED or trial.digest not in retried

    return settled


def _entry(request: SweepRequest, command: str) -> dict[str, Any]:
    shown = {axis.path: list(axis.values) for axis in request.axes}
    return {
        "experiment": request.experiment.name,
        "preset": request.preset,
        "command": command,
        "grid": shown,
        "changes": {path: str(value) for path, value in request.changes.items()},
        "settings": request.settings,
        "trials": [trial.digest for trial in request.trials],
    }


# --- the plan, shown before anything runs -----------------------------------------------------------------------------


def preview(
    request: SweepRequest,
    store: Store,
    *,
    group: int | None = None,
    retry_failed: bool = False,
    fresh: bool = False,
    workers: int | None = None,
    progress: Silent | None = None,
) -> dict[str, Any]:
    """How many trials and programs, what they take of memory, and how long stored trials of the kind took."""
    from stairwise.lab.run.estimate import device_bytes, largest_group, seconds, widths

    peek, failed, others = store.peeks(), 0, 0

    def stored(trial: Trial) -> bool:
        nonlocal failed, others
        found = peek(trial)
        own = trial.experiment.name == request.experiment.name
        if found is not None and is_stale(found, trial.experiment):
            others += own
            if fresh:
                return False
        if found is not None and found.status == FAILED and own:
            failed += not retry_failed
            return not retry_failed
        return is_result(found)

    looked = watched(request.trials, len(request.trials), "looking", progress)
    left, everything = tally(looked, stored, widths(request.preset_group, group))
    needed = largest_group(everything)
    room, total, to_run = device_bytes(), seconds(left, store), left.trials
    return {
        "experiment": request.experiment.name,
        "preset": request.preset,
        "grid": {axis.path: list(axis.values) for axis in request.axes},
        **({} if request.shard is None else {"shard": f"{request.shard} of {len(request.asked)} trials"}),
        "trials": len(request.trials),
        "stored": len(request.trials) - to_run - failed,
        "failed before": failed,
        "made by other code": others,
        "to run": to_run,
        "programs": len(everything.count),
        "groups": everything.groups,
        "group width": max(everything.side_by_side.values(), default=None),
        "megabytes of the largest group": None if needed is None else float(f"{needed / 1e6:.3g}"),
        "megabytes of the device": None if room is None else round(room / 1e6),
        "seconds (from stored trials)": None if total is None else round(total / (workers or 1), 1),
    }
