"""Runs work in a thread of its own, so that Ctrl-C is heard at once, even while XLA compiles."""

import signal
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
GRACE_SECONDS = 1.2


class Stopped(Exception):
    """The user asked to stop. `clean` says whether the work saved itself in time; `signal` is what was received."""

    def __init__(self, clean: bool, signal_number: int):
        super().__init__("stopped")
        self.clean = clean
        self.signal_number = signal_number


def in_worker(work: Callable[[threading.Event], T], grace: float = GRACE_SECONDS) -> T:
    """work(stop) in a worker thread; SIGINT or SIGTERM sets `stop`, waits a moment for it to save, and raises Stopped.

    Outside the main thread signals cannot be caught and the work simply runs there.
    """
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        return work(stop)
    result: dict[str, Any] = {}
    over = threading.Event()
    received: list[int] = []

    def target() -> None:
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
                over.wait(grace)
                raise Stopped(over.is_set(), received[0])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if received:
        raise Stopped(True, received[0])
    if "error" in result:
        raise result["error"]
    return result["value"]
