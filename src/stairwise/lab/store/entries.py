"""One entry of the store: how a trial, a run or a verdict is opened and checked, and which names are safe as paths."""

import errno
import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeGuard

from stairwise.lab.store.files import Damaged, StoreError, check_format, names_in, read_sealed
from stairwise.lab.store.trial import FAILED, FORMAT, StoredTrial

DIGEST = re.compile(r"[0-9a-f]{8,64}")
RUN_ID = re.compile(r"\d{8}-\d{6}-\d{6}-[0-9a-f]{6}")
RUN_FIELDS = ("experiment", "preset", "command", "trials", "started", "seconds")
LATEST = 1e15  # seconds since 1970 that a run may carry
OCCUPIED = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)


@dataclass(frozen=True)
class StoredRun:
    """What one command asked for. `seconds` is None while it runs, and stays so when it was interrupted."""

    id: str
    path: Path
    experiment: str
    preset: str
    command: str
    trials: list[str]
    started: float
    seconds: float | None
    record: dict[str, Any]  # all of it, with whatever else the command wrote down


# --- one entry of the store -------------------------------------------------------------------------------------------


def open_trial(folder: Path) -> StoredTrial:
    return StoredTrial.open(folder, whole=True)


def open_run(path: Path) -> StoredRun:
    record = read_sealed(path)
    check_format(path, record, FORMAT)
    fields = {name: record.get(name) for name in RUN_FIELDS}
    texts = [fields["experiment"], fields["preset"], fields["command"]]
    texts += fields["trials"] if isinstance(fields["trials"], list) else [None]
    times = [fields["started"], 0.0 if fields["seconds"] is None else fields["seconds"]]
    sound = all(isinstance(text, str) for text in texts) and all(type(time) in (int, float) for time in times)
    if record.get("id") != path.stem or "seconds" not in record or not sound or max(map(abs, times)) > LATEST:
        raise Damaged(path.parent, f"{path.name}: not a run")
    return StoredRun(path.stem, path, record=record, **fields)  # type: ignore[arg-type]


def open_verdict(path: Path) -> dict[str, Any]:
    verdict = read_sealed(path)
    check_format(path, verdict, FORMAT)
    claim, digest = "/".join(path.parts[-3:-1]), path.stem
    if (verdict.get("claim"), verdict.get("digest")) != (claim, digest) or not isinstance(verdict.get("data"), dict):
        raise Damaged(path.parent, f"{path.name}: not a verdict on {claim}")
    return verdict


def undamaged(read: Callable[[Path], Any], paths: Iterable[Path]) -> Iterator[Any]:
    for path in paths:
        with suppress(Damaged):
            yield read(path)


def damages(read: Callable[[Path], Any], paths: Iterable[Path]) -> Iterator[tuple[Path, str]]:
    for path in paths:
        try:
            read(path)
        except Damaged as error:
            yield path, error.reason


def is_good(folder: Path) -> bool:
    return any(undamaged(open_trial, [folder]))


def is_result(stored: StoredTrial | None) -> TypeGuard[StoredTrial]:
    return stored is not None and stored.status != FAILED


def same_ending(stored: StoredTrial, ending: Mapping[str, Any]) -> bool:
    return (stored.status, stored.run["message"]) == (ending["status"], ending["message"])


# --- names and places -------------------------------------------------------------------------------------------------


def valid(what: str, text: str, pattern: re.Pattern[str]) -> str:
    """The text, where it is safe as part of a path."""
    if not pattern.fullmatch(text):
        raise StoreError(f"{what}={text!r} must be of the form {pattern.pattern}")
    return text


def new_id() -> str:
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S-%f}-{secrets.token_hex(3)}"


def below(folder: Path, depth: int) -> Iterator[Path]:
    """Everything `depth` levels down, and whatever above that is no folder."""
    return map(Path, paths_below(str(folder), depth))


def paths_below(folder: str, depth: int) -> Iterator[str]:
    """As `below`, as text: objects for the paths of many thousand trials take longer than listing them."""
    for name in names_in(folder):
        path = f"{folder}/{name}"
        if depth > 1 and os.path.isdir(path):
            yield from paths_below(path, depth - 1)
        else:
            yield path


def renamed(folder: Path, place: Path) -> bool:
    """Renames a folder unless its place is taken."""
    try:
        os.rename(folder, place)
    except OSError as error:
        if error.errno not in OCCUPIED:
            raise
        return False
    return True
