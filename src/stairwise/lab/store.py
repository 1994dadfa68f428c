"""The run store: a folder of trials, runs, verdicts and checkpoints, in which everything is complete or absent.

trials/<paper>/<experiment>/<digest>/    a trial, see `record`
runs/<id>.json                           what a command asked for: a list of trial digests
verdicts/<paper>/<claim>/<digest>.json   what a claim's check found at one config
checkpoints/<digest>.safetensors         unfinished work
damaged/                                 trial folders that were found damaged and have been replaced
tmp/                                     what is being written

Any number of processes, on any number of machines that share the folder, may use it at once without locks: a trial is
written aside and renamed to its place, and where two write the same one the second gives way.
"""

import errno
import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from stairwise.lab.checkpoint import Checkpoint
from stairwise.lab.contract import Experiment, Outcome, Trial
from stairwise.lab.files import (
    Damaged,
    StoreError,
    entries,
    explained,
    read_sealed,
    remove,
    replace_file,
    scratch_name,
    seal,
    sweep,
    sync_folder,
    write_file,
)
from stairwise.lab.record import FORMAT, NAME, StoredTrial, encode_trial

DIGEST = re.compile(r"[0-9a-f]{8,64}")
RUN_ID = re.compile(r"\d{8}-\d{6}-\d{6}-[0-9a-f]{6}")
RUN_FIELDS = ("experiment", "preset", "command", "trials", "started", "seconds")
OCCUPIED = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)


@dataclass(frozen=True)
class StoredRun:
    """What one command asked for. `seconds` is None while it runs, and stays so when it was interrupted."""

    id: str
    path: Path
    experiment: str
    preset: str
    command: Any
    trials: list[str]
    started: Any
    seconds: float | None
    record: dict[str, Any]  # all of it, with whatever else the command wrote down


@dataclass(frozen=True)
class Store:
    """The store in folder `root`; `Store.open` makes sure that it can be used."""

    root: Path

    @classmethod
    def open(cls, root: Path | str | None = None, *, create: bool = True) -> "Store":
        """The store at `root`, else at $STAIRWISE_STORE, else in ./stairwise-store.

        Readers pass create=False: a store that does not exist reads as empty and stays absent.
        """
        place = Path(root or os.environ.get("STAIRWISE_STORE") or "stairwise-store").absolute()
        store = cls(place)
        if create:
            store._prepare()
        elif os.path.lexists(place) and not os.path.isdir(place):
            raise StoreError(f"cannot read the store {place}: Not a directory")
        return store

    def _prepare(self) -> None:
        """Makes the folder, tries that it can be written to, sweeps; leaves nothing new behind where that fails."""
        new = [path for path in (self._scratch, self.root, *self.root.parents) if not os.path.lexists(path)]
        probe = self._scratch / scratch_name()
        try:
            with explained(f"use the store {self.root}"):
                self._scratch.mkdir(parents=True, exist_ok=True)
                probe.touch(exist_ok=False)
                probe.unlink()
        except StoreError:
            for path in new:
                with suppress(OSError):
                    path.rmdir()
            raise
        sweep(self._scratch)

    @property
    def _scratch(self) -> Path:
        return self.root / "tmp"

    # --- trials ---------------------------------------------------------------------------------------------------

    def has(self, trial: Trial) -> bool:
        """Whether the trial is there, complete and undamaged: every byte is checked."""
        return _is_good(self._folder(trial))

    def write(self, trial: Trial, outcome: Outcome, run: Mapping[str, Any]) -> Path:
        """Stores a trial, whole or not at all, and returns its folder.

        A good folder that is there already stays; a damaged one is moved to damaged/ and replaced.
        """
        final = self._folder(trial)
        if _is_good(final):
            return final
        files = encode_trial(trial, outcome, run)
        temporary = self._scratch / scratch_name()
        try:
            with explained(f"store trial {trial.digest} in {self.root}"):
                temporary.mkdir(parents=True)
                for name, data in files.items():
                    write_file(temporary / name, data)
                sync_folder(temporary)
                self._publish(temporary, final)
        finally:
            remove(temporary)
        return final

    def _publish(self, temporary: Path, final: Path) -> None:
        """Renames a complete folder to its place, unless a good one has got there first."""
        final.parent.mkdir(parents=True, exist_ok=True)
        while not _renamed(temporary, final):
            if _is_good(final):
                return
            self._set_aside(final)
        sync_folder(final.parent)

    def _set_aside(self, folder: Path) -> None:
        """Moves a damaged folder out of the way; one that another process has repaired meanwhile goes back."""
        box = self.root / "damaged" / secrets.token_hex(4)
        aside = box / folder.relative_to(self.root / "trials")
        aside.parent.mkdir(parents=True)
        with suppress(FileNotFoundError):  # another process has moved it
            os.rename(folder, aside)
        if _is_good(aside):
            _renamed(aside, folder)
        if not any(entries(aside.parent)) or _is_good(aside):
            remove(box)

    def read(self, trial: Trial | str) -> StoredTrial:
        """The stored trial, with the asking trial's config and arm; by digest alone, with those it was stored with."""
        if isinstance(trial, Trial):
            digest, folders = trial.digest, [self._folder(trial)]
        else:
            digest = _valid("digest", trial, DIGEST)
            folders = [experiment / digest for experiment in _leaves(self.root / "trials", 2)]
        for folder in filter(os.path.lexists, folders):
            stored = _open_trial(folder)
            return stored.of(trial) if isinstance(trial, Trial) else stored
        raise StoreError(f"trial {digest} is not in the store {self.root}")

    def trials(self, name: str | Experiment | None = None) -> list[StoredTrial]:
        """The undamaged trials of "paper", "paper/experiment" or all, every byte checked.

        Of an Experiment: those that it could ask for as it is now, with their typed configs.
        """
        return self._select(name, _open_trial)

    def glance(self, name: str | Experiment | None = None) -> list[StoredTrial]:
        """As `trials`, but quick: metrics and arrays are not opened, only their sizes compared.

        They are checked when first used, so that nothing damaged is believed.
        """
        return self._select(name, StoredTrial.open)

    def _select(self, name: str | Experiment | None, read: Callable[[Path], StoredTrial]) -> list[StoredTrial]:
        if not isinstance(name, Experiment):
            return list(_undamaged(read, self._places(name)))
        typed = (trial.typed(name) for trial in _undamaged(read, self._places(name.name)))
        return [trial for trial in typed if trial is not None]

    def damaged(self) -> list[tuple[Path, str]]:
        """Everything in the store that is not believed (trial folders, runs, verdicts), and why."""
        return [
            *_damages(_open_trial, self._places(None)),
            *_damages(_open_run, entries(self.root / "runs")),
            *_damages(_open_verdict, _leaves(self.root / "verdicts", 3)),
        ]

    def find(self, prefix: str) -> StoredTrial | StoredRun:
        """The one trial or run whose digest or id begins with `prefix`."""
        found = [path for path in self._places(None) if path.name.startswith(prefix)]
        found += [path for path in entries(self.root / "runs") if path.name.startswith(prefix)]
        if not found:
            raise StoreError(f"no trial or run begins with {prefix!r} in the store {self.root}")
        if len(found) > 1:
            some = ", ".join(path.stem for path in found[:6]) + (", ..." if len(found) > 6 else "")
            raise StoreError(f"{prefix!r} is ambiguous, {len(found)} trials and runs begin with it: {some}")
        return _open_run(found[0]) if found[0].parent == self.root / "runs" else _open_trial(found[0])

    def _folder(self, trial: Trial) -> Path:
        return self.root / "trials" / _valid("experiment", trial.experiment.name, NAME) / trial.digest

    def _places(self, name: str | None) -> Iterable[Path]:
        """Where trial folders should be, and whatever else lies in their way."""
        if name is None:
            return _leaves(self.root / "trials", 3)
        if "/" in name:
            return entries(self.root / "trials" / _valid("name", name, NAME))
        _valid("name", f"{name}/any", NAME)
        return _leaves(self.root / "trials" / name, 2)

    # --- runs -----------------------------------------------------------------------------------------------------

    def write_run(self, record: Mapping[str, Any]) -> str:
        """Stores what a command asked for and returns the run's id; ids sort by the time they were given.

        A record that carries the id of a run replaces that run's: one writes it at the start and again at the end.
        """
        missing = [name for name in RUN_FIELDS if name not in record]
        if missing:
            raise ValueError(f"run record: {', '.join(missing)} missing (fields: {', '.join(RUN_FIELDS)})")
        id = _valid("id", record.get("id") or _new_id(), RUN_ID)
        with explained(f"store run {id} in {self.root}"):
            replace_file(self.root / "runs" / f"{id}.json", seal({**record, "id": id, "format": FORMAT}), self._scratch)
        return id

    def runs(self) -> list[StoredRun]:
        """The undamaged runs, oldest first."""
        return list(_undamaged(_open_run, entries(self.root / "runs")))

    # --- verdicts -------------------------------------------------------------------------------------------------

    def write_verdict(self, claim: str, digest: str, data: Mapping[str, Any]) -> None:
        """Stores what the check of a claim ("paper/claim") found at the config with this digest; the latest stays."""
        path = self._verdict(claim, digest)
        with explained(f"store the verdict on {claim} in {self.root}"):
            sealed = seal({"format": FORMAT, "claim": claim, "digest": digest, "data": data})
            replace_file(path, sealed, self._scratch)

    def read_verdict(self, claim: str, digest: str) -> dict[str, Any] | None:
        """The data as written; None where there is none, or a damaged one."""
        try:
            return _open_verdict(self._verdict(claim, digest))["data"]
        except Damaged:
            return None

    def verdicts(self) -> list[dict[str, Any]]:
        """The data of every undamaged verdict, each with its `claim` and `digest`."""
        found = _undamaged(_open_verdict, _leaves(self.root / "verdicts", 3))
        return [{**verdict["data"], "claim": verdict["claim"], "digest": verdict["digest"]} for verdict in found]

    def _verdict(self, claim: str, digest: str) -> Path:
        return self.root / "verdicts" / _valid("claim", claim, NAME) / f"{_valid('digest', digest, DIGEST)}.json"

    # --- checkpoints ----------------------------------------------------------------------------------------------

    def checkpoint(self, digest: str) -> Checkpoint:
        """The place for a checkpoint of the work with this digest."""
        name = f"{_valid('digest', digest, DIGEST)}.safetensors"
        return Checkpoint(self.root / "checkpoints" / name, self._scratch)


# --- one entry of the store -------------------------------------------------------------------------------------------


def _open_trial(folder: Path) -> StoredTrial:
    trial = StoredTrial.open(folder)
    trial.check()
    return trial


def _open_run(path: Path) -> StoredRun:
    record = read_sealed(path)
    if record.get("id") != path.stem or any(name not in record for name in RUN_FIELDS):
        raise Damaged(path.parent, f"{path.name}: not a run")
    return StoredRun(path.stem, path, record=record, **{name: record[name] for name in RUN_FIELDS})


def _open_verdict(path: Path) -> dict[str, Any]:
    verdict = read_sealed(path)
    claim, digest = "/".join(path.parts[-3:-1]), path.stem
    if (verdict.get("claim"), verdict.get("digest")) != (claim, digest) or not isinstance(verdict.get("data"), dict):
        raise Damaged(path.parent, f"{path.name}: not a verdict on {claim}")
    return verdict


def _undamaged(read: Callable[[Path], Any], paths: Iterable[Path]) -> Iterator[Any]:
    for path in paths:
        with suppress(Damaged):
            yield read(path)


def _damages(read: Callable[[Path], Any], paths: Iterable[Path]) -> Iterator[tuple[Path, str]]:
    for path in paths:
        try:
            read(path)
        except Damaged as error:
            yield path, error.reason


def _is_good(folder: Path) -> bool:
    return any(_undamaged(_open_trial, [folder]))


# --- names and places -------------------------------------------------------------------------------------------------


def _valid(what: str, text: str, pattern: re.Pattern[str]) -> str:
    """The text, where it is safe as part of a path."""
    if not pattern.fullmatch(text):
        raise StoreError(f"{what}={text!r} must be of the form {pattern.pattern}")
    return text


def _new_id() -> str:
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S-%f}-{secrets.token_hex(3)}"


def _leaves(folder: Path, depth: int) -> Iterator[Path]:
    """Everything `depth` levels down, and whatever above that is no folder."""
    for path in entries(folder):
        if depth > 1 and os.path.isdir(path):
            yield from _leaves(path, depth - 1)
        else:
            yield path


def _renamed(folder: Path, place: Path) -> bool:
    """Renames a folder unless its place is taken."""
    try:
        os.rename(folder, place)
    except OSError as error:
        if error.errno not in OCCUPIED:
            raise
        return False
    return True
