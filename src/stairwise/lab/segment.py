"""One segment of a store's index: a folder of four files about the same trials.

trials.jsonl       one line a trial: sizes and times of its files, config.json, run.json, last values
trials.parquet     one row a trial: what it is, how it ended and was made, and every field of its config
finals.parquet     the last value of each metric of each trial
metrics.parquet    every measurement
"""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from stairwise.lab.files import restored, storable
from stairwise.lab.record import ARRAYS, CONFIG, METRICS, RUN, StoredTrial

FORMAT = 1
LINES, TRIALS, FINALS, MEASUREMENTS = "trials.jsonl", "trials.parquet", "finals.parquet", "metrics.parquet"
ROWS_AT_ONCE = 200_000
MAKING = ("device", "group_width", "precision", "source_hash", "versions", "machine")  # mostly equal: written once

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
    return f'{{"files":{files},'.replace(" ", "")


class Segment:
    """A segment as it was written; ValueError or OSError where it is none."""

    def __init__(self, path: Path):
        self.path = path
        with open(path / LINES) as file:
            head = json.loads(file.readline())
            if head["format"] != FORMAT:
                raise ValueError("another format")
            self.makings = head["makings"]
            self.lines: dict[str, str] = dict(line.rstrip("\n").split("\t", 1) for line in file)

    def row(self, line: str) -> dict[str, Any]:
        row = json.loads(line, object_hook=restored if "$float" in line else None)
        row["run"] |= self.makings[row.pop("making")]
        return row

    def record(self, path: Path, line: str) -> StoredTrial:
        """The trial as it was entered."""
        row = self.row(line)
        fields = ("experiment", "version", "seed", "arm", "needs", "digest", "run")
        return StoredTrial.entered(path, row["config"], **{name: row[name] for name in fields})


class Writer:
    """Writes a segment, trial by trial; measurements do not pile up in memory."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.rows: list[dict[str, Any]] = []
        self.waiting: list[Any] = []
        self.measurements: Any = None

    def __enter__(self) -> "Writer":
        return self

    def add(self, record: StoredTrial, files: Signature) -> None:
        table = record.table()
        fields = ("digest", "experiment", "version", "seed", "arm", "needs")
        finals = dict(zip(table["name"].to_pylist(), table["value"].to_pylist(), strict=True))
        row = {name: getattr(record, name) for name in fields}
        self.rows.append({"files": files, **row, "config": record.config_dict, "run": record.run, "final": finals})
        self.waiting.append(table.select(list(METRIC_COLUMNS)))
        if sum(part.num_rows for part in self.waiting) >= ROWS_AT_ONCE:
            self._flush()

    def take(self, rows: Iterable[dict[str, Any]], measurements: Any) -> None:
        """Rows of another segment, and their measurements."""
        self.rows += rows
        self._put(measurements)

    def _flush(self) -> None:
        import pyarrow

        if self.waiting:
            self._put(pyarrow.concat_tables(self.waiting))
            self.waiting = []

    def _put(self, table: Any) -> None:
        import pyarrow.parquet

        if self.measurements is None:
            place = self.folder / MEASUREMENTS
            self.measurements = pyarrow.parquet.ParquetWriter(place, table.schema, compression="zstd")
        self.measurements.write_table(table)

    def __exit__(self, *_: object) -> None:
        self._flush()
        if self.measurements is not None:
            self.measurements.close()
        if self.rows:
            self._write_lines()
            _write(self.folder / TRIALS, *_trials(self.rows))
            finals = [(row["digest"], *final) for row in self.rows for final in row["final"].items()]
            columns = {name: [final[k] for final in finals] for k, name in enumerate(FINAL_COLUMNS)}
            _write(self.folder / FINALS, FINAL_COLUMNS, columns)

    def _write_lines(self) -> None:
        makings: dict[str, int] = {}
        lines = []
        for row in self.rows:
            making = _text({name: row["run"][name] for name in MAKING if name in row["run"]})
            rest = {name: value for name, value in row["run"].items() if name not in MAKING}
            entry = {**row, "run": rest, "making": makings.setdefault(making, len(makings))}
            lines.append(f"{row['experiment']}/{row['digest']}\t{_text(entry)}\n")
        with open(self.folder / LINES, "w") as file:
            file.write(f'{{"format":{FORMAT},"makings":[{",".join(makings)}]}}\n')
            file.writelines(lines)


def _text(value: Any) -> str:
    return json.dumps(storable(value), separators=(",", ":"))


# --- tables -----------------------------------------------------------------------------------------------------------


def arrow_table(kinds: Mapping[str, str], columns: Mapping[str, Sequence[Any]]) -> Any:
    """A pyarrow table of these columns; one that is not given is empty."""
    import pyarrow

    data = {}
    for name, kind in kinds.items():
        values = columns.get(name, ())
        if kind == "VARCHAR":
            values = [value if value is None or isinstance(value, str) else _words(value) for value in values]
        made = pyarrow.list_(pyarrow.string()) if kind.endswith("[]") else getattr(pyarrow, ARROW[kind])()
        data[name] = pyarrow.array(values, made)
    return pyarrow.table(data)


def _words(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _write(path: Path, kinds: Mapping[str, str], columns: Mapping[str, Sequence[Any]]) -> None:
    import pyarrow.parquet

    pyarrow.parquet.write_table(arrow_table(kinds, columns), path, compression="zstd")


def _trials(rows: Sequence[dict[str, Any]]) -> tuple[dict[str, str], dict[str, list[Any]]]:
    """The columns of trials.parquet, with their types: what all trials have, and each config field of any of them."""
    facts, configs = [_facts(row) for row in rows], [_flat(row["config"]) for row in rows]
    fields = [
        path for path in dict.fromkeys(path for config in configs for path in config) if path not in TRIAL_COLUMNS
    ]
    columns = {name: [each.get(name) for each in facts] for name in TRIAL_COLUMNS}
    settings = {path: [config.get(path) for config in configs] for path in fields}
    kinds = {path: _kind({type(value) for value in values} - {type(None)}) for path, values in settings.items()}
    return {**TRIAL_COLUMNS, **kinds}, {**columns, **settings}


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
