"""`--live`: a page for a run or sweep, from before it begins until after it has ended."""

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from stairwise.lab.api import RunRequest
from stairwise.lab.contract.experiment import Trials
from stairwise.lab.progress import Silent, TwoDisplays
from stairwise.lab.run.stale import made_now
from stairwise.lab.run.sweep_progress import cell_name
from stairwise.lab.store.store import Store
from stairwise.live.feed import TRIALS, Feed
from stairwise.live.server import Live

RELOADING = 3.0  # seconds without a page before it counts as closed


@contextmanager
def watched(
    display: Silent,
    store: Store,
    request: RunRequest,
    *,
    fresh: bool = False,
    port: int = 0,
    show: bool = True,
    report: str = "stairwise report --open",
    stay: bool = False,
) -> Iterator[Silent]:
    """A display that also feeds a page, whose address is printed, and opened where there is a browser to open it in.

    `report` is the command that writes the stored page. Afterwards the page is served for as long as it is open, where
    standard output is a terminal, or with `stay` until the process ends; else it keeps what it shows and the command
    ends.
    """
    experiment, trials, axes = request.experiment, request.trials, request.axes
    facts = {"experiment": experiment.name, "says": experiment.says, "preset": request.preset, "report": report}
    facts |= {"store": str(store.root), "what": "setting" if axes else "arm"}
    if isinstance(trials, Trials):
        facts |= {"cells": sum(map(len, trials.blocks)), "seeds": len(trials.seeds)}
    feed = Feed(store, facts, lambda trial: cell_name(trial, axes))
    settled = made_now(store) if fresh else store.has
    feed.show([trial for trial in trials[:TRIALS] if settled(trial)])
    live = Live(feed, port)
    print(f"stairwise: live at {live.address} (this machine only)", file=sys.stderr, flush=True)
    if show and can_open():
        open_page(live.address)
    try:
        yield TwoDisplays(display, feed)
        live.close()
        if not stay and sys.stdout.isatty() and live.watched():
            print("the page stays until you close it", file=sys.stderr, flush=True)
            _wait(live)
    finally:
        if not stay:
            live.stop()


def can_open() -> bool:
    """Whether there is a screen on which a browser can open: without one, some would take the terminal instead."""
    if sys.platform in ("win32", "darwin"):
        return True
    return any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def open_page(address: str) -> None:
    """In a thread: some browsers return only when they are closed."""
    import webbrowser

    threading.Thread(target=webbrowser.open, args=(address,), daemon=True, name="stairwise-browser").start()


def _wait(live: Live) -> None:
    last = time.monotonic()
    while time.monotonic() - last < RELOADING:
        if live.watched():
            last = time.monotonic()
        time.sleep(0.1)
