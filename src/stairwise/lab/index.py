"""The index of a store: what its trials are and what they measured, in few files, so that thousands are listed at once.

index/<id>/trials.jsonl       one line a trial: config.json, run.json, last values, sizes and times of its files
index/<id>/metrics.parquet    the measurements of the same trials

The index is a copy and may be deleted at any time. A trial is entered after every byte of it has been checked, and its
line counts only while size and time of each of its files are those that were checked; otherwise the trial itself is
read. Segments are written aside and renamed, so that any number of processes may do so at once.
"""

import json
import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from stairwise.lab.files import Damaged, StoreError, entries, remove, restored, scratch_name, storable
from stairwise.lab.record import ARRAYS, CONFIG, METRICS, RUN, StoredTrial

TRIALS, TABLE = "trials.jsonl", "metrics.parquet"
FORMAT = 1
WORTH_WRITING = 64  # trials; fewer are quicker to read than to enter
MOST_SEGMENTS = 8
SETTLED_NS = 10**9  # a file younger than this could change again within the clock's grain
ROWS_AT_ONCE = 200_000
MAKING = ("device", "group_width", "precision", "source_hash", "versions", "machine")  # mostly equal: written once

Signature = list[int]
Reader = Callable[[Path], StoredTrial]


class Index:
    """The index of the store in folder `root`; `places` gives the folders of its trials."""

    def __init__(self, root: Path, places: Callable[[str | None], Iterable[Path]], check: Reader):
        self.root, self.folder = root, root / "index"
        self.places, self.check = places, check

    def records(self, name: str | None, read: Reader) -> Iterator[StoredTrial]:
        """The trials of "paper", "paper/experiment" or all: from the index where it is current, else by `read`."""
        segments = self._segments()
        lines = {key: (segment, line) for segment in segments for key, line in segment.lines.items()}
        for path in self.places(name):
            segment, line = lines.get(_key(path), (None, ""))
            with suppress(Damaged):
                stored = segment.record(path, line) if segment else None
                yield stored if stored is not None else read(path)

    def missing(self) -> list[Path]:
        """The trial folders that are not entered as they are now."""
        lines = {key: (segment, line) for segment in self._segments() for key, line in segment.lines.items()}
        found = []
        for path in self.places(None):
            segment, line = lines.get(_key(path), (None, ""))
            if segment is None or segment.record(path, line) is None:
                found.append(path)
        return found

    def refresh(self) -> None:
        """Enter what is new, where it is worth it and the store can be written to; merge segments that pile up."""
        missing = self.missing()
        if len(missing) < WORTH_WRITING:
            return
        with suppress(OSError, StoreError):  # without an index everything works, slowly
            made = self.write(missing, self.folder, self.root / "tmp" / scratch_name())
            if made and len(self._segments()) > MOST_SEGMENTS:
                self._merge()

    def write(self, paths: Iterable[Path], folder: Path, scratch: Path, *, fresh: bool = False) -> Path | None:
        """A new segment of the undamaged and settled (or `fresh`) trials among the paths; None where there are none."""
        scratch.mkdir(parents=True)
        try:
            with _Writer(scratch) as writer:
                for path in paths:
                    with suppress(Damaged):
                        before = signature(path)
                        record = self.check(path)
                        if before and (fresh or time.time_ns() - max(before[::2]) > SETTLED_NS):
                            writer.add(record, before)
            return _publish(scratch, folder) if writer.count else None
        finally:
            remove(scratch)

    def current(self, extra: Path | None = None) -> Iterator[tuple[Path, list[dict[str, Any]]]]:
        """Each segment's table of measurements, and the rows of its trials that are as they were; none twice."""
        seen: set[str] = set()
        for segment in self._segments(extra):
            rows = []
            for key, line in segment.lines.items():
                if key not in seen and segment.current(self.root / "trials" / key, line):
                    seen.add(key)
                    rows.append(segment.row(line))
            if rows:
                yield segment.path / TABLE, rows

    def _segments(self, extra: Path | None = None) -> list["Segment"]:
        found = []
        for path in [*entries(self.folder), *([extra] if extra else [])]:
            with suppress(OSError, ValueError, KeyError):  # half removed, or of another format
                found.append(Segment(path))
        return found

    def _merge(self) -> None:
        """One segment instead of many."""
        import pyarrow.parquet
        from pyarrow.compute import is_in  # type: ignore[attr-defined]

        old, scratch = self._segments(), self.root / "tmp" / scratch_name()
        scratch.mkdir(parents=True)
        try:
            with _Writer(scratch) as writer:
                for table, rows in self.current():
                    writer.rows += rows
                    digests = pyarrow.array([row["digest"] for row in rows])
                    for batch in pyarrow.parquet.ParquetFile(table).iter_batches(ROWS_AT_ONCE):
                        part = pyarrow.Table.from_batches([batch])
                        writer.put(part.filter(is_in(part["digest"], digests)))
            _publish(scratch, self.folder)
        finally:
            remove(scratch)
        for segment in old:
            remove(segment.path)


class Segment:
    """One folder of the index."""

    def __init__(self, path: Path):
        self.path = path
        with open(path / TRIALS) as file:
            head = json.loads(file.readline())
            if head["format"] != FORMAT:
                raise ValueError("another format")
            self.makings = head["makings"]
            self.lines: dict[str, str] = dict(line.rstrip("\n").split("\t", 1) for line in file)

    def row(self, line: str) -> dict[str, Any]:
        row = json.loads(line, object_hook=restored)
        row["run"] |= self.makings[row.pop("making")]
        return row

    def current(self, path: Path, line: str) -> bool:
        """Whether the files are as they were; a line begins with their signature."""
        return line.startswith('{"files":' + _text(signature(path)) + ",")

    def record(self, path: Path, line: str) -> StoredTrial | None:
        """The trial as it was entered; None where its files have changed."""
        if not self.current(path, line):
            return None
        row = self.row(line)
        fields = ("experiment", "version", "seed", "arm", "needs", "digest", "run")
        return StoredTrial.entered(path, row["config"], **{name: row[name] for name in fields})


def signature(path: Path) -> Signature:
    """Time and size of each of a trial's files; empty where one is missing."""
    found: Signature = []
    try:
        for name in (CONFIG, METRICS, ARRAYS, RUN):
            facts = os.stat(f"{path}/{name}")
            found += [facts.st_mtime_ns, facts.st_size]
    except OSError:
        return []
    return found


def _key(path: Path) -> str:
    return "/".join(path.parts[-3:])


def _text(value: Any) -> str:
    return json.dumps(storable(value), separators=(",", ":"))


def _publish(scratch: Path, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / f"{time.time_ns():020d}-{secrets.token_hex(4)}"
    os.rename(scratch, place)
    return place


class _Writer:
    """Writes a segment, trial by trial; its memory does not grow with the measurements."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.rows: list[dict[str, Any]] = []
        self.waiting: list[Any] = []
        self.parquet: Any = None

    def __enter__(self) -> "_Writer":
        return self

    @property
    def count(self) -> int:
        return len(self.rows)

    def add(self, record: StoredTrial, files: Signature) -> None:
        table = record.table()
        fields = ("digest", "experiment", "version", "seed", "arm", "needs")
        finals = dict(zip(table["name"].to_pylist(), table["value"].to_pylist(), strict=True))
        row = {name: getattr(record, name) for name in fields}
        self.rows.append({"files": files, **row, "config": record.config_dict, "run": record.run, "final": finals})
        self.waiting.append(table)
        if sum(part.num_rows for part in self.waiting) >= ROWS_AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        import pyarrow

        if self.waiting:
            self.put(pyarrow.concat_tables(self.waiting))
            self.waiting = []

    def put(self, table: Any) -> None:
        import pyarrow.parquet

        if self.parquet is None:
            self.parquet = pyarrow.parquet.ParquetWriter(self.folder / TABLE, table.schema, compression="zstd")
        self.parquet.write_table(table)

    def __exit__(self, *_: object) -> None:
        self._flush()
        if self.parquet is not None:
            self.parquet.close()
        makings: dict[str, int] = {}
        lines = []
        for row in self.rows:
            making = _text({name: row["run"][name] for name in MAKING if name in row["run"]})
            rest = {name: value for name, value in row["run"].items() if name not in MAKING}
            entry = {**row, "run": rest, "making": makings.setdefault(making, len(makings))}
            lines.append(f"{row['experiment']}/{row['digest']}\t{_text(entry)}\n")
        with open(self.folder / TRIALS, "w") as file:
            file.write(f'{{"format":{FORMAT},"makings":[{",".join(makings)}]}}\n')
            file.writelines(lines)
