"""Files of examples: JSON lines, Parquet, NumPy's npz, and tokens as safetensors, each with its header.

    jsonl     one record per line and nothing else; the header is the hidden file .FILE.header beside it
    parquet   texts and numbers as columns; the header is the metadata "stairwise"
    npz       the numbers alone, one array a column, -1 where a row is short; the header is the string "header"
    tokens    safetensors: `tokens` (n, length); the header is the metadata "stairwise"

A block is written when it is made, so memory does not grow with n. A file appears under its name when it is complete.
Former files of JSON lines begin with {"stairwise": header}; their headers are read as well.
"""

import io
import json
import os
import re
import shutil
import sys
import tempfile
import zipfile
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Protocol, cast

import numpy as np

from stairwise.config import ConfigError
from stairwise.lab.contract.experiment import digest_of
from stairwise.lab.contract.sources import PAD
from stairwise.lab.data.request import DataRequest, ExampleBlock
from stairwise.lab.store.files import explained, parse, replace_file, replacing, storable
from stairwise.tasks.prose import Prose, digits, listed, numbers

KEY, DIGEST = "stairwise", "digest"
BESIDE = ".header"  # of a hidden file: whoever reads a folder of JSON lines passes over it
EPOCH = (1980, 1, 1, 0, 0, 0)  # the date of a zip's members: the same bytes at any time
MOST_HEADER = 2**26  # bytes
TYPES = {"int8": "I8", "int16": "I16", "int32": "I32"}


def write(request: DataRequest, format: str, out: Path | None, tell: Callable[[int], None] = lambda done: None) -> None:
    """Every example of the request to a file, or to standard output; `tell` hears how many there are so far."""
    if format not in WRITERS:
        raise ConfigError(f"format={format} must be one of {', '.join(WRITERS)}")
    if out is None and format != "jsonl" and sys.stdout.isatty():
        raise ConfigError(f"format={format} is not text: name a file with -o, or send standard output somewhere")
    header = json.dumps(with_digest(request.header(format)))
    beside = side_file(out) if out is not None and WRITERS[format].header_beside and _is_replaced(out) else None
    with target(out) as file:
        writer = WRITERS[format](file, request, header)
        try:
            for block in request.blocks():
                writer.add(block)
                tell(block.start + block.rows)
        except BaseException:
            writer.drop()
            raise
        writer.close()
        if beside is not None:
            beside.unlink(missing_ok=True)  # the header of other examples never lies beside these
    if beside is not None:
        with explained(f"write {beside}"):
            replace_file(beside, f'{{"{KEY}": {header}}}\n'.encode())


def side_file(path: Path) -> Path:
    """Where the header lies of a file that has no room for one."""
    real = Path(os.path.realpath(path))
    return real.with_name(f".{real.name}{BESIDE}")


def _is_replaced(out: Path) -> bool:
    """Whether writing there makes a file, and not what goes into a pipe or a device."""
    return not os.path.exists(out) or os.path.isfile(out)


@contextmanager
def target(out: Path | None) -> Iterator[io.BufferedIOBase]:
    """A file that gets its name when all of it is written; nothing is left of one that is broken off."""
    if out is None:
        yield cast(io.BufferedIOBase, sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    with explained(f"write {out}"):
        place = Path(os.path.realpath(out))
        if not _is_replaced(place):  # a pipe or a device is written to, never replaced
            with open(place, "wb") as file:
                yield file
            return
        with replacing(place) as temporary, open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())


class FileWriter(Protocol):
    """Writes a header when it is made, unless that is a file of its own, then block after block."""

    file: io.BufferedIOBase
    header_beside: ClassVar[bool] = False

    def __init__(self, file: io.BufferedIOBase, request: DataRequest, header: str):
        self.file = file

    @abstractmethod
    def add(self, block: ExampleBlock) -> None:
        """The records of a block."""

    def close(self) -> None:
        """Every block is there."""

    def drop(self) -> None:
        """There will be no more: the file is thrown away."""


class JsonLines(FileWriter):
    """One record per line; the whole line is put together in NumPy."""

    header_beside = True

    def __init__(self, file: io.BufferedIOBase, request: DataRequest, header: str):
        self.file = file

    def add(self, block: ExampleBlock) -> None:
        line = '{"index": ' + numbers(block.index)
        for name, text in block.words.items():
            line = line + f', "{name}": "' + text + '"'
        for name, values in block.columns.items():
            line = line + f', "{name}": ' + json_values(values, name in block.ragged)
        self.file.write((line + "}\n").packed(block.rows)[0].tobytes())


def json_values(values: np.ndarray, ragged: bool = False) -> Prose:
    """Whole numbers as JSON, nested like the array.

    >>> json_values(np.array([[[1, 2], [3, 4]]])).lines(1)
    ['[[1, 2], [3, 4]]']
    """
    if values.ndim == 1:
        return numbers(values)
    if values.ndim == 2:
        return "[" + listed(digits(values), ", ", values != PAD if ragged else None) + "]"
    text = json_values(values[:, 0])
    for place in range(1, values.shape[1]):
        text = text + ", " + json_values(values[:, place])
    return "[" + text + "]"


class Parquet(FileWriter):
    """A row group a block."""

    def __init__(self, file: io.BufferedIOBase, request: DataRequest, header: str):
        self.file, self.header, self.writer = file, header, None

    def add(self, block: ExampleBlock) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        columns = {"index": pa.array(block.index)}
        columns |= {name: _strings(text, block.rows) for name, text in block.words.items()}
        columns |= {name: _lists(values, name in block.ragged) for name, values in block.columns.items()}
        table = pa.table(columns).replace_schema_metadata({KEY: self.header})
        if self.writer is None:
            self.writer = pq.ParquetWriter(self.file, table.schema, compression="zstd")
        self.writer.write_table(table)

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()

    def drop(self) -> None:
        self.close()  # it would close itself later, into a file that is closed by then


def _strings(text: Prose, rows: int) -> Any:
    import pyarrow as pa

    data, starts = text.packed(rows)
    return pa.StringArray.from_buffers(rows, pa.py_buffer(starts.astype(np.int32)), pa.py_buffer(data))


def _lists(values: np.ndarray, ragged: bool) -> Any:
    import pyarrow as pa

    if ragged:
        kept = values != PAD
        starts = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
        return pa.ListArray.from_arrays(pa.array(starts, pa.int32()), pa.array(values[kept]))
    array = pa.array(np.ascontiguousarray(values).reshape(-1))
    for size in reversed(values.shape[1:]):
        array = pa.FixedSizeListArray.from_arrays(array, size)
    return array


class Npz(FileWriter):
    """One array a column: each lies in a nameless temporary file until all are complete."""

    def __init__(self, file: io.BufferedIOBase, request: DataRequest, header: str):
        self.file, self.header, self.n = file, header, request.n
        self.spools: dict[str, tuple[Any, np.ndarray]] = {}

    def add(self, block: ExampleBlock) -> None:
        for name, values in {"index": block.index, **block.columns}.items():
            if name not in self.spools:
                self.spools[name] = (tempfile.TemporaryFile(), values[:0])  # noqa: SIM115  closed at the end
            self.spools[name][0].write(np.ascontiguousarray(values).tobytes())

    def close(self) -> None:
        with zipfile.ZipFile(self.file, "w", zipfile.ZIP_STORED) as archive:
            with archive.open(zipfile.ZipInfo("header.npy", EPOCH), "w") as member:
                np.lib.format.write_array(member, np.array(self.header), allow_pickle=False)
            for name, (spool, like) in self.spools.items():
                with spool, archive.open(zipfile.ZipInfo(f"{name}.npy", EPOCH), "w", force_zip64=True) as member:
                    described = np.lib.format.header_data_from_array_1_0(like) | {"shape": (self.n, *like.shape[1:])}
                    np.lib.format.write_array_header_2_0(member, described)
                    spool.seek(0)
                    shutil.copyfileobj(spool, member)

    def drop(self) -> None:
        for spool, _ in self.spools.values():
            spool.close()


class Tokens(FileWriter):
    """The safetensors layout of one tensor whose size is known before its content."""

    def __init__(self, file: io.BufferedIOBase, request: DataRequest, header: str):
        self.file = file
        if not request.source.vocabulary:
            raise ConfigError(
                f"format=tokens must be jsonl, parquet or npz: the tokens of {request.task.name} are vectors"
            )
        like = request.block(0, 1).columns["tokens"]
        size = request.n * like.shape[1] * like.dtype.itemsize
        shape = {"dtype": TYPES[like.dtype.name], "shape": [request.n, like.shape[1]], "data_offsets": [0, size]}
        described = json.dumps({"__metadata__": {KEY: header}, "tokens": shape}).encode()
        described += b" " * (-len(described) % 8)
        file.write(len(described).to_bytes(8, "little") + described)

    def add(self, block: ExampleBlock) -> None:
        tokens = block.columns["tokens"]
        self.file.write(np.ascontiguousarray(tokens, dtype=tokens.dtype.newbyteorder("<")).tobytes())


WRITERS: dict[str, type[FileWriter]] = {"jsonl": JsonLines, "parquet": Parquet, "npz": Npz, "tokens": Tokens}


# --- reading a header -------------------------------------------------------------------------------------------------


# NumPy's description of an array that is one string
ONE_STRING = re.compile(
    rb"\x93NUMPY\x01\x00.."
    rb"\{'descr': '(?P<order>[<>])U(?P<length>\d{1,9})', 'fortran_order': False, 'shape': \(\), \} *\n",
    re.DOTALL,
)


def read_header(path: Path) -> dict[str, Any]:
    """The header of a file in any of the formats, in it or beside it; MOST_HEADER bytes are read for it at most."""
    found, beside = _found_in(path), side_file(path)
    if found is None and os.path.lexists(beside):
        found = _found_in(beside)
    if found is None:
        raise ConfigError(f"{path} has no header of stairwise data, nor is there {beside.name}")
    return found


def _found_in(path: Path) -> dict[str, Any] | None:
    if os.path.exists(path) and not os.path.isfile(path):  # a pipe would block its reader for ever
        raise ConfigError(f"cannot read {path}: it must be a file")
    with explained(f"read {path}"), open(path, "rb") as file:
        try:
            found = _header(file)
            whole = isinstance(found, dict) and found.get(DIGEST) == with_digest(found)[DIGEST]
        except (ValueError, KeyError, TypeError, EOFError, NotImplementedError, RecursionError, zipfile.BadZipFile):
            return None
    if not isinstance(found, dict) or found.get("format") not in list(WRITERS):
        return None
    if not whole:
        raise ConfigError(f"the header of {path} is not as it was written: its digest differs")
    return found


def with_digest(header: Mapping[str, Any]) -> dict[str, Any]:
    """A header with the digest of all else in it, by which a changed bit is seen."""
    rest = {name: value for name, value in header.items() if name != DIGEST}
    return {**rest, DIGEST: digest_of(storable(rest))}


def _header(file: io.BufferedReader) -> Any:
    begins = file.read(8)
    if begins.startswith(b"PAR1"):
        return parse(_of_parquet(file))
    if begins.startswith(b"PK"):
        with zipfile.ZipFile(file) as archive:
            return parse(_of_npz(archive))
    if begins.startswith(b'{"'):
        file.seek(0)
        return parse(_short(file.readline(MOST_HEADER + 1)))[KEY]
    size = min(int.from_bytes(begins, "little"), MOST_HEADER + 1)
    text = parse(_short(file.read(size)))["__metadata__"][KEY]
    return parse(text.encode()) if isinstance(text, str) else None


def _of_parquet(file: io.BufferedReader) -> bytes:
    import pyarrow.parquet as pq

    file.seek(max(8, file.seek(0, os.SEEK_END) - 8))
    if int.from_bytes(file.read(4), "little") > MOST_HEADER:  # the length of the footer
        raise ValueError("no header is that long")
    return pq.read_schema(file).metadata[KEY.encode()]


def _of_npz(archive: zipfile.ZipFile) -> bytes:
    """The text of an array of one string, as `Npz` has stored it: neither packed nor encrypted."""
    facts = archive.getinfo("header.npy")
    if facts.compress_type != zipfile.ZIP_STORED or facts.flag_bits & 1 or facts.file_size > MOST_HEADER:
        raise ValueError("not as it was written")
    data = archive.read(facts)
    found = ONE_STRING.match(data)
    if found is None or len(data) - found.end() != 4 * int(found["length"]):
        raise ValueError("not one string")
    return data[found.end() :].decode("utf-32-le" if found["order"] == b"<" else "utf-32-be").encode()


def _short(text: bytes) -> bytes:
    if len(text) > MOST_HEADER:
        raise ValueError("no header is that long")
    return text
