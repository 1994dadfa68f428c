"""The second process of `reproduce`: one program seldom keeps two cores busy, two programs do."""

import multiprocessing
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from stairwise.compiler import children_compile_sooner
from stairwise.config import ConfigError
from stairwise.lab import api, registry
from stairwise.lab.ledger.checking import compile_as_asked
from stairwise.lab.ledger.verify import verify
from stairwise.lab.progress import Silent
from stairwise.lab.run.execute import device
from stairwise.lab.store import provenance
from stairwise.lab.store.files import StoreError
from stairwise.lab.store.store import Store
from stairwise.lab.worker import Stopped, leave_with_the_caller, unheard_by_children
from stairwise.record import published

PATIENCE_SECONDS = 0.2
LAST_CLAIM_SECONDS = 60.0


class SecondProcess:
    """Takes experiments from the end of the list while the caller takes them from its beginning.

    Both store what they run. An experiment is taken by one of them; the caller waits for those that it finds taken.
    When none is left, it unpacks what is published of the experiments in `record`, which a report would do while
    nothing else runs. Then another process takes its place and checks claims, one by one, until the caller ends it;
    the caller finds their verdicts in the store. It is another one since it compiles with other options.
    """

    def __init__(self, names: Sequence[str], root: str, claims: Sequence[str] = (), record: Sequence[str] = ()):
        spawn = multiprocessing.get_context("spawn")  # JAX has threads: a fork of it would hang
        self.taken = spawn.Array("b", len(names))
        self.done = spawn.Array("b", len(names))
        self.none_left, self.enough = spawn.Event(), spawn.Event()
        running = {"daemon": True, "name": "stairwise-second"}
        args = (list(names), root, list(record), self.taken, self.done, self.none_left, self.enough)
        self.process = spawn.Process(target=_work, args=args, **running)
        self.checker = spawn.Process(target=_check, args=(list(claims), root, self.none_left, self.enough), **running)
        if provenance.machine()["cores"] > 1 and device()["platform"] == "cpu":
            with unheard_by_children():
                self.process.start()
                with children_compile_sooner():
                    self.checker.start()

    def take(self, index: int) -> None:
        """Return once the experiment is the caller's, or stored by the other process (or that one has died)."""
        if _took(self.taken, index):
            return
        if not self.done[index]:
            print("   the second process is at it", flush=True)
        while not self.done[index] and self.process.is_alive():
            time.sleep(PATIENCE_SECONDS)

    def end(self) -> None:
        """End both; the claim that is being checked, or the part of the record that is unpacked, is finished first."""
        self.enough.set()
        deadline = time.monotonic() + LAST_CLAIM_SECONDS
        while any(each.is_alive() for each in self._both) and time.monotonic() < deadline:
            time.sleep(PATIENCE_SECONDS)  # not `join`, in which Ctrl-C would wait
        for each in self._both:
            if each.is_alive():
                each.terminate()

    @property
    def _both(self) -> tuple[Any, Any]:
        return self.process, self.checker


def _took(taken, index: int) -> bool:
    with taken.get_lock():
        free, taken[index] = not taken[index], 1
    return free


def _work(names: Sequence[str], root: str, record: Sequence[str], taken, done, none_left, enough) -> None:
    leave_with_the_caller()
    store = Store.open(root)
    for index in reversed(range(len(names))):
        if not _took(taken, index):
            break
        try:
            api.run(registry.experiment(names[index]), "quick", store=store, progress=Silent())
        except Stopped:
            return
        except ConfigError:  # the caller meets it as well, and says so
            pass
        done[index] = 1
    for name in record:
        with suppress(ConfigError, StoreError, OSError):  # the report meets it as well, and says so
            if not enough.is_set() and (files := published.files(name)):
                published.store(files)
    none_left.set()


def _check(claims: Sequence[str], root: str, none_left, enough) -> None:
    leave_with_the_caller()
    while not none_left.wait(PATIENCE_SECONDS):
        if enough.is_set():
            return
    store = Store.open(root)
    for name in claims:
        if enough.is_set():
            return
        ((claim, _),) = registry.claims([name])
        compile_as_asked(claim)
        list(verify([name], store=store))
