"""Work in threads and processes that end when they are told to, or when the one that asked for it ends."""

import gc
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")
GRACE_SECONDS = 1.2


class Stopped(Exception):
    """The user asked to stop. `clean` says whether the work saved itself in time; `signal` is what was received."""

    def __init__(self, clean: bool, signal_number: int):
        super().__init__("stopped")
        self.clean = clean
        self.signal_number = signal_number


class Stop(threading.Event):
    """Set when the work should end; `heeded` while somebody looks at it, who needs a moment to save."""

    heeded = False


_here = threading.local()  # .stop: that of the worker which this thread is


def in_worker(work: Callable[[threading.Event], T], grace: float = GRACE_SECONDS) -> T:
    """work(stop) in a worker thread, so that Ctrl-C is heard at once, even while XLA compiles or JAX is imported.

    SIGINT or SIGTERM sets `stop`, waits a moment for the work to save, and raises Stopped. Within a worker the work
    runs in the same thread, with the same `stop`; in other threads signals cannot be caught, and it simply runs.
    """
    if threading.current_thread() is not threading.main_thread():
        stop = getattr(_here, "stop", None) or Stop()
        stop.heeded = True
        try:
            return work(stop)
        finally:
            stop.heeded = False
    stop = Stop()
    stop.heeded = True
    return _watched(work, stop, grace)


def interruptible(work: Callable[[], T]) -> T:
    """As `in_worker`, of work that has nothing to save but in those parts of it that ask for a worker themselves."""
    if threading.current_thread() is not threading.main_thread():
        return work()
    return _watched(lambda stop: work(), Stop(), GRACE_SECONDS)


def _watched(work: Callable[[threading.Event], T], stop: Stop, grace: float) -> T:
    result: dict[str, Any] = {}
    over = threading.Event()
    received: list[int] = []

    def target() -> None:
        _here.stop = stop
        try:
            result["value"] = work(stop)
        except BaseException as error:  # handed to the caller's thread below
            result["error"] = error
        finally:
            over.set()

    def heard(number: int, frame: object) -> None:
        received.append(number)
        stop.set()

    before = {number: signal.signal(number, heard) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        threading.Thread(target=target, daemon=True, name="stairwise-worker").start()
        while not over.wait(0.05):
            if stop.is_set():
                over.wait(grace if stop.heeded else 0)
                raise Stopped(over.is_set(), received[0])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if received:
        raise Stopped(True, received[0])
    if "error" in result:
        raise result["error"]
    return result["value"]


# --- processes --------------------------------------------------------------------------------------------------------


@contextmanager
def unheard_by_children() -> Iterator[None]:
    """Processes started within do not hear Ctrl-C: it reaches their caller as well, whose end is theirs."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def collect_seldom() -> None:
    """Modules, which are there to stay, are not looked through for garbage again with every few thousand objects."""
    gc.freeze()
    gc.set_threshold(200_000, 20, 50)


def leave_with_the_caller() -> None:
    """To be called in a process that `multiprocessing` has started: it ends when its caller does, however that ends."""
    threading.Thread(target=_wait_for_the_callers_end, daemon=True).start()


def _wait_for_the_callers_end() -> None:
    caller = multiprocessing.parent_process()
    if caller is not None:
        caller.join()
        os._exit(1)
