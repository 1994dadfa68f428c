"""How the store touches the disk: files that are whole or absent, JSON that knows its own digest, one-line errors.

Whatever is being written lies in a scratch folder, or beside its place, under a name that says which process owns it.
It is flushed to the disk and only then renamed to its place. `sweep` removes what a process that died has left behind.
"""

import errno
import hashlib
import json
import math
import os
import re
import secrets
import shutil
import socket
import stat
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager, suppress
from functools import lru_cache
from io import BufferedReader, RawIOBase
from json.encoder import encode_basestring_ascii
from pathlib import Path
from typing import Any

import numpy as np

from stairwise.config import ConfigError, one_line, short

SCRATCH_NAME = re.compile(r"\.?stairwise-(?P<machine>[0-9a-f]{12})-(?P<pid>\d{1,9})-[0-9a-f]{8}")
SCRATCH_SECONDS = 3600.0
LONGEST_NAME = 255  # bytes that the name of a file may have
UNSEALED = "0" * 64
SEAL = re.compile(rb'(^ "seal": ")([0-9a-f]{64})', re.MULTILINE)  # one space deep: a field of the outermost level
# what every reader of the format knows
ARRAY_TYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
ARRAY_TYPES += ("float16", "float32", "float64")


# --- errors -----------------------------------------------------------------------------------------------------------


class StoreError(Exception):
    """What the store could not do, in one printable line; `exit_status` is what a command should end with.

    2: the store or the name cannot be used. 1: the disk is full, or what was found is damaged.
    """

    def __init__(self, message: str, exit_status: int = 2):
        super().__init__(one_line(message))
        self.exit_status = exit_status


class Damaged(StoreError):
    """A file or folder of the store that is not what was written there."""

    def __init__(self, path: Path, reason: str):
        super().__init__(f"{path} is damaged: {reason}", exit_status=1)
        self.path, self.reason = path, one_line(reason)

    def __reduce__(self):  # how an error is rebuilt in another process: from what this one was made of
        return type(self), (self.path, self.reason)


class Newer(StoreError):
    """A file of the store that a later version of this program has written: neither read nor moved nor replaced."""

    def __init__(self, path: Path, found: int, known: int):
        newer = f"format {found}, and this version reads format {known}"
        super().__init__(f"{path} was written by a newer version of Stairwise ({newer}); it was left as it is")
        self.path, self.found, self.known = path, found, known

    def __reduce__(self):
        return type(self), (self.path, self.found, self.known)


def check_format(path: Path, data: Mapping[str, Any], known: int) -> None:
    """Newer where a sealed file is of a later format than is known, Damaged where it is of none."""
    found = data.get("format")
    if type(found) is not int or found < 1:
        raise Damaged(path.parent, f"{path.name}: format {found} is not a known one")
    if found > known:
        raise Newer(path, found, known)


@contextmanager
def explained(action: str) -> Iterator[None]:
    """Turns the operating system's refusal into a StoreError that says what was being done."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise StoreError(f"cannot {action}: {error.strerror or error}", exit_status=1 if full else 2) from error


# --- whole files ------------------------------------------------------------------------------------------------------


def write_file(path: Path, data: bytes) -> None:
    """A new file, on the disk when this returns."""
    with open(path, "xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """New files of a folder, which are on the disk with its list of names when this returns.

    All are waited for side by side: a disk takes them in one turn, where one after another would take a turn each.
    """
    with ExitStack() as opened:
        written = [opened.enter_context(open(folder / name, "xb", buffering=0)) for name in files]
        for file, data in zip(written, files.values(), strict=True):
            _write_all(file, data)
        descriptors = [*(file.fileno() for file in written), os.open(folder, os.O_RDONLY)]
        opened.callback(os.close, descriptors[-1])
        waits = [_threads(os.getpid()).submit(os.fsync, descriptor) for descriptor in descriptors[1:]]
        try:
            os.fsync(descriptors[0])
        finally:
            wait(waits)  # before any of them is closed
        for each in waits:
            each.result()


@lru_cache(maxsize=1)
def _threads(process: int) -> ThreadPoolExecutor:
    """Threads of this very process: one that was forked has none of its parent's."""
    return ThreadPoolExecutor(4, thread_name_prefix="stairwise-disk")


def _write_all(file: RawIOBase, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[file.write(left) :]


def sync_folder(path: Path) -> None:
    """Puts a folder's list of names on the disk: a rename is lasting only then."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def replacing(path: Path, scratch: Path | None = None) -> Iterator[Path]:
    """A name for a file or folder to be written, renamed to `path` at the end; nothing is left of it after an error.

    It lies in `scratch`; without one hidden beside `path`, where what dead processes left is removed first.
    """
    if scratch is None:
        sweep(path.parent, hidden=True)
        temporary = path.parent / f".{scratch_name()}"
    else:
        temporary = scratch / scratch_name()
    try:
        yield temporary
        os.replace(temporary, path)  # an empty folder gives way to a folder
    finally:
        remove(temporary)


def replace_file(path: Path, data: bytes, scratch: Path | None = None) -> None:
    """Puts `data` at `path` in one step: a reader, or a crash, finds the old content or the new."""
    if scratch is not None:
        scratch.mkdir(parents=True, exist_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path, scratch) as temporary:
        write_file(temporary, data)
    sync_folder(path.parent)


def output_file(field: str, name: str, endings: tuple[str, ...]) -> Path:
    """The file that an option names, where its ending is right and its folder exists; ConfigError says why not."""
    path = Path(name)
    if path.suffix not in endings:
        words = " or ".join(filter(None, [", ".join(endings[:-1]), endings[-1]]))
        raise ConfigError(f"{field}={path} must end in {words}")
    if not os.path.isdir(os.path.dirname(os.path.realpath(path))):
        raise ConfigError(f"{field}={path} must lie in a folder that exists")
    if os.path.isdir(path) or len(os.fsencode(path.name)) > LONGEST_NAME:
        raise ConfigError(f"{field}={short(name)} must be a file with a name of at most {LONGEST_NAME} bytes")
    return path


def regular(path: Path) -> BufferedReader:
    """A regular file, opened to read; StoreError for anything else: a pipe would block its reader for ever."""
    _size(path)
    return open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb")  # a pipe may have come there since


def _size(path: Path) -> int:
    facts = os.stat(path)
    if not stat.S_ISREG(facts.st_mode):
        raise StoreError(f"{path} is not a regular file")
    return facts.st_size


def read_file(path: Path) -> bytes:
    """The bytes of a regular file; Damaged, naming it, where there is none."""
    try:
        with regular(path) as file:
            return file.read()
    except (OSError, StoreError) as error:
        raise _damaged(path, error) from error


def file_size(path: Path) -> int:
    """The size of a regular file in bytes; Damaged, naming it, where there is none."""
    try:
        return _size(path)
    except (OSError, StoreError) as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> Damaged:
    if isinstance(error, FileNotFoundError):
        return Damaged(path.parent, f"{path.name} is missing")
    if isinstance(error, OSError):
        return Damaged(path.parent, f"{path.name}: {error.strerror or error}")
    return Damaged(path.parent, f"{path.name} is not a regular file")


def entries(folder: Path) -> list[Path]:
    """What lies in a folder, sorted by name; nothing where there is no folder. Hidden names are left out."""
    return [folder / name for name in names_in(folder)]


def names_in(folder: Path | str) -> list[str]:
    """As `entries`, the names alone."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StoreError(f"cannot read {folder}: {error.strerror or error}") from error
    return [name for name in sorted(names) if not name.startswith(".")]


def remove(path: Path) -> None:
    """Removes a file or a whole folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


# --- scratch ----------------------------------------------------------------------------------------------------------


def scratch_name() -> str:
    """A fresh name that carries this machine and this process."""
    return f"stairwise-{_machine()}-{os.getpid()}-{secrets.token_hex(4)}"


def sweep(folder: Path, *, hidden: bool = False) -> None:
    """Removes what processes that have ended left in a folder; `hidden`: under hidden names, beside other files."""
    names: list[str] = []
    with suppress(OSError):
        names = os.listdir(folder)
    for name in names:
        if name.startswith(".stairwise-" if hidden else "stairwise-") and abandoned(folder / name):
            remove(folder / name)


def abandoned(path: Path, owner: str | None = None) -> bool:
    """Whether a file or folder belongs to nobody any more: its process has ended, or is of another machine (or of this
    one before it was started anew) and has not written to it for an hour. Its name says whose it is, or `owner` does.
    """
    name = SCRATCH_NAME.fullmatch(path.name if owner is None else owner)
    if name is None:  # not ours, whoever put it there
        return False
    if name["machine"] == _machine():
        return not _alive(int(name["pid"]))
    try:
        return time.time() - path.lstat().st_mtime > SCRATCH_SECONDS
    except FileNotFoundError:  # its owner has finished while we looked
        return False


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


@lru_cache(maxsize=1)
def _machine() -> str:
    """Equal for two processes only where their process ids can be compared: same host, same boot, same container."""
    facts = [socket.gethostname()]
    with suppress(OSError):
        facts.append(Path("/proc/sys/kernel/random/boot_id").read_text())
    with suppress(OSError):
        facts.append(os.readlink("/proc/self/ns/pid"))
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:12]


# --- JSON -------------------------------------------------------------------------------------------------------------


def render(data: Any) -> bytes:
    """The one JSON text of plain data: sorted, indented, ASCII. NaN and infinities are kept as {"$float": "nan"}.

    >>> render({"b": float("inf"), "a": (1,)}).decode().split()
    ['{', '"a":', '[', '1', '],', '"b":', '{', '"$float":', '"inf"', '}', '}']
    """
    return _text(data, "\n").encode() + b"\n"


def _text(value: Any, begin: str) -> str:
    """What `json.dumps(storable(value), sort_keys=True, indent=1)` gives, much faster; `begin` begins a line."""
    kind = type(value)
    if kind is str:
        return encode_basestring_ascii(value)
    if kind is int:
        return int.__repr__(value)
    if kind is float and math.isfinite(value):
        return float.__repr__(value)
    if value is None or kind is bool:
        return {None: "null", True: "true", False: "false"}[value]
    within = begin + " "
    if kind is dict or isinstance(value, Mapping):
        plain = {str(key): item for key, item in value.items()}
        fields = [f"{within}{encode_basestring_ascii(key)}: {_text(plain[key], within)}" for key in sorted(plain)]
        return f"{{{','.join(fields)}{begin}}}" if fields else "{}"
    if isinstance(value, (list, tuple)):
        items = [within + _text(item, within) for item in value]
        return f"[{','.join(items)}{begin}]" if items else "[]"
    made = storable(value)
    return _text(made, begin) if type(made) is not kind else json.dumps(made, allow_nan=False)


def parse(text: bytes) -> Any:
    """What `render` was given (tuples come back as lists); ValueError when the text is not JSON."""
    try:
        return json.loads(text.decode(), object_hook=restored if b"$float" in text else None)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def seal(data: Mapping[str, Any]) -> bytes:
    """`data` as JSON with the sha256 of the whole text (zeros in its own place): against accidents, not forgery.

    >>> unseal(seal({"answer": 42}))
    {'answer': 42}
    >>> unseal(seal({"answer": 42}).replace(b"42", b"43"))
    Traceback (most recent call last):
    ValueError: digest differs
    """
    if "seal" in data:
        raise ValueError("seal is written by the store itself")
    text = render({**data, "seal": UNSEALED})
    return _sealed(text, hashlib.sha256(text).hexdigest())


def unseal(text: bytes) -> dict[str, Any]:
    """What was sealed; ValueError when any byte differs."""
    found = SEAL.search(text)
    if found is None:
        raise ValueError("not sealed")
    if hashlib.sha256(_sealed(text, UNSEALED)).hexdigest().encode() != found[2]:
        raise ValueError("digest differs")
    data = parse(text)
    if not isinstance(data, dict) or data.pop("seal", None) is None:
        raise ValueError("not sealed")
    return data


def _sealed(text: bytes, seal: str) -> bytes:
    """The text with another seal in the place of its own."""
    found = SEAL.search(text)
    assert found is not None
    begin, end = found.span(2)
    return text[:begin] + seal.encode() + text[end:]


def read_sealed(path: Path) -> dict[str, Any]:
    """The content of a sealed file; Damaged, naming it, when it is missing or altered."""
    try:
        return unseal(read_file(path))
    except ValueError as error:
        raise Damaged(path.parent, f"{path.name}: {error}") from error


PLAIN = frozenset({str, int, bool, type(None)})


def storable(value: Any) -> Any:
    """Plain JSON data: NumPy's values as Python's, NaN and infinities as {"$float": "nan"}."""
    if type(value) in PLAIN:  # most values by far: told without asking an abstract class
        return value
    if isinstance(value, Mapping):
        return {str(key): storable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [storable(item) for item in value]
    if hasattr(value, "tolist"):  # NumPy's scalars and arrays
        return storable(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": str(value)}
    return value


def restored(data: dict[str, Any]) -> Any:
    """The inverse of `storable`, for a JSON reader."""
    if data.keys() == {"$float"} and data["$float"] in ("nan", "inf", "-inf"):
        return float(data["$float"])
    return data


# --- arrays -----------------------------------------------------------------------------------------------------------


def encode_arrays(arrays: Mapping[str, Any], metadata: dict[str, str] | None = None) -> bytes:
    """Named arrays in the safetensors format; equal arrays give equal bytes (with at most one metadata entry)."""
    from safetensors.numpy import save

    # the format's writer copies memory as it lies: a transposed or strided array would be stored in the wrong order
    dense = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    for name, array in dense.items():
        if name == "__metadata__":
            raise ValueError("an array cannot be named __metadata__")
        if array.dtype.name not in ARRAY_TYPES:
            raise ValueError(f"array {name}: dtype={array.dtype} must be one of {', '.join(ARRAY_TYPES)}")
    return save(dense, metadata)


def decode_arrays(data: bytes) -> dict[str, np.ndarray]:
    """The arrays of a safetensors file, writable; ValueError when it is none."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        return {name: np.require(array, requirements="W") for name, array in load(data).items()}
    except (SafetensorError, KeyError) as error:  # KeyError: a dtype that NumPy has not
        raise ValueError(f"not readable as arrays: {error}") from error
