"""One sweep on one cluster: submits groups, collects what comes back, splits what kills its workers."""

import secrets
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from typing import Any

from stairwise.lab import remote
from stairwise.lab.config import ConfigError, as_dict
from stairwise.lab.contract import Outcome, Trial, digest_of
from stairwise.lab.execute import source_hash, versions
from stairwise.lab.files import one_line
from stairwise.lab.plan import Group, waves
from stairwise.lab.provenance import machine
from stairwise.lab.record import ARRAYS, FAILED

LOOK_SECONDS = 0.1


class ClusterError(ConfigError):
    """A cluster that cannot be used, in one line."""


class Lost(Exception):
    """The scheduler has gone, and with it every task that was under way."""


class Job:
    """One sweep on one cluster."""

    def __init__(self, cluster: Any, store, writer, preset_group, group, progress, stop, save_every, done):
        self.cluster, self.store, self.progress, self.stop = cluster, store, progress, stop
        self.shared = store if writer == "workers" else None
        self.preset_group, self.group, self.save_every = preset_group, group, save_every
        self.done: set[str] = done
        self.topic = f"stairwise-{secrets.token_hex(6)}"
        self.submitted = 0
        self.troubles: set[str] = set()
        self.suspects: deque[Group] = deque()
        self.suspected: set[str] = set()

    def run(self, trials: Sequence[Trial], settled: Callable[[Trial], bool]) -> None:
        from stairwise.train.loop import Interrupted

        client = self.cluster.client
        self.suspects.clear()
        client.subscribe_topic(self.topic, self._heard)
        for wave in waves(trials, settled, self._width):
            queue = {self._submit(group): group for group in wave}
            while queue or self.suspects:
                if not queue:  # alone, so that nobody else dies with it, or is blamed for it
                    group = self.suspects.popleft()
                    queue[self._submit(group)] = group
                if self.stop.is_set():
                    client.cancel(list(queue))
                    raise Interrupted
                finished = [future for future in queue if future.done()]
                if client.status != "running":
                    raise Lost
                if not finished:
                    time.sleep(LOOK_SECONDS)
                for future in finished:
                    self._collect(future, queue.pop(future))

    def _width(self, trial: Trial) -> int:
        """The user's width, else what the device of a worker has room for."""
        if self.group is not None:
            return self.group
        words = (trial.experiment.name, as_dict(trial.config), trial.seed, self.preset_group)
        return self._result(self.cluster.client.submit(remote.width_of, *words, pure=False))

    def _submit(self, group: Group) -> Any:
        task = remote.describe_group(group, self.shared, save_every=self.save_every, topic=self.topic)
        upstream = {} if self.shared else {t.digest: self._arrays(t) for t in _needed(group)}
        self.submitted += 1
        key = f"stairwise-{digest_of(task)}-{self.submitted}"  # of this sweep: its topic is in the task
        return self.cluster.client.submit(remote.compute, task, upstream, key=key)

    def _arrays(self, trial: Trial) -> bytes:
        return (self.store.read(trial).path / ARRAYS).read_bytes()

    def _collect(self, future: Any, group: Group) -> None:
        """Store what has come."""
        if future.status == "error":
            self._broken(future.exception(), group)
            return
        answer = self._result(future)
        if "refused" in answer:
            raise ClusterError(f"a worker is refused: {one_line(answer['refused'])}")
        trials = {trial.digest: trial for trial in group.trials}
        for told in answer["trials"]:
            trial = trials[told["digest"]]
            if "files" in told:
                self.store.put(trial, told["files"])
            if "trouble" in told and told["trouble"] not in self.troubles:
                self.troubles.add(told["trouble"])
                self.progress.warn(f"a worker could not store its result and sent it here: {told['trouble']}")
            self._conclude(trial, told["status"], told["message"], told["finals"])

    def _conclude(self, trial: Trial, status: str, message: str, finals: dict[str, float]) -> None:
        if trial.digest not in self.done:
            self.done.add(trial.digest)
            self.progress.concluded(trial, status, message, finals)

    def _broken(self, error: BaseException | None, group: Group) -> None:
        """A group whose workers die is tried again by itself, in halves, until the trial that kills them is found."""
        if type(error).__name__ != "KilledWorker":
            raise ClusterError(f"a worker failed: {type(error).__name__}: {one_line(str(error))[:300]}")
        trial = next(iter(group.trials))
        if len(group.trials) > 1 or trial.digest not in self.suspected:
            self.suspected.add(trial.digest)
            self.suspects.extend(group.halves() if len(group.trials) > 1 else [group])
            return
        message = "its workers died, one after another, while it ran"
        experiment = group.experiment
        making = {"source_hash": source_hash(experiment), "versions": versions(experiment), "machine": machine()}
        timing = {"started": time.time(), "seconds": 0.0, "seconds_per_trial": 0.0}
        making |= {"group_width": group.width, "timing": timing}
        self.store.write(trial, Outcome(FAILED, message=message), making)
        self._conclude(trial, FAILED, message, {})

    def _result(self, future: Any) -> Any:
        """The result of a task; Lost where the connection is gone."""

        while True:
            try:
                return future.result(timeout=5)
            except TimeoutError:  # being computed again: the worker that held it has died
                if self.cluster.client.status != "running":
                    raise Lost from None
            except (CancelledError, OSError):
                raise Lost from None

    def _heard(self, event: tuple[float, dict[str, Any]]) -> None:
        told = event[1]
        if "warning" in told:
            self.progress.warn(told["warning"])
        elif "tick" in told:
            self.progress.ticks(told["label"], told["tick"], told["max_ticks"], told["metrics"])


def _needed(group: Group) -> list[Trial]:
    return list({needed.digest: needed for trial in group.trials for needed in trial.needs.values()}.values())
