"""What a person sees while work goes on: live bars on a terminal, a line now and then in a log, else nothing."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
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
        self.total = self.done = self.already = 0
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
        self.aside = f"  |  {text}" if text else ""

    def warn(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def end(self) -> None:
        if self.total > self.already and time.monotonic() - self.began > 2:
            seconds = time.monotonic() - self.began
            print(f"{self.what}: {self.done}/{self.total} in {seconds:.0f} s", file=sys.stderr, flush=True)


class TerminalBars(Silent):
    """For terminals: a bar over all items, one over the current item's ticks, and a line of what is going on.

    Bars, counts and times left keep their places on a terminal of 80 columns: names are shortened, and what may be long
    (the live metric, the best so far) has the line below for itself.
    """

    def __init__(self, console: Any = None):
        from rich.console import Console, Group
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
        from rich.table import Column
        from rich.text import Text

        fixed = partial(Column, no_wrap=True)
        display = self

        class Bars(Progress):
            def get_renderables(self):
                below = Text(display.below(), no_wrap=True, overflow="ellipsis", style="dim")
                yield Group(self.make_tasks_table(self.tasks), *([below] if below.plain else []))

        self.doing = self.metric = self.aside = self.current = ""
        self.bars = Bars(
            TextColumn("{task.description}", markup=False, table_column=fixed()),
            BarColumn(bar_width=18, table_column=fixed(min_width=18)),
            TextColumn("{task.completed:.0f}/{task.total:.0f}", table_column=fixed(justify="right")),
            TextColumn("left", table_column=fixed()),
            TimeRemainingColumn(table_column=fixed()),
            TextColumn("{task.fields[rate]}", markup=False, table_column=fixed()),
            console=console or Console(stderr=True),
            transient=True,
        )

    def below(self) -> str:
        return "  ".join(filter(None, (self.doing, self.metric.strip(), self.aside)))

    def called(self, name: str) -> str:
        """A name that leaves room for the rest."""
        most = max(12, self.bars.console.width - 54)
        return name if len(name) <= most else f"{name[: most - 1]}…"

    def begin(self, what: str, total: int, done: int) -> None:
        self.items = self.bars.add_task(self.called(what), total=total, completed=done, rate="")
        self.item = self.bars.add_task("", total=1, visible=False, rate="")
        self.bars.start()

    def status(self, text: str) -> None:
        self.doing = text

    def ticks(self, label: str, tick: int, max_ticks: int, metrics: Mapping[str, float]) -> None:
        self.doing = ""
        if label != self.current:
            description = self.called(label)
            self.bars.reset(self.item, total=max_ticks, completed=tick, visible=True, description=description)
            self.current = label
        speed = self.bars.tasks[1].speed
        self.metric = first_metric(metrics)
        self.bars.update(self.item, completed=tick, rate=f"{speed:,.0f}/s" if speed else "")

    def finished(self, label: str, status: str) -> None:
        self.bars.advance(self.items)

    def note(self, text: str) -> None:
        self.aside = text

    def warn(self, text: str) -> None:
        self.bars.console.print(text, markup=False, highlight=False)

    def end(self) -> None:
        self.bars.stop()


class Within(Silent):
    """The trials of one item of another display: what they do is shown there, and how many are done beside it."""

    def __init__(self, display: Silent):
        self.display, self.total, self.done = display, 0, 0
        for name in ("status", "ticks", "measured", "warn"):
            setattr(self, name, getattr(display, name))

    def begin(self, what: str, total: int, done: int) -> None:
        self.total, self.done = total, done
        self.display.note(f"trials {done}/{total}")

    def finished(self, label: str, status: str) -> None:
        self.done += 1
        self.display.note(f"trials {self.done}/{self.total}")

    def end(self) -> None:
        self.display.note("")


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


def for_people() -> Silent:
    """As `for_terminal` in a terminal or a notebook; silent where nobody is likely to look."""
    notebook = sys.modules.get("IPython")
    watched = sys.stderr.isatty() or (notebook is not None and notebook.get_ipython() is not None)
    return for_terminal() if watched else Silent()
