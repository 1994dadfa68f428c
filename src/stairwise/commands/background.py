"""The second process of `reproduce`: one program seldom keeps two cores busy, two programs do."""

import multiprocessing
import time
from collections.abc import Sequence

from stairwise.config import ConfigError
from stairwise.lab import api, registry
from stairwise.lab.run.execute import device
from stairwise.lab.store import provenance
from stairwise.lab.store.store import Store
from stairwise.lab.worker import Stopped, leave_with_the_caller, unheard_by_children

PATIENCE_SECONDS = 0.2


class SecondProcess:
    """Takes experiments from the end of the list while the caller takes them from its beginning.

    Both store what they run. An experiment is taken by one of them; the caller waits for those that it finds taken.
    """

    def __init__(self, names: Sequence[str], root: str):
        spawn = multiprocessing.get_context("spawn")  # JAX has threads: a fork of it would hang
        self.taken = spawn.Array("b", len(names))
        self.done = spawn.Array("b", len(names))
        self.process = spawn.Process(
            target=_work, args=(list(names), root, self.taken, self.done), daemon=True, name="stairwise-second"
        )
        if provenance.machine()["cores"] > 1 and device()["platform"] == "cpu":
            with unheard_by_children():
                self.process.start()

    def take(self, index: int) -> None:
        """Return once the experiment is the caller's, or stored by the other process (or that one has died)."""
        if _took(self.taken, index):
            return
        if not self.done[index]:
            print("   the second process is at it", flush=True)
        while not self.done[index] and self.process.is_alive():
            time.sleep(PATIENCE_SECONDS)

    def end(self) -> None:
        if self.process.is_alive():
            self.process.terminate()


def _took(taken, index: int) -> bool:
    with taken.get_lock():
        free, taken[index] = not taken[index], 1
    return free


def _work(names: Sequence[str], root: str, taken, done) -> None:
    leave_with_the_caller()
    store = Store.open(root)
    for index in reversed(range(len(names))):
        if not _took(taken, index):
            return
        try:
            api.run(registry.experiment(names[index]), "quick", store=store)
        except Stopped:
            return
        except ConfigError:  # the caller meets it as well, and says so
            pass
        done[index] = 1
