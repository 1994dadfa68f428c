"""What a page costs the training: the same trials with nobody looking, and with a page that reads events and maps.

    python -m tests.live.cost [PAIRS [STEPS]]

Prints how long the trials took, how long the feed kept the training thread, and the processor time of the threads that
serve the page, per second. The first needs a quiet machine; the others do not.
"""

import dataclasses
import multiprocessing
import statistics
import sys
import tempfile
import threading
import time
import urllib.request
from contextlib import suppress

from stairwise.lab import registry
from stairwise.lab.contract.experiment import Trial
from stairwise.lab.progress import CALLS, Silent
from stairwise.lab.run.execute import Engine, prepare_jax
from stairwise.lab.run.plan import Group
from stairwise.lab.store.store import Store
from stairwise.live.feed import Feed
from stairwise.live.server import Live


class Timed(Silent):
    """Passes everything on, and adds up how long that takes."""

    def __init__(self, feed: Feed):
        self.seconds, self.calls = 0.0, 0
        for name in CALLS:
            setattr(self, name, self._timed(getattr(feed, name)))

    def _timed(self, call):
        def timed(*given):
            began = time.perf_counter()
            call(*given)
            self.seconds += time.perf_counter() - began
            self.calls += 1

        return timed


def page(address: str) -> None:
    """Another process that does what a page does."""
    with urllib.request.urlopen(f"{address}events") as events:
        asked = 0.0
        for line in events:
            if line.startswith(b"data: ") and time.monotonic() - asked > 1:
                asked = time.monotonic()
                with suppress(OSError):  # there is no trial yet
                    urllib.request.urlopen(f"{address}maps/0").read()


def of_thread(thread: threading.Thread) -> float:
    """The processor time that a thread has used."""
    return time.clock_gettime(time.pthread_getcpuclockid(thread.ident or 0))


def main(pairs: int = 8, steps: int = 5000) -> None:
    experiment = registry.experiment("selection/heatmap")
    chosen = experiment.preset("quick").config
    snapshots = tuple(tick for tick in chosen.snapshots if tick <= steps)  # type: ignore[attr-defined]
    config = dataclasses.replace(chosen, steps=steps, drop_at=steps, measure_every=20, snapshots=snapshots)  # type: ignore[call-arg]
    prepare_jax()
    store = Store.open(tempfile.mkdtemp())
    engine = Engine(store)

    def train(seed: int) -> float:
        began = time.perf_counter()
        for done in engine.run(Group((Trial(experiment, config, seed),), 1)):
            store.write(*done)
            engine.progress.concluded(done.trial, done.outcome.status, "", {"loss": 0.0})
        return time.perf_counter() - began

    train(0)  # compiles
    ratios, kept, served = [], [], []
    for pair in range(pairs):
        engine.progress = Silent()
        alone = train(2 * pair + 1)
        feed = Feed(store, {"experiment": experiment.name})
        live = Live(feed)
        drawing = 0.0
        of = live.maps.of

        def drawn(id: int, of=of) -> bytes | None:
            nonlocal drawing
            began = time.thread_time()
            found = of(id)
            drawing += time.thread_time() - began
            return found

        live.maps.of = drawn
        engine.progress = timed = Timed(feed)
        reader = multiprocessing.get_context("spawn").Process(target=page, args=(live.address,), daemon=True)
        reader.start()
        while not live.watched():
            time.sleep(0.05)
        watched = train(2 * pair + 2)
        threads = [thread for thread in threading.enumerate() if "process_request" in thread.name]
        events = sum(map(of_thread, threads))
        reader.kill()
        live.stop()
        ratios.append(watched / alone)
        kept.append(timed.seconds / watched)
        served.append((events + drawing) / watched)
        each = 1e6 * timed.seconds / timed.calls
        print(
            f"{alone:.2f} s alone, {watched:.2f} s watched; {timed.calls} calls of {each:.0f} us in its thread",
            end="; ",
        )
        print(f"events {events:.3f} s, maps {drawing:.3f} s of processor time", flush=True)
    print(f"watched / alone: median {statistics.median(ratios):.3f}")
    print(f"training thread kept: median {statistics.median(kept):.3%}")
    print(f"page served: median {statistics.median(served):.2%} of a core")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
