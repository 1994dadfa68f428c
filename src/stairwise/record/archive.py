"""One run of the record as two files, and back.

RUN.parquet         what was measured, in long form: trial (a number), stage, step, name, value in float32; the trials
                    themselves (config, seed, arm, status, how each was made) are zipped JSON in the metadata
RUN.safetensors.gz  arrays by digest and name: small ones of every trial as they are, large ones of chosen trials in
                    half precision where they are floating-point numbers; the first files were not compressed

The metadata also has digests of the measurements and of the arrays: neither is believed before its own agrees.
"""

import gzip
import hashlib
import io
import itertools
import json
import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stairwise.lab.store.files import Damaged, check_format, decode_arrays, encode_arrays, read_file
from stairwise.lab.store.trial import DESCRIPTION, RESERVED, StoredTrial
from stairwise.train.stage import Outcome

FORMAT = 1
ABOUT = b"stairwise record"
TEXTS = ("stage", "name")  # columns
LARGEST_HALF = 65504.0
SMALL = 256  # numbers of an array that is kept of every trial, and exactly: claims read it
MODES = ("first", "all", "small", "none")  # of which trials large arrays are kept
PLAIN, PACKED = ".safetensors", ".safetensors.gz"
OUR_CODE = "source_hash"  # under which a stored trial says which code made it; published ones are nobody's leftovers


@dataclass(frozen=True)
class Run:
    """What one file of the record says about itself."""

    experiment: str
    preset: str
    written: str
    command: str
    trials: list[dict[str, Any]]
    digests: dict[str, str]  # of the measurements, and of the file of arrays
    note: str = ""

    @property
    def devices(self) -> list[str]:
        kinds = [trial["run"].get("device", {}).get("kind", "unknown") for trial in self.trials]
        return sorted(set(kinds))


def encode(run: Mapping[str, Any], records: Sequence[StoredTrial], *, arrays: str = "first") -> tuple[bytes, bytes]:
    """The two files; `arrays` says which large arrays are kept: of the first seed of every arm, all, small ones only,
    none at all, or those of some names (with commas between them) of every trial.
    """
    import pyarrow
    import pyarrow.parquet

    columns: dict[str, list[Any]] = {name: [] for name in ("trial", "stage", "step", "name", "value")}
    trials, kept = [], _kept(records, arrays)
    for number, record in enumerate(records):
        table = record.table()
        columns["trial"] += [number] * table.num_rows
        for name in ("stage", "step", "name", "value"):
            columns[name] += table[name].to_pylist()
        told = {name: getattr(record, name) for name in DESCRIPTION if name != "config"}
        made = {name: value for name, value in record.run.items() if name not in ("format", "files", "seal")}
        without = sum(f"{record.digest}/{name}" not in kept for name in record.arrays())
        known = {"config": record.config_dict, "digest": record.digest, "without": without}
        trials.append({**told, **known, "run": made})
    types = (pyarrow.int32(), pyarrow.string(), pyarrow.int64(), pyarrow.string(), pyarrow.float32())
    filled = {name: pyarrow.array(values, kind) for (name, values), kind in zip(columns.items(), types, strict=True)}
    measured = pyarrow.table(filled)
    beside = gzip.compress(encode_arrays(kept), mtime=0) if kept else b""
    digests = {"measurements": _digest(measured), "arrays": hashlib.sha256(beside).hexdigest()}
    about = json.dumps({"format": FORMAT, **run, "trials": trials, "digests": digests}, sort_keys=True)
    measured = measured.replace_schema_metadata({ABOUT: zlib.compress(about.encode(), 9)})
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(measured, buffer, compression="zstd", compression_level=15, use_dictionary=True)
    return buffer.getvalue(), beside


def _digest(table: Any) -> str:
    """Of what a table holds, whatever way a file holds it."""
    seen = hashlib.sha256()
    for name in table.column_names:
        values = table[name].to_pylist() if name in TEXTS else table[name].to_numpy()
        data = "\0".join(values).encode() if isinstance(values, list) else values.tobytes()
        seen.update(f"{name} {table[name].type} {len(data)} ".encode() + data)
    return seen.hexdigest()


def _kept(records: Sequence[StoredTrial], arrays: str) -> dict[str, np.ndarray]:
    """Small arrays of every trial as they are, and the chosen large ones in half precision."""
    first: dict[str, str] = {}
    for record in sorted(records, key=lambda record: record.seed):
        first.setdefault(record.arm, record.digest)
    named = () if arrays in MODES else arrays.split(",")
    kept = {}
    for record in records if arrays != "none" else ():
        whole = arrays == "all" or (arrays == "first" and record.digest in first.values())
        for name in record.arrays():
            array = record.array(name)
            if array.size <= SMALL:
                kept[f"{record.digest}/{name}"] = array
            elif whole or name in named:
                kept[f"{record.digest}/{name}"] = _half(array)
    return kept


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
        check_format(path, found, FORMAT)
        fields = {name: found[name] for name in ("experiment", "preset", "written", "command", "trials", "digests")}
        return Run(**fields, note=found.get("note", ""))
    except (pyarrow.ArrowException, OSError, KeyError, TypeError, ValueError, zlib.error) as error:
        raise Damaged(path.parent, f"{path.name}: not a file of the record ({type(error).__name__})") from error


def same(path: Path, digests: Sequence[str], note: str, measured: bytes, kept: bytes) -> bool:
    """Whether a file holds these trials with this note, these measurements and these arrays."""
    import pyarrow
    import pyarrow.parquet

    run = about(path)
    if [trial["digest"] for trial in run.trials] != list(digests) or run.note != note:
        return False
    if _arrays(path, run) != unpacked(kept):
        return False
    found = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(measured)).read(use_threads=False)
    return _digest(_measurements(path, run)) == _digest(found)


def _measurements(path: Path, run: Run) -> Any:
    """The table of a file; Damaged where it is not the one that was written."""
    import pyarrow
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.ParquetFile(path).read(use_threads=False)
        if _digest(table) == run.digests["measurements"]:
            return table
    except (pyarrow.ArrowException, OSError, ValueError, TypeError) as error:
        raise Damaged(path.parent, f"{path.name}: not a file of the record ({type(error).__name__})") from error
    raise Damaged(path.parent, f"{path.name}: digest differs")


def beside(path: Path) -> Path:
    """The file of arrays of a run, whether it is there or not."""
    plain = path.with_suffix(PLAIN)
    return plain if os.path.lexists(plain) else path.with_suffix(PACKED)


def _arrays(path: Path, run: Run) -> bytes:
    """The file of arrays, unpacked, none where there is no such file; Damaged where it is not the one written."""
    file = beside(path)
    there = read_file(file) if os.path.lexists(file) else b""
    if hashlib.sha256(there).hexdigest() != run.digests["arrays"]:
        raise Damaged(path.parent, f"{file.name}{': digest differs' if there else ' is missing'}")
    return unpacked(there) if file.name.endswith(PACKED) else there


def unpacked(data: bytes) -> bytes:
    return gzip.decompress(data) if data else data


def outcomes(path: Path, run: Run) -> list[tuple[Outcome, Any]]:
    """How every trial ended, with its arrays, and the table of its measurements, in the order of `run.trials`."""
    table = _measurements(path, run).combine_chunks()
    found = [Outcome(trial["run"]["status"], message=trial["run"].get("message", "")) for trial in run.trials]
    if kept := _arrays(path, run):
        numbers = {trial["digest"]: number for number, trial in enumerate(run.trials)}
        for name, array in decode_arrays(kept).items():
            digest, _, own = name.partition("/")
            found[numbers[digest]].arrays[own] = array
    measured = table.select(["stage", "step", "name", "value"]).replace_schema_metadata()
    measured = measured.set_column(3, "value", measured["value"].cast("double"))
    # the rows of a trial follow each other, as the trials do
    places = np.searchsorted(table["trial"].to_numpy(), np.arange(len(found) + 1)).tolist()
    rows = itertools.pairwise(places)
    return [(made, measured.slice(begin, end - begin)) for made, (begin, end) in zip(found, rows, strict=True)]


def made(trial: Mapping[str, Any], run: Run, name: str) -> dict[str, Any]:
    """How a published trial was made, as its run.json in a store says it."""
    told = {key: value for key, value in trial["run"].items() if key not in (*RESERVED, OUR_CODE)}
    published = {"run": name, "written": run.written, "code": trial["run"].get(OUR_CODE)}
    published |= {"without": trial["without"]} if "without" in trial else {}
    return {**told, "published": published}
