"""One run of the record as two files, and back.

RUN.parquet      what was measured, in long form: trial (a number), stage, step, name, value in float32; the trials
                 themselves (config, seed, arm, status, how each was made) are zipped JSON in the metadata
RUN.safetensors  arrays by digest and name, in half precision where they are floating-point numbers
"""

import io
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stairwise.lab.store.files import Damaged, decode_arrays, encode_arrays, read_file
from stairwise.lab.store.trial import DESCRIPTION, RESERVED, StoredTrial
from stairwise.train.stage import Outcome

FORMAT = 1
ABOUT = b"stairwise record"
LARGEST_HALF = 65504.0
OUR_CODE = "source_hash"  # under which a stored trial says which code made it; published ones are nobody's leftovers


@dataclass(frozen=True)
class Run:
    """What one file of the record says about itself."""

    experiment: str
    preset: str
    written: str
    command: str
    trials: list[dict[str, Any]]
    note: str = ""

    @property
    def devices(self) -> list[str]:
        kinds = [trial["run"].get("device", {}).get("kind", "unknown") for trial in self.trials]
        return sorted(set(kinds))


def encode(run: Mapping[str, Any], records: Sequence[StoredTrial], *, arrays: str = "first") -> tuple[bytes, bytes]:
    """The two files. `arrays` says of which trials arrays are kept: the first seed of every arm, all, or none."""
    import pyarrow
    import pyarrow.parquet

    columns: dict[str, list[Any]] = {name: [] for name in ("trial", "stage", "step", "name", "value")}
    trials = []
    for number, record in enumerate(records):
        table = record.table()
        columns["trial"] += [number] * table.num_rows
        for name in ("stage", "step", "name", "value"):
            columns[name] += table[name].to_pylist()
        told = {name: getattr(record, name) for name in DESCRIPTION if name != "config"}
        made = {name: value for name, value in record.run.items() if name not in ("format", "files", "seal")}
        trials.append({**told, "config": record.config_dict, "digest": record.digest, "run": made})
    types = (pyarrow.int32(), pyarrow.string(), pyarrow.int64(), pyarrow.string(), pyarrow.float32())
    filled = {name: pyarrow.array(values, kind) for (name, values), kind in zip(columns.items(), types, strict=True)}
    about = json.dumps({"format": FORMAT, **run, "trials": trials}, sort_keys=True)
    measured = pyarrow.table(filled).replace_schema_metadata({ABOUT: zlib.compress(about.encode(), 9)})
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(measured, buffer, compression="zstd", compression_level=15, use_dictionary=True)
    kept = {f"{record.digest}/{name}": _half(record.array(name)) for record in _chosen(records, arrays)
            for name in record.arrays()}  # fmt: skip
    return buffer.getvalue(), encode_arrays(kept) if kept else b""


def _chosen(records: Sequence[StoredTrial], arrays: str) -> list[StoredTrial]:
    if arrays == "none":
        return []
    if arrays == "all":
        return list(records)
    first: dict[str, StoredTrial] = {}
    for record in sorted(records, key=lambda record: record.seed):
        first.setdefault(record.arm, record)
    return list(first.values())


def _half(array: np.ndarray) -> np.ndarray:
    """In half precision where that can hold it."""
    if not np.issubdtype(array.dtype, np.floating):
        return array
    small = not array.size or float(np.max(np.abs(array))) < LARGEST_HALF
    return array.astype(np.float16 if small else np.float32)


def about(path: Path) -> Run:
    """What a file holds; its measurements are not read."""
    import pyarrow
    import pyarrow.parquet

    try:
        found = json.loads(zlib.decompress(pyarrow.parquet.ParquetFile(path).schema_arrow.metadata[ABOUT]))
        if found["format"] != FORMAT:
            raise Damaged(path.parent, f"{path.name}: format {found['format']} is newer than {FORMAT}")
        fields = {name: found[name] for name in ("experiment", "preset", "written", "command", "trials")}
        return Run(**fields, note=found.get("note", ""))
    except (pyarrow.ArrowException, OSError, KeyError, TypeError, ValueError, zlib.error) as error:
        raise Damaged(path.parent, f"{path.name}: not a file of the record ({type(error).__name__})") from error


def same(path: Path, digests: Sequence[str], note: str, measured: bytes, kept: bytes) -> bool:
    """Whether a file holds these trials with this note, these measurements and these arrays."""
    import pyarrow
    import pyarrow.parquet

    run, beside = about(path), path.with_suffix(".safetensors")
    if [trial["digest"] for trial in run.trials] != list(digests) or run.note != note:
        return False
    if (read_file(beside) if beside.exists() else b"") != kept:
        return False
    opened = [pyarrow.parquet.ParquetFile(source) for source in (path, pyarrow.BufferReader(measured))]
    one, other = ([column.to_pylist() for column in file.read(use_threads=False).columns] for file in opened)
    return np.array_equal(one.pop(), other.pop(), equal_nan=True) and one == other  # the last column: value


def outcomes(path: Path, run: Run) -> list[Outcome]:
    """The outcome of every trial, in the order of `run.trials`."""
    import pyarrow.parquet

    columns = pyarrow.parquet.ParquetFile(path).read(use_threads=False).to_pydict()
    found = [Outcome(trial["run"]["status"], message=trial["run"].get("message", "")) for trial in run.trials]
    rows = zip(*(columns[name] for name in ("trial", "stage", "step", "name", "value")), strict=True)
    for trial, stage, step, name, value in rows:
        found[trial].add(stage, step, {name: value})
    beside = path.with_suffix(".safetensors")
    if beside.exists():
        places = {trial["digest"]: number for number, trial in enumerate(run.trials)}
        for name, array in decode_arrays(read_file(beside)).items():
            digest, _, own = name.partition("/")
            found[places[digest]].arrays[own] = array
    return found


def made(trial: Mapping[str, Any], run: Run, name: str) -> dict[str, Any]:
    """How a published trial was made, as its run.json in a store says it."""
    told = {key: value for key, value in trial["run"].items() if key not in (*RESERVED, OUR_CODE)}
    published = {"run": name, "written": run.written, "code": trial["run"].get(OUR_CODE)}
    return {**told, "published": published}
