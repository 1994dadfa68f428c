"""One segment of a store's index: a folder of four files about the same trials.

trials.jsonl       one line per trial: sizes and times of its files, config.json, run.json, last values
trials.parquet     one row per trial: what it is, how it ended and was made, and every field of its config
finals.parquet     the last value of each metric of each trial
metrics.parquet    every measurement

The folder is named by the format and the digest of trials.jsonl, whose first line has the digests of the others. So
nothing is believed that is not as it was written.
"""

import hashlib
import json
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from stairwise.lab.store.entries import renamed
from stairwise.lab.store.files import Damaged, StoreError, read_file, regular, restored, storable
from stairwise.lab.store.trial import ARRAYS, CONFIG, METRICS, RUN, Columns, StoredTrial, attributes

FORMAT = 2
NAME = re.compile(rf"{FORMAT}-[0-9a-f]{{32}}")
LINES, TRIALS, FINALS, MEASUREMENTS = "trials.jsonl", "trials.parquet", "finals.parquet", "metrics.parquet"
ROWS_AT_ONCE = 200_000
MAKING = ("device", "group_width", "precision", "source_hash", "versions", "machine", "xla_flags")  # mostly equal

# what each table has at least, with DuckDB's types
TRIAL_COLUMNS = {"digest": "VARCHAR", "experiment": "VARCHAR", "version": "BIGINT", "seed": "BIGINT", "arm": "VARCHAR"}
TRIAL_COLUMNS |= {"status": "VARCHAR", "message": "VARCHAR", "started": "DOUBLE", "seconds": "DOUBLE"}
TRIAL_COLUMNS |= {"group_width": "BIGINT", "platform": "VARCHAR", "device": "VARCHAR", "source_hash": "VARCHAR"}
FINAL_COLUMNS = {"digest": "VARCHAR", "name": "VARCHAR", "value": "DOUBLE"}
METRIC_COLUMNS = {"digest": "VARCHAR", "stage": "VARCHAR", "step": "BIGINT", "name": "VARCHAR", "value": "DOUBLE"}
ARROW = {"VARCHAR": "string", "BIGINT": "int64", "DOUBLE": "float64", "BOOLEAN": "bool_"}

Signature = list[int]


def signature(path: Path | str) -> Signature:
    """Time and size of each of a trial's files; empty where one is missing."""
    found: Signature = []
    try:
        for name in (CONFIG, METRICS, ARRAYS, RUN):
            facts = os.stat(f"{path}/{name}")
            found += [facts.st_mtime_ns, facts.st_size]
    except OSError:
        return []
    return found


def beginning(files: Signature) -> str:
    """How the line of a trial with these files begins."""
    return f'{{"files":[{",".join(map(str, files))}],'


class Segment:
    """A segment as it was written; Damaged where any byte of trials.jsonl differs."""

    def __init__(self, path: Path):
        self.path = path
        data = read_file(path / LINES)
        if _name(data) != path.name:
            raise Damaged(path, f"{LINES}: digest differs")
        head, *lines = data.decode().splitlines()
        self.head = json.loads(head)
        self.lines: dict[str, str] = dict(line.split("\t", 1) for line in lines)
        self.configs: dict[str, tuple[dict[str, Any], Any]] = {}
        self.names: dict[tuple[str, ...], tuple[str, ...]] = {}

    def row(self, line: str) -> dict[str, Any]:
        row = json.loads(line, object_hook=restored if "$float" in line else None)
        row["run"] |= self.head["makings"][row.pop("making")]
        return row

    def record(self, path: Path, line: str) -> StoredTrial:
        """The trial as it was entered."""
        row = self.row(line)
        text = json.dumps(row["config"])
        if text not in self.configs:  # one for all seeds
            self.configs[text] = row["config"], attributes(row["config"])
        row["run"] = shared(row["run"])
        fields = {name: row[name] for name in ("version", "seed", "needs", "digest", "run")}
        fields |= {name: sys.intern(row[name]) for name in ("experiment", "arm")}
        names = tuple(row["final"])
        last = self.names.setdefault(names, names), tuple(row["final"].values())
        return StoredTrial.entered(path, *self.configs[text], last=last, **fields)

    def measured(self) -> int:
        """How many measurements there are."""
        import pyarrow.parquet

        return pyarrow.parquet.ParquetFile(self.file(MEASUREMENTS)).metadata.num_rows

    def file(self, name: str) -> Any:
        """One of the Parquet files, in memory that is Arrow's own; Damaged where any byte differs."""
        import pyarrow

        try:
            with regular(self.path / name) as file:
                data = pyarrow.allocate_buffer(os.fstat(file.fileno()).st_size)
                file.readinto(data)
        except (OSError, StoreError) as error:
            raise Damaged(self.path, f"{name}: {error}") from error
        if hashlib.sha256(data).hexdigest() != self.head["files"][name]:
            raise Damaged(self.path, f"{name}: digest differs")
        return pyarrow.BufferReader(data)


def shared(data: dict[str, Any]) -> dict[str, Any]:
    """The same with keys that all such dictionaries share: of many thousand trials each would have its own."""
    return {sys.intern(key): shared(value) if type(value) is dict else value for key, value in data.items()}


def _name(lines: bytes) -> str:
    return f"{FORMAT}-{hashlib.sha256(lines).hexdigest()[:32]}"


class SegmentWriter:
    """Collects a segment, trial by trial, in a folder of its own; measurements do not pile up in memory."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.rows: list[dict[str, Any]] = []
        self.waiting: list[Any] = []
        self.waiting_rows = 0
        self.measurements: Any = None

    def add(self, row: dict[str, Any], measurements: Any) -> None:
        self.rows.append(row)
        self.waiting.append(measurements)
        self.waiting_rows += measurements.num_rows
        if self.waiting_rows >= ROWS_AT_ONCE:
            self._flush()

    def take(self, rows: Iterable[dict[str, Any]], measurements: Any) -> None:
        """Rows of another segment, and their measurements."""
        self.rows += rows
        self._put(measurements)

    def _flush(self) -> None:
        import pyarrow

        if self.waiting:
            self._put(pyarrow.concat_tables(self.waiting))
            self.waiting, self.waiting_rows = [], 0

    def _put(self, table: Any) -> None:
        import pyarrow.parquet

        if self.measurements is None:
            self.file = open(self.folder / MEASUREMENTS, "wb")  # noqa: SIM115 (closed in `publish`)
            self.measurements = pyarrow.parquet.ParquetWriter(self.file, table.schema, compression="zstd")
        self.measurements.write_table(table)

    def publish(self, folder: Path) -> None:
        """Gives what was collected its place among the segments in `folder`."""
        import pyarrow.parquet

        self._flush()
        self.measurements.close()
        self.file.close()
        for name, table in ((TRIALS, trials_table(self.rows)), (FINALS, finals_table(self.rows))):
            with open(self.folder / name, "wb") as file:
                pyarrow.parquet.write_table(table, file, compression="zstd")
        lines = self._lines()
        (self.folder / LINES).write_bytes(lines)
        folder.mkdir(parents=True, exist_ok=True)
        renamed(self.folder, folder / _name(lines))  # unless another process has entered the same trials

    def _lines(self) -> bytes:
        makings: dict[str, int] = {}
        lines = []
        for row in self.rows:
            making = _text({name: row["run"][name] for name in MAKING if name in row["run"]})
            rest = {name: value for name, value in row["run"].items() if name not in MAKING}
            line = {**row, "run": rest, "making": makings.setdefault(making, len(makings))}
            lines.append(f"{row['experiment']}/{row['digest']}\t{_text(line)}\n")
        files = {
            name: hashlib.sha256((self.folder / name).read_bytes()).hexdigest()
            for name in (TRIALS, FINALS, MEASUREMENTS)
        }
        return f'{{"files":{_text(files)},"makings":[{",".join(makings)}]}}\n{"".join(lines)}'.encode()


def entry(record: StoredTrial, files: Signature, measured: Any = None) -> tuple[dict[str, Any], Any]:
    """What the index holds of a trial: a row, and the table of its measurements, which is read unless it is given."""
    import pyarrow

    measured = record.measurements() if measured is None else measured
    fields = ("digest", "experiment", "version", "seed", "arm", "needs")
    finals = Columns.of(measured).finals()
    row = {"files": files, **{name: getattr(record, name) for name in fields}}
    row |= {"config": record.config_dict, "run": record.run, "final": finals}
    columns = [pyarrow.repeat(record.digest, measured.num_rows), *measured.columns]
    return row, pyarrow.table(columns, names=["digest", *measured.column_names]).select(list(METRIC_COLUMNS))


def _text(value: Any) -> str:
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError):  # few have a NaN, or numbers of NumPy's
        return json.dumps(storable(value), separators=(",", ":"))


# --- tables -----------------------------------------------------------------------------------------------------------


def arrow_table(kinds: Mapping[str, str], columns: Mapping[str, Sequence[Any]]) -> Any:
    """A pyarrow table of these columns; one that is not given is empty, and so is a value of another type."""
    import pyarrow

    data = {}
    for name, kind in kinds.items():
        made = pyarrow.list_(pyarrow.string()) if kind.endswith("[]") else getattr(pyarrow, ARROW[kind])()
        data[name] = pyarrow.array([_cell(kind, value) for value in columns.get(name, ())], made)
    return pyarrow.table(data)


def _cell(kind: str, value: Any) -> Any:
    if value is None or kind in ("BOOLEAN", "VARCHAR[]"):
        return value
    if kind == "VARCHAR":
        return value if isinstance(value, str) else _words(value)
    if type(value) is float:
        return value if kind == "DOUBLE" else None
    return value if type(value) is int and -(2**63) <= value < 2**63 else None


def _words(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def trials_table(rows: Sequence[dict[str, Any]]) -> Any:
    """What all trials have, and each config field of any of them."""
    facts, configs = [_facts(row) for row in rows], [_flat(row["config"]) for row in rows]
    fields = [
        path for path in dict.fromkeys(path for config in configs for path in config) if path not in TRIAL_COLUMNS
    ]
    columns = {name: [each.get(name) for each in facts] for name in TRIAL_COLUMNS}
    settings = {path: [config.get(path) for config in configs] for path in fields}
    kinds = {path: _kind({type(value) for value in values} - {type(None)}) for path, values in settings.items()}
    return arrow_table({**TRIAL_COLUMNS, **kinds}, {**columns, **settings})


def finals_table(rows: Sequence[dict[str, Any]]) -> Any:
    finals = [(row["digest"], *final) for row in rows for final in row["final"].items()]
    return arrow_table(FINAL_COLUMNS, {name: [final[k] for final in finals] for k, name in enumerate(FINAL_COLUMNS)})


def _facts(row: Mapping[str, Any]) -> dict[str, Any]:
    """What a trial is and how it was made, by column."""
    run = row["run"]
    timing, device = (value if isinstance(value, dict) else {} for value in (run.get("timing"), run.get("device")))
    times = {"started": timing.get("started"), "seconds": timing.get("seconds_per_trial")}
    return {**row, **run, **times, "platform": device.get("platform"), "device": device.get("kind")}


def _flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in config.items():
        if isinstance(value, dict):
            found.update(_flat(value, f"{prefix}{name}."))
        else:
            found[prefix + name] = value
    return found


def _kind(kinds: set[type]) -> str:
    """Numbers and truth values where all are, else text."""
    for allowed, name in (({bool}, "BOOLEAN"), ({int}, "BIGINT"), ({int, float}, "DOUBLE")):
        if kinds <= allowed:
            return name
    return "VARCHAR"
