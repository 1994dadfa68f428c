"""The index of a store: what its trials are and what they measured, in few files, so that thousands are listed at once.

The index is a copy and may be deleted at any time. A trial is entered after every byte of it has been checked, or by
the process that writes it where no other does. Its entry counts only while size and time of each of its files are
those that were entered; otherwise the trial itself is read. Segments carry their digests, and one that is not as it
was written is removed. They are written aside and renamed, so that any number of processes may do so at once.
"""

import itertools
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from functools import cached_property
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from stairwise.lab.progress import Silent
from stairwise.lab.store.files import Damaged, Newer, StoreError, entries, remove, scratch_name
from stairwise.lab.store.segment import (
    MEASUREMENTS,
    NAME,
    ROWS_AT_ONCE,
    Segment,
    SegmentWriter,
    Signature,
    beginning,
    entry,
    finals_table,
    signature,
    trials_table,
)
from stairwise.lab.store.trial import METRICS, Columns, StoredTrial, recent
from stairwise.lab.worker import leave_with_the_caller, unheard_by_children

WORTH_WRITING = 64  # trials; fewer are quicker to read than to enter
LARGEST_SEGMENT = 2_500  # trials: what is held in memory while it is written
MOST_PROCESSES = 4
MOST_SMALL_SEGMENTS = 8
SETTLED_NS = 10**9  # a file younger than this could change again within the clock's grain

ROW_BYTES = 24  # of a measurement in memory
SMALL = ("trials", "finals")  # tables that are read at once
REPEATED = ("digest", "stage", "name")  # columns of measurements whose values come again and again

Reader = Callable[[Path], StoredTrial]


class Index:
    """The index of the store in folder `root`, as it is now; `places` gives the folders of its trials."""

    def __init__(self, root: Path, places: Callable[[str | None], Iterable[str]], check: Reader):
        self.root, self.folder = root, root / "index"
        self.places, self.check = places, check
        self.unentered: list[Path] | None = None  # as far as it has been looked for
        self.beginnings: dict[str, str] = {}  # of trials' lines, from their files as this process has found them

    @cached_property
    def segments(self) -> list[Segment]:
        """What there is, read once; a segment that is not as it was written is removed."""
        found = []
        for path in entries(self.folder):
            if NAME.fullmatch(path.name):
                with suppress(Damaged), self._sound(path):
                    found.append(Segment(path))
        return found

    def records(self, name: str | None, read: Reader) -> Iterator[StoredTrial]:
        """The trials of "paper", "paper/experiment" or all: from the index where it is current, else by `read`."""
        for place in self.places(name):
            with suppress(Damaged):
                found, path = self._entry(place), Path(place)
                yield read(path) if found is None else found[0].record(path, found[1])

    def missing(self) -> list[Path]:
        """The trial folders that are not entered as they are now; looked for once, unless segments come or go."""
        if self.unentered is None:
            self.unentered = [Path(place) for place in self.places(None) if self._entry(place) is None]
        return self.unentered

    def read_again(self) -> None:
        """Forgets what segments there were."""
        self.__dict__.pop("segments", None)
        self.unentered = None

    def do_without(self) -> None:
        """Takes no segment for current."""
        self.segments, self.unentered = [], None

    def _entry(self, path: str) -> tuple[Segment, str] | None:
        """Where a trial is entered as it is now, and its line."""
        key = "/".join(path.rsplit("/", 3)[1:])
        for segment in self.segments:
            line = segment.lines.get(key)
            if line is not None and self._current(key, line):
                return segment, line
        return None

    def _current(self, key: str, line: str) -> bool:
        if key not in self.beginnings:
            self.beginnings[key] = beginning(signature(f"{self.root}/trials/{key}"))
        return line.startswith(self.beginnings[key])

    # --- tables -------------------------------------------------------------------------------------------------------

    def tables(self) -> dict[str, list[Any]]:
        """The parts of the tables `trials`, `finals` and `metrics`, in memory, for DuckDB; no trial comes twice.

        Damaged where a segment is not as it was written, or another process has removed it.
        """
        import pyarrow
        from pyarrow.compute import field, is_in  # type: ignore[attr-defined]
        from pyarrow.dataset import FileSystemDataset, ParquetFileFormat, ParquetReadOptions
        from pyarrow.parquet import read_table

        form = ParquetFileFormat(read_options=ParquetReadOptions(dictionary_columns=REPEATED))
        found: dict[str, list[Any]] = {"trials": [], "finals": [], "metrics": []}
        seen: set[str] = set()
        for segment in self.segments:
            keys = [key for key, line in segment.lines.items() if key not in seen and self._current(key, line)]
            seen.update(keys)
            if not keys:
                continue
            with self._sound(segment.path):
                small = {name: read_table(segment.file(f"{name}.parquet"), use_threads=False) for name in SMALL}
                fragment = form.make_fragment(segment.file(MEASUREMENTS))
            metrics = FileSystemDataset([fragment], fragment.physical_schema, form)
            if len(keys) < len(segment.lines):  # without trials that have changed or gone since they were entered
                digests = pyarrow.array([key.rpartition("/")[2] for key in keys])
                small = {name: table.filter(is_in(table["digest"], digests)) for name, table in small.items()}
                metrics = metrics.filter(field("digest").isin(digests))
            for name, part in {**small, "metrics": metrics}.items():
                found[name].append(part)
        rest = [each for path in self.missing() for each in self._checked(path, [])]
        if rest:
            rows = [row for row, _ in rest]
            found["trials"].append(trials_table(rows))
            found["finals"].append(finals_table(rows))
            found["metrics"].append(pyarrow.concat_tables([table for _, table in rest]))
        return found

    def read_ahead(self) -> None:
        """Reads what all entered trials measured, a segment at a time, where there is room for all of it: thousands of
        small files are not opened one by one then.
        """
        with suppress(Damaged):
            if sum(segment.measured() for segment in self.segments) * ROW_BYTES <= recent.most:
                for segment in self.segments:
                    with self._sound(segment.path):
                        self._keep(segment, self._entered_in(segment))

    def _entered_in(self, segment: Segment) -> dict[str, str]:
        """The current lines of a segment by digest."""
        return {k.rpartition("/")[2]: k for k, line in segment.lines.items() if self._current(k, line)}

    def _keep(self, segment: Segment, places: Mapping[str, str]) -> None:
        import numpy as np
        from pyarrow.parquet import ParquetFile

        file = ParquetFile(segment.file(MEASUREMENTS), read_dictionary=list(REPEATED))
        table = file.read(use_threads=False).unify_dictionaries()
        columns, digests = Columns.of(table), table["digest"].combine_chunks()
        codes = np.from_dlpack(digests.indices)
        begins = np.flatnonzero(np.diff(codes, prepend=-1))
        for begin, end in itertools.pairwise([*begins.tolist(), len(codes)]):
            key = places.get(digests.dictionary[int(codes[begin])].as_py())
            if key is not None:
                row = segment.row(segment.lines[key])
                _, _, time_ns, size, *_ = row["files"]
                known = f"{self.root}/trials/{key}/{METRICS}", time_ns, size, row["run"]["files"][METRICS]["sha256"]
                recent.put(known, columns.slice(slice(begin, end)))

    # --- writing ------------------------------------------------------------------------------------------------------

    def refresh(self, progress: Silent | None = None) -> None:
        """Enter what is new, where it is worth it and the store can be written to; merge small segments."""
        missing = self.missing()
        if len(missing) < WORTH_WRITING:
            return
        progress = progress or Silent()
        progress.begin("entering trials in the index", len(missing), 0)
        try:
            with suppress(OSError, StoreError):  # without an index everything works, slowly
                self._enter(
                    [missing[k : k + LARGEST_SEGMENT] for k in range(0, len(missing), LARGEST_SEGMENT)], progress
                )
                self.read_again()
                small = [segment for segment in self.segments if len(segment.lines) < LARGEST_SEGMENT // 2]
                if len(small) > MOST_SMALL_SEGMENTS:
                    self._merge(small)
                    self.read_again()
        finally:
            progress.end()

    def _enter(self, parts: Sequence[Sequence[Path]], progress: Silent) -> None:
        """A segment for each part, by several processes at once: checking every byte takes most of a first listing."""
        processes = min(MOST_PROCESSES, os.cpu_count() or 1, len(parts))
        if processes > 1:
            pool = ProcessPoolExecutor(processes, get_context("spawn"), initializer=leave_with_the_caller)
            try:
                with unheard_by_children(), suppress(BrokenProcessPool):
                    waiting = {pool.submit(_entered, self.root, paths, self.check): paths for paths in parts}
                    for each in as_completed(waiting):
                        each.result()
                        for path in waiting[each]:
                            progress.finished(path.name, "checked")
                    return
            finally:
                pool.shutdown(cancel_futures=True)
        for paths in parts:
            self._write(paths, progress)

    def _write(self, paths: Iterable[Path], progress: Silent) -> None:
        """A new segment of the undamaged and settled trials among the paths."""
        with self._writer() as writer:
            for path in paths:
                before = signature(path)
                if before and time.time_ns() - max(before[::2]) > SETTLED_NS:
                    for row, measurements in self._checked(path, before):
                        writer.add(row, measurements)
                progress.finished(path.name, "checked")

    def enter_written(self, trials: Iterable[tuple[Path, Mapping[str, bytes], Any]]) -> None:
        """A new segment of trials that this process is writing, where no other does: folder, files, measurements."""
        with self._writer() as writer:
            for path, files, measured in trials:
                with suppress(Damaged):
                    writer.add(*entry(StoredTrial.written(path, files), signature(path), measured))

    def _merge(self, segments: Sequence[Segment]) -> None:
        """One segment instead of many."""
        import pyarrow
        from pyarrow.compute import is_in  # type: ignore[attr-defined]
        from pyarrow.parquet import ParquetFile

        taken: set[str] = set()
        with self._writer() as writer:
            for segment in segments:
                found = {k: v for k, v in segment.lines.items() if k not in taken and self._current(k, v)}
                taken |= found.keys()
                rows = [segment.row(line) for line in found.values()]
                digests = pyarrow.array([row["digest"] for row in rows], pyarrow.string())
                with self._sound(segment.path):
                    file = ParquetFile(segment.file(MEASUREMENTS))
                for batch in file.iter_batches(ROWS_AT_ONCE):
                    table = pyarrow.Table.from_batches([batch])
                    writer.take(rows, table.filter(is_in(table["digest"], digests)))
                    rows = []
        for segment in segments:
            remove(segment.path)

    @contextmanager
    def _writer(self) -> Iterator[SegmentWriter]:
        """Writes a segment aside and gives it its place when all is in it."""
        scratch = self.root / "tmp" / scratch_name()
        scratch.mkdir(parents=True)
        try:
            writer = SegmentWriter(scratch)
            yield writer
            if writer.rows:
                writer.publish(self.folder)
        finally:
            remove(scratch)

    def _checked(self, path: Path, files: Signature) -> Iterator[tuple[dict[str, Any], Any]]:
        """What the index holds of the trial in a folder, if that can be believed."""
        with suppress(Damaged, Newer):
            yield entry(self.check(path), files)

    @contextmanager
    def _sound(self, path: Path) -> Iterator[None]:
        """Removes a segment that turns out not to be as it was written; it is made again when needed."""
        try:
            yield
        except Damaged:
            remove(path)
            raise


def _entered(root: Path, paths: Sequence[Path], check: Reader) -> None:
    """In a process of its own: a segment of these trials."""
    Index(root, lambda name: (), check)._write(paths, Silent())
