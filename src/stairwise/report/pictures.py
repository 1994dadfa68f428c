"""Figures as the site shows them: drawn from a complete preset, as SVG (or PNG where that would be too large)."""

import dataclasses
import multiprocessing
import os
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from xml.parsers import expat

from stairwise.config import ConfigError
from stairwise.lab import api
from stairwise.lab.contract.experiment import Figure
from stairwise.lab.store.files import StoreError
from stairwise.lab.store.store import Store
from stairwise.lab.store.trial import StoredTrial
from stairwise.lab.worker import collect_seldom, leave_with_the_caller, unheard_by_children
from stairwise.words import plain

SVG_BYTES = 800_000  # a larger figure is a PNG, which has no form for dark pages
FIGURES_A_PROCESS = 3  # fewer are not worth starting one
PIXELS_PER_INCH = 130  # a column-wide figure is then comfortable to read on a screen


@dataclass(frozen=True)
class Picture:
    """A drawing: its bytes, the ending of its file's name and its size in pixels; or why there is none."""

    data: bytes = b""
    suffix: str = ""
    width: int = 0
    height: int = 0
    problem: str = ""


def picture(figure: Figure, records: tuple[StoredTrial, ...]) -> Picture:
    """The figure, drawn from these records."""
    try:
        with none_left_open():
            return _drawn(figure, records)
    except Exception as error:  # whatever a paper's drawing code does, the rest of the site stands
        return Picture(problem=message(error))


Drawn = Callable[[Callable[[Figure], None]], list[Picture]]


@contextmanager
def drawing(
    jobs: Sequence[tuple[Figure, tuple[StoredTrial, ...]]], *, store: Path | None = None, apart: bool = False
) -> Iterator[Drawn]:
    """Draws figures while the block goes on, many of them by several processes at once, since that takes most of a
    build. What it yields waits for all of them, in order, and tells whom it is given of each that is there.

    `store`: where most of the records are. `apart`: few figures, too, are drawn in a process of their own, so that
    this one does not need the memory that drawing takes.
    """
    processes = min(4, os.cpu_count() or 1, len(jobs) // FIGURES_A_PROCESS)
    if processes < 2 and not (apart and jobs):
        yield partial(_drawn_here, jobs)
        return
    spawn = multiprocessing.get_context("spawn")  # a fork would copy JAX's threads
    pool = ProcessPoolExecutor(max(1, processes), spawn, initializer=_begin, initargs=(store,))
    try:
        with unheard_by_children():
            waiting = [pool.submit(picture, *job) for job in jobs]
        yield partial(_drawn_there, jobs, waiting)
    finally:
        pool.shutdown(cancel_futures=True)


def _begin(store: Path | None) -> None:
    """In a process that draws: what trials measured is read at once, since many figures are of the same ones."""
    leave_with_the_caller()
    collect_seldom()
    if store is not None:
        with suppress(StoreError, OSError):  # a figure says what cannot be read
            Store(store).index().read_ahead()


def _drawn_there(jobs, waiting: Sequence[Future[Picture]], drawn: Callable[[Figure], None]) -> list[Picture]:
    made = []
    try:
        for (figure, _), each in zip(jobs, waiting, strict=True):
            made.append(each.result())
            drawn(figure)
    except BrokenProcessPool:  # a process was ended from outside
        made += _drawn_here(jobs[len(made) :], drawn)
    return made


def _drawn_here(jobs, drawn: Callable[[Figure], None]) -> list[Picture]:
    made = []
    for figure, records in jobs:
        made.append(picture(figure, tuple(dataclasses.replace(record) for record in records)))  # what is read goes
        drawn(figure)
    return made


@contextmanager
def none_left_open() -> Iterator[None]:
    """Closes the figures that were opened within, however it ends."""
    import matplotlib.pyplot as plt

    open_before = set(plt.get_fignums())
    try:
        yield
    finally:
        for left_open in set(plt.get_fignums()) - open_before:
            plt.close(left_open)


def _drawn(figure: Figure, records: tuple[StoredTrial, ...]) -> Picture:
    drawing = api.draw(figure, records)
    width, height = (round(float(inches) * PIXELS_PER_INCH) for inches in drawing.get_size_inches())
    svg = api.figure_bytes(drawing, ".svg")
    if len(svg) <= SVG_BYTES and _well_formed(svg):
        return Picture(svg, ".svg", width, height)
    return Picture(api.figure_bytes(drawing, ".png"), ".png", width, height)


GREY = re.compile(rb"#([0-9a-f]{2})\1\1\b")
DARKEST, LIGHTEST = 0x15, 0xE6  # of greys on a dark page


def darkened(svg: bytes) -> bytes:
    """A figure for a dark page: greys change places, colours and embedded maps stay; black is what has no colour.

    >>> darkened(b'<svg version="1.1"><path style="fill: #ffffff"/></svg>')
    b'<svg fill="#e6e6e6" version="1.1"><path style="fill: #151515"/></svg>'
    """

    def turned(found: re.Match[bytes]) -> bytes:
        level = DARKEST + (255 - int(found[1], 16)) * (LIGHTEST - DARKEST) // 255
        return b"#" + b"%02x" % level * 3

    return GREY.sub(turned, svg).replace(b"<svg ", b'<svg fill="#%02x%02x%02x" ' % ((LIGHTEST,) * 3), 1)


def _well_formed(svg: bytes) -> bool:
    """Whether readers of XML take it; what a drawing writes past its texts is not known."""
    try:
        expat.ParserCreate().Parse(svg, True)
    except expat.ExpatError:
        return False
    return True


def message(error: Exception) -> str:
    """What went wrong; an error that is a sentence for users goes without its class."""
    said = str(error) if isinstance(error, ConfigError) else f"{type(error).__name__}: {error}"
    return plain(said)[:500]
