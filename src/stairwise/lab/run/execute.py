"""Running groups of trials on this process's devices, and the in-process executor that stores each as it completes."""

import gc
import hashlib
import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from stairwise.config import one_line
from stairwise.lab import registry
from stairwise.lab.contract.code import code_of
from stairwise.lab.contract.experiment import Experiment, Trial, digest_of
from stairwise.lab.contract.paper import Construction
from stairwise.lab.progress import Silent
from stairwise.lab.run.plan import Group, Width, cut, outstanding
from stairwise.lab.run.sharing import Reservations, Work
from stairwise.lab.run.writing import TrialWriter
from stairwise.lab.store import provenance
from stairwise.lab.store.checkpoint import Checkpoint
from stairwise.lab.store.files import StoreError, scratch_name
from stairwise.lab.store.store import Store
from stairwise.lab.store.trial import FAILED
from stairwise.train.stage import Outcome

CACHE_BYTES = 2**30
MESSAGE_LENGTH = 500
CHANGED = {  # what a checkpoint must share with the run that goes on from it
    "source_hash": "other code",
    "versions": "other versions",
    "xla_flags": "other compiler flags",
    "device": "another device",
    "machine": "another machine",
    "group_width": "groups of another size",
    "precision": "another precision",
}
OUT_OF_MEMORY = ("RESOURCE_EXHAUSTED", "Out of memory", "out of memory")


def cache_folder() -> Path:
    """Where what can be made again is kept between commands."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "stairwise"


def prepare_jax() -> None:
    """Switch on JAX's persistent compilation cache in the user's cache folder (unless the user has set one)."""
    import jax

    if not jax.config.jax_compilation_cache_dir:  # type: ignore[attr-defined]
        jax.config.update("jax_compilation_cache_dir", str(cache_folder() / "xla"))
        jax.config.update("jax_compilation_cache_max_size", CACHE_BYTES)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.3)


def precision(experiment: Experiment | Construction) -> AbstractContextManager[Any]:
    """float64 switched on, or off, as the experiment asks; for this thread only."""
    import jax

    return jax.enable_x64(experiment.precision == 64)


def device() -> dict[str, Any]:
    """The device that programs run on."""
    import jax

    first = jax.devices()[0]
    return {"platform": first.platform, "kind": first.device_kind, "count": len(jax.devices())}


def group_width(preset_group: int) -> int:
    """How many trials share a program: the preset's number on a GPU, one on a CPU (where vmap gains nothing).

    With several local devices, the next multiple of their number, so that each has its share.
    """
    import jax

    devices = jax.local_device_count()
    base = 1 if device()["platform"] == "cpu" else preset_group
    return -(-base // devices) * devices


def execute(
    trials: Sequence[Trial],
    store: Store,
    *,
    preset_group: int = 1,
    width: int | Width | None = None,
    progress: Silent | None = None,
    stop: threading.Event | None = None,
    settled: Callable[[Trial], bool] | None = None,
    keep_failures: bool = False,
    **options: Any,
) -> tuple[int, int]:
    """Run every trial that is not in the store yet; a trial is stored as soon as its group is done.

    With `keep_failures` a trial that raises is stored as failed and the others go on; otherwise the error ends it all.
    `settled` says which trials need not run (by default: those with a result). Processes that share the store share
    the work; returned is how many trials this one has run, and how many others have meanwhile.
    """
    from stairwise.train.loop import Interrupted

    progress, stop, settled = progress or Silent(), stop or threading.Event(), settled or store.has
    missing, left = outstanding(trials, settled)
    stored = len(trials) - len(missing)
    progress.begin(trials[0].experiment.name if trials else "nothing", stored + left, stored)
    try:
        if not missing:
            return 0, 0
        progress.status("starting JAX")
        prepare_jax()
        engine = Engine(store, progress=progress, stop=stop, keep_failures=keep_failures, **options)
        with Reservations(store) as reservations:
            work = Work(missing, reservations, settled, width or group_width(preset_group), progress)

            def conclude(done: Done) -> None:
                work.done(done.trial)
                progress.concluded(done.trial, done.outcome.status, done.outcome.message, finals(done.outcome))

            with TrialWriter(store, conclude, at_once=any(trial.needs for trial in missing)) as writer:
                while work.left:
                    if stop.is_set():
                        raise Interrupted
                    group = work.next()
                    if group is None:
                        if not writer.finish():
                            work.wait(stop)
                        continue
                    if 2 * len(group.trials) <= group.width:
                        asked = f"computes {group.width} trials where {len(group.trials)} are asked for"
                        quicker = f"--group {len(group.trials)} is faster (and rounds differently)"
                        progress.warn(f"a group of {group.width} {asked}; {quicker}")
                    for done in engine.run(group, writer.finish):
                        writer.put(done)
        return work.here, work.meanwhile
    finally:
        progress.end()


def finals(outcome: Outcome) -> dict[str, float]:
    """The last value of each metric."""
    return dict(zip(outcome.name, outcome.value, strict=True))


class Done(NamedTuple):
    """A trial, what it left behind, and how it was made."""

    trial: Trial
    outcome: Outcome
    making: dict[str, Any]


class Engine:
    """Runs groups, one after another, on the devices of this process; keeps the latest compiled program.

    A group that does not fit into memory is halved, and so are those after it that share its program. With
    `keep_failures` a group that raises is split, at the same width and so with the same bits, until the trial that
    raises is alone; its outcome is the failure.
    """

    def __init__(
        self,
        store: Store,
        *,
        progress: Silent | None = None,
        stop: threading.Event | None = None,
        keep_failures: bool = False,
        must_save: bool = True,
        chunk: int | None = None,
        save_every: float = 10.0,
        upstream: Callable[[Trial], dict[str, np.ndarray]] | None = None,
    ):
        self.store, self.progress, self.stop = store, progress or Silent(), stop or threading.Event()
        self.keep_failures, self.must_save = keep_failures, must_save
        self.chunk, self.save_every = chunk, save_every
        self.arrays_of = upstream or self._stored_arrays
        self.programs: dict[tuple[str, int], Any] = {}
        self.environments: dict[tuple[str, int], dict[str, Any]] = {}
        self.widths: dict[str, int] = {}

    def run(self, group: Group, written: Callable[[], object] = lambda: None) -> Iterator[Done]:
        """The group's trials with their outcomes, as they are done; every trial once.

        A checkpoint goes when the caller asks for more, and `written` has returned: what was given is stored then.
        """
        from stairwise.train.loop import Interrupted

        if not group.trials:
            return
        key = group.trials[0].program_key
        width = min(group.width, self.widths.get(key, group.width))
        waiting = deque(cut(group.trials, width))
        while waiting:
            part = waiting.popleft()
            try:
                done, checkpoint = self._attempt(part)
            except (Interrupted, StoreError):
                raise
            except Exception as error:
                if out_of_memory(error) and part.width > 1:
                    width = self.widths[key] = part.width // 2
                    self.programs.clear()
                    gc.collect()
                    self.progress.warn(f"out of memory: groups of {width} instead of {part.width}")
                    rest = [*part.trials, *(trial for other in waiting for trial in other.trials)]
                    waiting = deque(cut(rest, width))
                    continue
                if not self.keep_failures:
                    raise
                if len(part.trials) > 1:
                    waiting.extendleft(reversed(part.halves()))
                    continue
                trial = next(iter(part.trials))
                done, checkpoint = [_failed(trial, error, self._environment(part))], None
            yield from done
            if checkpoint is not None and os.path.lexists(checkpoint.path):
                written()
                checkpoint.remove()

    def _attempt(self, group: Group) -> tuple[list[Done], Checkpoint | None]:
        environment = self._environment(group)
        started, began = time.time(), time.monotonic()
        with precision(group.experiment):
            if group.experiment.study:
                outcomes = [self._study(trial) for trial in group.trials]
                checkpoint = None
            else:
                checkpoint = self.store.checkpoint(_group_digest(group, environment))
                members = [self._member(trial) for trial in group.trials]
                program = self._program(group)
                outcomes = program.run(members, self._hooks(group, checkpoint, environment))
                environment = environment | {"xla_flags": provenance.compiler_flags(program.options)}
        seconds = time.monotonic() - began
        timing = {"started": started, "seconds": seconds, "seconds_per_trial": seconds / len(group.trials)}
        making = environment | {"timing": timing}
        pairs = zip(group.trials, outcomes, strict=True)
        done = [Done(trial, outcome, making | self._stale_start(trial)) for trial, outcome in pairs]
        return done, checkpoint

    def _environment(self, group: Group) -> dict[str, Any]:
        experiment = group.experiment
        key = (experiment.name, group.width)
        if key not in self.environments:
            self.environments[key] = {
                "device": device(),
                "group_width": group.width,
                "precision": experiment.precision,
                "source_hash": source_hash(experiment),
                "versions": versions(experiment),
                "machine": provenance.machine(),
                "xla_flags": provenance.compiler_flags(),
            }
        return self.environments[key]

    def _stale_start(self, trial: Trial) -> dict[str, str]:
        """A source hash that no code has, for a trial that starts from a stale one: it is stale as well."""
        if not trial.needs or self.arrays_of != self._stored_arrays:
            return {}
        made = [self.store.read(needed).run.get("source_hash") for needed in trial.needs.values()]
        now = [source_hash(needed.experiment) for needed in trial.needs.values()]
        if all(before in (None, present) for before, present in zip(made, now, strict=True)):
            return {}
        return {"source_hash": hashlib.sha256(repr([source_hash(trial.experiment), made]).encode()).hexdigest()}

    def _program(self, group: Group):
        import jax

        from stairwise.train.loop import Program

        trial = group.trials[0]
        key = (trial.program_key, group.width)
        if key not in self.programs:
            self.programs.clear()  # groups come ordered by program: an old one is never asked for again
            stages = group.experiment.program(trial.structure)
            self.programs[key] = Program(stages, group.width, math.gcd(group.width, jax.local_device_count()))
        return self.programs[key]

    def _member(self, trial: Trial):
        from stairwise.train.loop import Member

        return Member(trial.seed, trial.config, self._upstream(trial) or None)

    def _upstream(self, trial: Trial) -> dict[str, dict[str, np.ndarray]]:
        """The arrays of the trials that this one starts from, by name."""
        return {name: self.arrays_of(needed) for name, needed in trial.needs.items()}

    def _stored_arrays(self, trial: Trial) -> dict[str, np.ndarray]:
        record = self.store.read(trial)
        if record.status == FAILED:
            raise RuntimeError(f"it starts from trial {trial.digest} ({trial.label}), which failed")
        return {name: record.array(name) for name in record.arrays()}

    def _study(self, trial: Trial) -> Outcome:
        more = (self._upstream(trial),) if trial.needs else ()
        return trial.experiment.program(trial.config, trial.seed, *more)

    def _hooks(self, group: Group, checkpoint, environment: dict[str, Any]):
        from stairwise.train.loop import Hooks

        engine = self
        owner = {"experiment": group.experiment.name, "trials": [trial.digest for trial in group.trials]}
        owner |= {"source_hash": environment["source_hash"], "process": scratch_name(), "environment": environment}

        class Host(Hooks):
            chunk, save_every = engine.chunk, engine.save_every

            def compiling(self, stage):
                engine.progress.status(f"compiling {stage}")

            def measuring(self, stage):
                engine.progress.status("measuring")

            def progress(self, stage, tick, max_ticks, metrics):
                engine.progress.ticks(f"{group.label} {stage}", tick, max_ticks, metrics)

            def measured(self, outcomes):
                engine.progress.measured(group.trials, outcomes)

            def stop(self):
                return engine.stop.is_set()

            def save(self, arrays, meta):
                with suppress(*(() if engine.must_save else (StoreError,))):
                    checkpoint.save(arrays, meta | {"owner": owner})

            def load(self):
                saved = checkpoint.load()
                if saved is None:
                    engine._tell_of_what_cannot_go_on(group, environment)
                return saved

        return Host()

    def _tell_of_what_cannot_go_on(self, group: Group, environment: dict[str, Any]) -> None:
        """Names what has changed since these trials were begun: they begin again from their first step."""
        ours = {trial.digest for trial in group.trials}
        for other in self.store.checkpoints():
            owner = other.glance().get("owner")
            if not isinstance(owner, dict) or not isinstance(trials := owner.get("trials"), list):
                continue
            shared = sum(digest in ours for digest in trials if isinstance(digest, str))
            known = owner.get("environment")
            before = known if isinstance(known, dict) else {"source_hash": owner.get("source_hash")}
            changed = [word for name, word in CHANGED.items() if name in before and before[name] != environment[name]]
            if shared and changed:
                who = f"{shared} of these trials" if shared > 1 else "this trial"
                told = f"{who} had been begun with {' and '.join(changed)}"
                self.progress.warn(f"{told}, and cannot go on: training starts again at step 0")


def source_hash(experiment: Experiment) -> str:
    """The hash of the code that an experiment's trials depend on."""
    return provenance.source_hash(*code_of(experiment))


def versions(experiment: Experiment) -> dict[str, str | None]:
    """The versions that an experiment's trials depend on: a plug-in's own among them."""
    return provenance.versions() | registry.distribution(experiment.paper)


def out_of_memory(error: Exception) -> bool:
    return isinstance(error, MemoryError) or any(words in str(error) for words in OUT_OF_MEMORY)


def _failed(trial: Trial, error: Exception, environment: dict[str, Any]) -> Done:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = one_line(lines[-1] if lines else "")[:MESSAGE_LENGTH]  # a wrapped error ends with the one that was raised
    timing = {"started": time.time(), "seconds": 0.0, "seconds_per_trial": 0.0}
    outcome = Outcome(FAILED, message=f"{type(error).__name__}: {said}")
    return Done(trial, outcome, environment | {"timing": timing})


def _group_digest(group: Group, environment: dict[str, Any]) -> str:
    """Names a checkpoint: the same trials in the same group of the same program on the same kind of machine."""
    identity = [[trial.digest for trial in group.trials], environment]
    return digest_of(identity)
