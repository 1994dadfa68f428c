"""Stores trials as they are done, and a short one while the next one runs: most of its time is waiting for the disk."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from stairwise.lab.store.store import Store

SHORT_SECONDS = 1.0  # a group that took longer is stored before the next one begins


class TrialWriter:
    """Writes to a store, in order; `stored` is told, in the thread of the caller, of each that is there.

    At most one trial is on its way. `at_once`: none is, for trials that start from others.
    """

    def __init__(self, store: Store, stored: Callable[[Any], None], *, at_once: bool = False):
        self.store, self.stored, self.at_once = store, stored, at_once
        self.waiting: tuple[Any, Future[Any]] | None = None
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="stairwise-writer")

    def put(self, done: Any) -> None:
        """Stores what a trial left behind; an error of the one before is raised here."""
        self.finish()
        self.waiting = done, self.thread.submit(self.store.write, *done)
        if self.at_once or done.making["timing"]["seconds"] > SHORT_SECONDS:
            self.finish()

    def finish(self) -> bool:
        """Returns when everything is stored: whether there was something to wait for."""
        if self.waiting is None:
            return False
        (done, written), self.waiting = self.waiting, None
        written.result()
        self.stored(done)
        return True

    def __enter__(self) -> "TrialWriter":
        return self

    def __exit__(self, *error: object) -> None:
        """However it ends, a trial that was done is stored."""
        try:
            self.finish()
        finally:
            self.thread.shutdown()
