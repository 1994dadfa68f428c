"""Forked processes that work for this one, each call with a time limit: what takes too long is killed.

They are forked from a process that has imported everything and has started no device, so that each may start its own.
"""

import math
import multiprocessing
import os
import time
import warnings
from collections.abc import Callable, Iterator
from multiprocessing.connection import wait
from typing import Any

from stairwise.config import ConfigError
from stairwise.lab.worker import leave_with_the_caller


class Forks:
    """Runs functions in forked processes, some at a time.

    `start` gives a function a process of its own; `ask` puts a question to `answer` in a process that stays, and keeps
    what it has compiled, until a question takes it too long.
    """

    def __init__(self, jobs: int, answer: Callable[[Any], Any] | None = None):
        if started():
            raise ConfigError("JAX has computed in this process, and copies of it would hang: run the command alone")
        self.jobs, self.answer, self.context = jobs, answer, multiprocessing.get_context("fork")
        self.running: dict[Any, tuple[Any, Any, float]] = {}
        self.idle: list[tuple[Any, Any]] = []

    def start(self, name: Any, function: Callable[[], Any], seconds: float) -> None:
        ours, process = self._fork(lambda _: function(), stays=False)
        ours.send(None)
        self.running[ours] = (name, process, time.monotonic() + seconds)

    def ask(self, name: Any, question: Any, seconds: float) -> None:
        assert self.answer is not None
        ours, process = self.idle.pop() if self.idle else self._fork(self.answer, stays=True)
        ours.send(question)
        self.running[ours] = (name, process, time.monotonic() + seconds)

    def _fork(self, answer: Callable[[Any], Any], *, stays: bool) -> tuple[Any, Any]:
        ours, theirs = self.context.Pipe()
        process = self.context.Process(target=_serve, args=(theirs, answer, stays), daemon=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # JAX warns of forks; here nothing of it has started yet
            process.start()
        theirs.close()
        return ours, process

    def alone(self, function: Callable[[], Any], seconds: float = math.inf) -> Any:
        """One function, now; None where it ends its process or takes too long."""
        other = Forks(1)
        other.start(None, function, seconds)
        ((_, found),) = other.ready()
        return found

    def results(self, work: Iterator[tuple[Any, Callable[[], Any], float]]) -> Iterator[tuple[Any, Any]]:
        for each in work:
            self.start(*each)
            while len(self.running) >= self.jobs:
                yield from self.ready()
        while self.running:
            yield from self.ready()

    def ready(self) -> list[tuple[Any, Any]]:
        """Those that have ended, or have run for too long (None); waits for at least one."""
        now = time.monotonic()
        limit = min(end for _, _, end in self.running.values())
        found = []
        for ours in wait(list(self.running), None if math.isinf(limit) else max(0.0, limit - now)):
            name, process, _ = self.running.pop(ours)
            try:
                stays, result = ours.recv()  # type: ignore[union-attr]
            except (EOFError, ConnectionResetError):
                stays, result = False, None
            if stays:
                self.idle.append((ours, process))
            else:
                process.join()
            found.append((name, result))
        for ours, (name, process, end) in list(self.running.items()):
            if time.monotonic() > end:
                process.kill()
                process.join()
                del self.running[ours]
                found.append((name, None))
        return found

    def stop(self) -> None:
        """Gives up what is running; those that wait for a question stay."""
        for _, process, _ in self.running.values():
            process.kill()
            process.join()
        self.running = {}

    def end(self) -> None:
        self.stop()
        for _, process in self.idle:
            process.kill()
            process.join()
        self.idle = []


def started() -> bool:
    """Whether JAX has opened a device in this process: its threads do not survive a fork."""
    from jax._src import xla_bridge  # there is no public way to ask

    return xla_bridge.backends_are_initialized()


def _serve(theirs: Any, answer: Callable[[Any], Any], stays: bool) -> None:
    leave_with_the_caller()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(1, 2)
    while True:
        theirs.send((stays, answer(theirs.recv())))
        if not stays:
            theirs.close()
            os._exit(0)  # no exit handlers of the parent
