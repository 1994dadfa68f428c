"""What a person sees while work goes on: live bars on a terminal, a line now and then in a log, else nothing."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

T = TypeVar("T")
CALLS = ("begin", "status", "ticks", "measured", "finished", "concluded", "note", "warn", "end")


class Silent:
    """The interface, doing nothing."""

    def begin(self, what: str, total: int, done: int) -> None:
        """`total` items of work, `done` of them already stored."""

    def status(self, text: str) -> None:
        """Something slow without ticks has begun (importing, compiling)."""

    def ticks(self, label: str, tick: int, max_ticks: int, metrics: Mapping[str, float]) -> None:
        """The current item is at `tick`."""

    def measured(self, trials: Sequence[Any], outcomes: Sequence[Any]) -> None:
        """Trials that train side by side have been looked at; `outcomes` grow and are to be read, not changed."""

    def finished(self, label: str, status: str) -> None:
        """One item is complete."""

    def concluded(
        self, trial: Any, status: str, message: str, finals: Mapping[str, float], called: str | None = None
    ) -> None:
        """A trial is stored: how it ended, the last value of each metric, and what to call it."""
        self.finished(called or trial.label, status)

    def note(self, text: str) -> None:
        """What to show beside the progress from now on."""

    def warn(self, text: str) -> None:
        """Something that should be read, once."""

    def end(self) -> None:
        """All work is done or abandoned."""


class Lines(Silent):
    """For logs: one line at most every few seconds, and the total at the end."""

    interval = 10.0

    def __init__(self):
        self.total = self.done = 0
        self.began = self.last = time.monotonic()
        self.what = self.aside = ""

    def begin(self, what: str, total: int, done: int) -> None:
        self.what, self.total, self.done = what, total, done
        self.began = self.last = time.monotonic()
        self.already = done

    def say(self, text: str) -> None:
        if time.monotonic() - self.last >= self.interval:
            self.last = time.monotonic()
            print(f"[{self.done}/{self.total}] {text}{self.aside}", file=sys.stderr, flush=True)

    def ticks(self, label: str, tick: int, max_ticks: int, metrics: Mapping[str, float]) -> None:
        self.say(f"{label}: {tick}/{max_ticks}{first_metric(metrics)}")

    def finished(self, label: str, status: str) -> None:
        self.done += 1
        self.say(f"{label}: {status}")

    def note(self, text: str) -> None:
        self.aside = f"  |  {text}"

    def warn(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def end(self) -> None:
        if self.total > self.already and time.monotonic() - self.began > 2:
            seconds = time.monotonic() - self.began
            print(f"{self.what}: {self.done}/{self.total} in {seconds:.0f} s", file=sys.stderr, flush=True)


class TerminalBars(Silent):
    """For terminals: a bar over all items, one over the current item's ticks; rate, time left and live metric."""

    def __init__(self):
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        self.bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            TextColumn("{task.fields[rate]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}", markup=False),
            TextColumn("{task.fields[aside]}", markup=False),
            console=Console(stderr=True),
            transient=True,
        )
        self.current = ""

    def begin(self, what: str, total: int, done: int) -> None:
        self.items = self.bars.add_task(what, total=total, completed=done, note="", rate="", aside="")
        self.item = self.bars.add_task("", total=1, visible=False, note="", rate="", aside="")
        self.bars.start()

    def status(self, text: str) -> None:
        self.bars.update(self.items, note=text)

    def ticks(self, label: str, tick: int, max_ticks: int, metrics: Mapping[str, float]) -> None:
        if label != self.current:
            self.bars.reset(self.item, total=max_ticks, completed=tick, visible=True, description=label)
            self.bars.update(self.items, note="")
            self.current = label
        speed = self.bars.tasks[1].speed
        rate = f"{speed:,.0f}/s" if speed else ""
        self.bars.update(self.item, completed=tick, note=first_metric(metrics), rate=rate)

    def finished(self, label: str, status: str) -> None:
        self.bars.advance(self.items)

    def note(self, text: str) -> None:
        self.bars.update(self.items, aside=text)

    def warn(self, text: str) -> None:
        self.bars.console.print(text, markup=False, highlight=False)

    def end(self) -> None:
        self.bars.stop()


class TwoDisplays(Silent):
    """Two displays of the same work."""

    def __init__(self, first: Silent, second: Silent):
        for name in CALLS:
            setattr(self, name, self._pair(getattr(first, name), getattr(second, name)))

    @staticmethod
    def _pair(first: Callable[..., None], second: Callable[..., None]) -> Callable[..., None]:
        def call(*given: Any) -> None:
            first(*given)
            second(*given)

        return call


def first_metric(metrics: Mapping[str, float]) -> str:
    """The live metric: the first loss among them, else the first of all."""
    named = sorted(metrics, key=lambda name: ("loss" not in name, name))
    return f"  {named[0]} {metrics[named[0]]:.4g}" if named else ""


def watched(items: Iterable[T], total: int, what: str, progress: Silent | None) -> Iterator[T]:
    """The items, with their number on a display from the moment on that they have taken a second."""
    if progress is None:
        yield from items
        return
    began, shown = time.monotonic(), False
    try:
        for done, item in enumerate(items):
            yield item
            if shown:
                progress.finished(what, "under way")
            elif time.monotonic() - began > 1:
                shown = True
                progress.begin(what, total, done + 1)
    finally:
        if shown:
            progress.end()


def for_terminal() -> Silent:
    """The display that suits where standard error goes."""
    return TerminalBars() if sys.stderr.isatty() else Lines()
