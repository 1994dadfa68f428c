"""The in-process executor: runs the planner's groups on the local device and stores each trial as it completes."""

import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stairwise.lab import provenance, registry
from stairwise.lab.contract import Outcome, Trial, digest_of
from stairwise.lab.plan import Group, plan
from stairwise.lab.progress import Silent
from stairwise.lab.store import Store
from stairwise.lazy import resolve

CACHE_BYTES = 2**30


def prepare_jax() -> None:
    """Switch on JAX's persistent compilation cache in the user's cache folder (unless the user has set one)."""
    import jax

    if not jax.config.jax_compilation_cache_dir:  # type: ignore[attr-defined]
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        jax.config.update("jax_compilation_cache_dir", str(base / "stairwise" / "xla"))
        jax.config.update("jax_compilation_cache_max_size", CACHE_BYTES)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.3)


def device() -> dict[str, Any]:
    """The device that programs run on."""
    import jax

    first = jax.devices()[0]
    return {"platform": first.platform, "kind": first.device_kind, "count": len(jax.devices())}


def group_width(preset_group: int) -> int:
    """How many trials share a program: the preset's number on a GPU, one on a CPU (where vmap gains nothing)."""
    return 1 if device()["platform"] == "cpu" else preset_group


def execute(
    trials: Sequence[Trial],
    store: Store,
    *,
    preset_group: int = 1,
    width: int | None = None,
    progress: Silent | None = None,
    stop: threading.Event | None = None,
    chunk: int | None = None,
    save_every: float = 10.0,
) -> None:
    """Run every trial that is not in the store yet; a trial is stored as soon as its group is done."""
    from stairwise.train.loop import Interrupted

    progress, stop = progress or Silent(), stop or threading.Event()
    missing = [trial for trial in trials if not store.has(trial)]
    what = trials[0].experiment.name if trials else "nothing"
    progress.begin(what, len(trials), len(trials) - len(missing))
    try:
        if not missing:
            return
        progress.status("starting JAX")
        prepare_jax()
        width = width or group_width(preset_group)
        programs: dict[tuple[str, int], Any] = {}
        for group in plan(missing, store.has, width):
            if stop.is_set():
                raise Interrupted
            _execute_group(group, store, programs, progress, stop, chunk, save_every)
    finally:
        progress.end()


def _execute_group(group: Group, store: Store, programs, progress: Silent, stop, chunk, save_every) -> None:
    import jax

    experiment = group.experiment
    environment = {
        "device": device(),
        "group_width": group.width,
        "precision": experiment.precision,
        "source_hash": provenance.source_hash(
            registry.modules().get(experiment.paper, experiment.program.partition(":")[0])
        ),
        "versions": provenance.versions(),
        "machine": provenance.machine(),
    }
    started, began = time.time(), time.monotonic()
    with jax.enable_x64(experiment.precision == 64):
        if experiment.study:
            outcomes = [_study(trial, store) for trial in group.trials]
            checkpoint = None
        else:
            checkpoint = store.checkpoint(_group_digest(group, environment))
            hooks = _hooks(group, checkpoint, progress, stop, chunk, save_every)
            outcomes = _program(group, programs).run([_member(trial, store) for trial in group.trials], hooks)
    seconds = time.monotonic() - began
    timing = {"started": started, "seconds": seconds, "seconds_per_trial": seconds / len(group.trials)}
    for trial, outcome in zip(group.trials, outcomes, strict=True):
        store.write(trial, outcome, environment | {"timing": timing})
        progress.finished(trial.label, outcome.status)
    if checkpoint is not None:
        checkpoint.remove()


def _program(group: Group, programs):
    from stairwise.train.loop import Program

    trial = group.trials[0]
    key = (trial.program_key, group.width)
    if key not in programs:
        programs.clear()  # groups come ordered by program: an old one is never asked for again
        programs[key] = Program(resolve(group.experiment.program)(trial.static), group.width)
    return programs[key]


def _member(trial: Trial, store: Store):
    from stairwise.train.loop import Member

    return Member(trial.seed, trial.numbers, _upstream(trial, store) or None)


def _upstream(trial: Trial, store: Store) -> dict[str, dict[str, np.ndarray]]:
    """The arrays of the trials that this one starts from, by name."""
    found = {name: store.read(needed) for name, needed in trial.needs.items()}
    return {name: {array: record.array(array) for array in record.arrays()} for name, record in found.items()}


def _study(trial: Trial, store: Store) -> Outcome:
    compute = resolve(trial.experiment.program)
    return (
        compute(trial.config, trial.seed, _upstream(trial, store)) if trial.needs else compute(trial.config, trial.seed)
    )


def _group_digest(group: Group, environment: dict[str, Any]) -> str:
    """Names a checkpoint: the same trials in the same group of the same program on the same kind of machine."""
    identity = [[trial.digest for trial in group.trials], environment]
    return digest_of(identity)


def _hooks(group: Group, checkpoint, progress: Silent, stop: threading.Event, chunk, save_every):
    from stairwise.train.loop import Hooks

    class Host(Hooks):
        def compiling(self, stage):
            progress.status(f"compiling {stage}")

        def progress(self, stage, tick, max_ticks, metrics):
            progress.ticks(f"{group.label} {stage}", tick, max_ticks, metrics)

        def stop(self):
            return stop.is_set()

        def save(self, arrays, meta):
            checkpoint.save(arrays, meta)

        def load(self):
            return checkpoint.load()

    host = Host()
    host.chunk, host.save_every = chunk, save_every
    return host
