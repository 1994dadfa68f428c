"""The index of a store: what its trials are and what they measured, in few files, so that thousands are listed at once.

The index is a copy and may be deleted at any time. A trial is entered after every byte of it has been checked, and its
entry counts only while size and time of each of its files are those that were checked; otherwise the trial itself is
read. Segments are written aside and renamed, so that any number of processes may do so at once.
"""

import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from stairwise.lab.files import Damaged, StoreError, entries, remove, scratch_name
from stairwise.lab.record import StoredTrial
from stairwise.lab.segment import MEASUREMENTS, ROWS_AT_ONCE, Segment, Writer, beginning, signature

WORTH_WRITING = 64  # trials; fewer are quicker to read than to enter
LARGEST_SEGMENT = 5_000  # trials: what is held in memory while it is written
MOST_SMALL_SEGMENTS = 8
SETTLED_NS = 10**9  # a file younger than this could change again within the clock's grain

Reader = Callable[[Path], StoredTrial]


class Part(NamedTuple):
    """A segment's folder, and which of its trials are as they were entered (None: all of them)."""

    folder: Path
    digests: list[str] | None


class Index:
    """The index of the store in folder `root`, as it is now; `places` gives the folders of its trials."""

    def __init__(self, root: Path, places: Callable[[str | None], Iterable[Path]], check: Reader):
        self.root, self.folder = root, root / "index"
        self.places, self.check = places, check
        self.beginnings: dict[str, str] = {}  # of trials' lines, from their files as this process has found them

    @cached_property
    def segments(self) -> list[Segment]:
        """What there is, read once."""
        found = []
        for path in entries(self.folder):
            with suppress(OSError, ValueError, KeyError):  # half removed, or of another format
                found.append(Segment(path))
        return found

    def records(self, name: str | None, read: Reader) -> Iterator[StoredTrial]:
        """The trials of "paper", "paper/experiment" or all: from the index where it is current, else by `read`."""
        for path in self.places(name):
            with suppress(Damaged):
                entry = self._entry(path)
                yield read(path) if entry is None else entry[0].record(path, entry[1])

    def missing(self) -> list[Path]:
        """The trial folders that are not entered as they are now."""
        return [path for path in self.places(None) if self._entry(path) is None]

    def _entry(self, path: Path) -> tuple[Segment, str] | None:
        """Where a trial is entered as it is now, and its line."""
        key = "/".join(str(path).rsplit("/", 3)[1:])
        for segment in self.segments:
            line = segment.lines.get(key)
            if line is not None and self._current(key, line):
                return segment, line
        return None

    def _current(self, key: str, line: str) -> bool:
        if key not in self.beginnings:
            self.beginnings[key] = beginning(signature(f"{self.root}/trials/{key}"))
        return line.startswith(self.beginnings[key])

    def parts(self, extra: Path | None = None) -> Iterator[Part]:
        """The segments (and one more) with those of their trials that are as they were; no trial comes twice."""
        seen: set[str] = set()
        for segment in [*self.segments, *([Segment(extra)] if extra else [])]:
            keys = [key for key, line in segment.lines.items() if key not in seen and self._current(key, line)]
            seen.update(keys)
            if keys:
                whole = len(keys) == len(segment.lines)
                yield Part(segment.path, None if whole else [key.rpartition("/")[2] for key in keys])

    # --- writing ------------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Enter what is new, where it is worth it and the store can be written to; merge small segments."""
        missing = self.missing()
        if len(missing) < WORTH_WRITING:
            return
        with suppress(OSError, StoreError):  # without an index everything works, slowly
            for k in range(0, len(missing), LARGEST_SEGMENT):
                self.write(missing[k : k + LARGEST_SEGMENT], self.folder, self.root / "tmp" / scratch_name())
            del self.segments
            small = [segment for segment in self.segments if len(segment.lines) < LARGEST_SEGMENT // 2]
            if len(small) > MOST_SMALL_SEGMENTS:
                self._merge(small)
                del self.segments

    def write(self, paths: Iterable[Path], folder: Path, scratch: Path, *, fresh: bool = False) -> Path | None:
        """A new segment of the undamaged and settled (or `fresh`) trials among the paths; None where there are none."""
        scratch.mkdir(parents=True)
        try:
            with Writer(scratch) as writer:
                for path in paths:
                    with suppress(Damaged):
                        before = signature(path)
                        record = self.check(path)
                        if before and (fresh or time.time_ns() - max(before[::2]) > SETTLED_NS):
                            writer.add(record, before)
            return _publish(scratch, folder) if writer.rows else None
        finally:
            remove(scratch)

    def _merge(self, segments: Sequence[Segment]) -> None:
        """One segment instead of many."""
        import pyarrow
        from pyarrow.compute import is_in  # type: ignore[attr-defined]
        from pyarrow.parquet import ParquetFile

        scratch = self.root / "tmp" / scratch_name()
        scratch.mkdir(parents=True)
        taken: set[str] = set()
        try:
            with Writer(scratch) as writer:
                for segment in segments:
                    found = {k: v for k, v in segment.lines.items() if k not in taken and self._current(k, v)}
                    taken |= found.keys()
                    rows = [segment.row(line) for line in found.values()]
                    digests = pyarrow.array([row["digest"] for row in rows], pyarrow.string())
                    for batch in ParquetFile(segment.path / MEASUREMENTS).iter_batches(ROWS_AT_ONCE):
                        table = pyarrow.Table.from_batches([batch])
                        writer.take(rows, table.filter(is_in(table["digest"], digests)))
                        rows = []
            if writer.rows:
                _publish(scratch, self.folder)
        finally:
            remove(scratch)
        for segment in segments:
            remove(segment.path)


def _publish(scratch: Path, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / f"{time.time_ns():020d}-{secrets.token_hex(4)}"
    os.rename(scratch, place)
    return place
