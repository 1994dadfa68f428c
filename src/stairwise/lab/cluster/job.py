"""One sweep on one cluster: submits groups, collects what comes back, splits what kills its workers."""

import secrets
import time
from collections import deque
from concurrent.futures import CancelledError
from typing import Any

from stairwise.config import ConfigError, as_dict, one_line
from stairwise.lab.cluster import remote
from stairwise.lab.contract.experiment import Trial, digest_of
from stairwise.lab.run.execute import source_hash, versions
from stairwise.lab.run.plan import Group
from stairwise.lab.run.sharing import Work
from stairwise.lab.store.provenance import machine
from stairwise.lab.store.trial import ARRAYS, FAILED
from stairwise.train.stage import Outcome

LOOK_SECONDS = 0.1
ATTEMPTS = 3
KILLED = "KilledWorker"  # as Dask calls it when the workers of a task have died four times


class ClusterError(ConfigError):
    """A cluster that cannot be used, in one line."""


class Lost(Exception):
    """The scheduler has gone, and with it every task that was under way."""

    def __str__(self) -> str:
        return "lost the scheduler"


class Job:
    """One sweep on one cluster."""

    work: Work

    def __init__(self, cluster: Any, store, mark: str | None, preset_group, group, progress, stop, save_every):
        self.cluster, self.store, self.progress, self.stop = cluster, store, progress, stop
        self.mark = mark  # None: workers send their results
        self.preset_group, self.group, self.save_every = preset_group, group, save_every
        self.topic = f"stairwise-{secrets.token_hex(6)}"
        self.submitted = 0
        self.widths: dict[str, int] = {}
        self.troubles: set[str] = set()
        self.suspects: deque[Group] = deque()
        self.suspected: set[str] = set()

    def run(self) -> None:
        """Submit a few groups more than the workers have threads, so that other clients find some too; collect."""
        from stairwise.train.loop import Interrupted

        client = self.cluster.client
        self.suspects.clear()
        client.subscribe_topic(self.topic, self._heard)
        queue: dict[Any, Group] = {}
        try:
            while self.work.left:
                threads = self._watch()
                while len(queue) < 2 * threads and (group := self.work.next()) is not None:
                    queue[self._submit(group)] = group
                if not queue and self.suspects:  # alone, so that nobody else dies with it, or is blamed for it
                    group = self.suspects.popleft()
                    queue[self._submit(group)] = group
                finished = [future for future in queue if future.done()]
                for future in finished:
                    self._watch()  # a future is done, too, when its scheduler is gone
                    self._collect(future, queue.pop(future))
                if not queue and threads and self.work.left and not self.suspects:
                    self.work.wait(self.stop)
                elif not finished:
                    time.sleep(LOOK_SECONDS)
        except Interrupted:
            client.cancel(list(queue))
            raise

    def _watch(self) -> int:
        return self.cluster.watch(self.stop, self.progress, lambda: len(self.work.left))

    def width(self, trial: Trial) -> int:
        """The user's width, else what the device of a worker has room for."""
        if self.group is not None:
            return self.group
        if trial.program_key not in self.widths:
            words = (trial.experiment.name, as_dict(trial.config), trial.seed, self.preset_group)
            self.widths[trial.program_key] = self._asked(remote.width_of, *words)
        return self.widths[trial.program_key]

    def _asked(self, function: Any, *words: Any) -> Any:
        """What a worker answers; asked again where Dask has given up, since its workers died one after another."""
        for _ in range(ATTEMPTS):
            future = self.cluster.client.submit(function, *words, pure=False)
            while not future.done():
                self._watch()
                time.sleep(LOOK_SECONDS)
            if future.status != "error" or type(future.exception()).__name__ != KILLED:
                return self._result(future)
        raise ClusterError("workers die, one after another, before they run a trial; what is finished is stored")

    def _submit(self, group: Group) -> Any:
        task = remote.describe_group(group, self.store, self.mark, save_every=self.save_every, topic=self.topic)
        upstream = {} if self.mark else {t.digest: self._arrays(t) for t in _needed(group)}
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
        if trial.digest in self.work.left:
            self.work.done(trial)
            self.progress.concluded(trial, status, message, finals)

    def _broken(self, error: BaseException | None, group: Group) -> None:
        """A group whose workers die is tried again by itself, in halves, until the trial that kills them is found."""
        if type(error).__name__ != KILLED:
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
                return future.result(timeout=1)
            except TimeoutError:  # being computed again: the worker that held it has died
                self._watch()
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
