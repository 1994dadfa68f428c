"""What a cluster's workers do: run one group that is described in JSON, store it, or send it to whoever asked.

A task holds no code: it names an experiment that the worker has installed, and gives configs and seeds as JSON. The
worker refuses it where its packages or the paper's code differ from those of whoever asks.
"""

import json
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stairwise.config import ConfigError, as_dict, from_dict
from stairwise.lab import registry
from stairwise.lab.contract.experiment import Experiment, Trial
from stairwise.lab.progress import Silent
from stairwise.lab.run.execute import Done, Engine, finals, prepare_jax, source_hash, versions
from stairwise.lab.run.plan import Group
from stairwise.lab.run.sharing import seen
from stairwise.lab.run.stale import is_stale
from stairwise.lab.store.files import StoreError, decode_arrays
from stairwise.lab.store.store import Store
from stairwise.lab.store.trial import FAILED, encode_trial

EVENT_SECONDS = 0.5
_ONE_AT_A_TIME = threading.Lock()  # a group takes the whole device, however many threads the worker has
_ENGINES: dict[str, Engine] = {}


class Refused(Exception):
    """The worker cannot do what it is asked; the message says why."""


# --- tasks ------------------------------------------------------------------------------------------------------------


def describe_group(group: Group, store: Store, mark: str | None, *, save_every: float, topic: str) -> str:
    """A group as JSON: experiment id, configs with their seeds, width, where results go.

    They go to the store, where the worker sees the client's mark in it, else (or without a mark) to the client.
    """
    members: dict[str, dict[str, Any]] = {}
    for trial in group.trials:
        place = json.dumps([as_dict(trial.config), trial.arm], sort_keys=True)
        member = members.setdefault(place, {"config": as_dict(trial.config), "arm": trial.arm, "seeds": []})
        member["seeds"].append(trial.seed)
    return json.dumps(
        {
            "experiment": group.experiment.name,
            "members": list(members.values()),
            "width": group.width,
            "store": None if mark is None else [str(store.root), mark],
            "again": [trial.digest for trial in group.trials if mark is not None and store.peek(trial) is not None],
            "made with": code(group.experiment),
            "save every": save_every,
            "topic": topic,
        },
        sort_keys=True,
    )


def code(experiment: Experiment) -> dict[str, str | None]:
    """What must be the same on both sides: package versions, and the code that the experiment depends on."""
    return {**versions(experiment), "source of the experiment": source_hash(experiment)}


def differences(asked: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """The packages that differ, in words; empty where none does."""
    return ", ".join(
        f"{name} {_short(here.get(name))} instead of {_short(value)}"
        for name, value in asked.items()
        if here.get(name) != value
    )


def _short(version: Any) -> str:
    return str(version)[:12] if version else "missing"


def code_of(name: str) -> dict[str, Any]:
    """`code` of an experiment by name, on a worker; an error is sent as text, since its class may be missing there."""
    try:
        return dict(code(registry.experiment(name)))
    except (ConfigError, ValueError, ImportError) as error:
        return {"error": f"{type(error).__name__}: {error}"}


def width_of(name: str, config: dict[str, Any], seed: int, preset_group: int) -> int:
    """The group width that this worker's device has room for."""
    from stairwise.lab.run.estimate import width_for

    prepare_jax()
    experiment = registry.experiment(name)
    return width_for(Trial(experiment, from_dict(experiment.Config, config), seed), preset_group)


def compute(task_text: str, upstream: dict[str, bytes]) -> dict[str, Any]:
    """Run a group. Each of its trials comes back as stored here, or with its four files for the client to store."""
    task = json.loads(task_text)
    try:
        experiment = registry.experiment(task["experiment"])
        other = differences(task["made with"], code(experiment))
        if other:
            raise Refused(f"it has {other}")
        trials = [
            Trial(experiment, from_dict(experiment.Config, member["config"]), seed, member["arm"])
            for member in task["members"]
            for seed in member["seeds"]
        ]
        with _ONE_AT_A_TIME:
            return {"trials": _run(trials, task, upstream)}
    except (ConfigError, Refused) as error:
        return {"refused": str(error)}


def _run(trials: list[Trial], task: Mapping[str, Any], upstream: Mapping[str, bytes]) -> list[dict[str, Any]]:
    prepare_jax()
    store = _shared_store(task["store"])
    if store is None and not upstream and any(trial.needs for trial in trials):
        raise Refused(f"it does not see the store {task['store'][0]}, which holds what these trials start from")
    answers, left = [], []
    for trial in trials:
        there = store.peek(trial) if store else None
        again = trial.digest in task["again"] and there is not None and (there.status == FAILED or is_stale(there))
        if there is None or again:
            left.append(trial)
        else:
            answers.append(_answer(trial.digest, there.status, there.run["message"], {}))
    engine = _engine(store, task, upstream)
    for done in engine.run(Group(tuple(left), task["width"])):
        answers.append(_deliver(done, store))
    return answers


def _shared_store(place: list[str] | None) -> Store | None:
    """The client's store, where this worker sees the same folder: the mark is of this sweep, a copy has it not."""
    if place is None:
        return None
    store = Store(Path(place[0]))
    return store if seen(store, place[1]) else None


def _engine(store: Store | None, task: Mapping[str, Any], upstream: Mapping[str, bytes]) -> Engine:
    """The engine of this process, with its compiled program; checkpoints go to the shared store, or stay here."""
    from distributed import get_worker

    worker = get_worker()
    place = str(store.root) if store else worker.local_directory
    if place not in _ENGINES:
        _ENGINES.clear()
        _ENGINES[place] = Engine(store or Store(Path(place) / "stairwise"), keep_failures=True, must_save=False)
    engine = _ENGINES[place]
    engine.progress, engine.save_every = Reporter(worker, task["topic"]), task["save every"]
    if upstream:
        engine.arrays_of = lambda trial: decode_arrays(upstream[trial.digest])
    return engine


def _deliver(done: Done, store: Store | None) -> dict[str, Any]:
    """Store a trial and say so; where that cannot be done (a full disk), send it."""
    files = encode_trial(*done)
    answer = _answer(done.trial.digest, done.outcome.status, done.outcome.message, finals(done.outcome))
    try:
        if store is not None:
            store.put(done.trial, files)
            return answer
        return answer | {"files": files}
    except StoreError as error:
        return answer | {"files": files, "trouble": str(error)}


def _answer(digest: str, status: str, message: str, values: dict[str, float]) -> dict[str, Any]:
    return {"digest": digest, "status": status, "message": message, "finals": values}


class Reporter(Silent):
    """Sends progress to the client, at most twice a second."""

    def __init__(self, worker: Any, topic: str):
        self.worker, self.topic, self.last = worker, topic, 0.0

    def _send(self, **event: Any) -> None:
        self.worker.log_event(self.topic, event)

    def ticks(self, label: str, tick: int, max_ticks: int, metrics: Mapping[str, float]) -> None:
        if time.monotonic() - self.last >= EVENT_SECONDS:
            self.last = time.monotonic()
            self._send(label=label, tick=tick, max_ticks=max_ticks, metrics=dict(metrics))

    def warn(self, text: str) -> None:
        self._send(warning=text)
