"""The run store: a folder of trials, runs, verdicts and checkpoints, in which everything is complete or absent.

trials/<paper>/<experiment>/<digest>/    a trial, see `record`
runs/<id>.json                           what a command asked for: a list of trial digests
verdicts/<paper>/<claim>/<digest>.json   what a claim's check found at one config
searches/<paper>/<claim>/<digest>.json   the points that a search for counterexamples has looked at, see `falsify`
checkpoints/<digest>.safetensors         unfinished work
reserved/<digest>                        which process is at work on the trial, see `sharing`
damaged/                                 trial folders that were found damaged and have been replaced
replaced/                                trials of other code, until the new one is in its place
index/                                   a copy of what the trials say, to list thousands at once, see `index`
tmp/                                     what is being written

Any number of processes, on any number of machines that share the folder, may use it at once without locks: a trial is
written aside and renamed to its place, and where two write the same one the second gives way.
"""

import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stairwise.lab.contract.experiment import Experiment, Trial
from stairwise.lab.progress import Silent, watched
from stairwise.lab.store.checkpoint import Checkpoint
from stairwise.lab.store.entries import (
    DIGEST,
    RUN_FIELDS,
    RUN_ID,
    StoredRun,
    below,
    damages,
    is_good,
    is_result,
    new_id,
    open_run,
    open_trial,
    open_verdict,
    paths_below,
    renamed,
    same_ending,
    undamaged,
    valid,
)
from stairwise.lab.store.files import (
    Damaged,
    StoreError,
    entries,
    explained,
    remove,
    replace_file,
    scratch_name,
    seal,
    sweep,
    sync_folder,
    unseal,
    write_files,
)
from stairwise.lab.store.index import Index
from stairwise.lab.store.trial import CONFIG, FAILED, FORMAT, NAME, RUN, StoredTrial, describe, encode_trial
from stairwise.train.stage import Outcome


@dataclass(frozen=True)
class Store:
    """The store in folder `root`; `Store.open` makes sure that it can be used."""

    root: Path

    @classmethod
    def open(cls, root: Path | str | None = None, *, create: bool = True) -> "Store":
        """The store at `root`, else at $STAIRWISE_STORE, else in ./stairwise-store.

        Readers pass create=False: a store that does not exist reads as empty and stays absent.
        """
        if root is not None and not str(root):
            raise StoreError("store='' must be the name of a folder")
        place = Path(root or os.environ.get("STAIRWISE_STORE") or "stairwise-store").absolute()
        store = cls(place)
        if create:
            store._prepare()
        elif os.path.lexists(place) and not os.path.isdir(place):
            raise StoreError(f"cannot read the store {place}: Not a directory")
        else:
            with suppress(OSError):  # a store that may only be read
                store._settle()
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
        self._settle()

    @property
    def _scratch(self) -> Path:
        return self.root / "tmp"

    # --- trials ---------------------------------------------------------------------------------------------------

    def has(self, trial: Trial) -> bool:
        """Whether the trial's result is there, complete and undamaged: every byte is checked.

        A trial that failed is recorded and has no result; `peek` shows it.
        """
        return is_result(self.peek(trial))

    def peek(self, trial: Trial) -> StoredTrial | None:
        """The stored trial, however it ended; None where there is none, or a damaged one.

        Newer where a later version of the program has written it.
        """
        return next(undamaged(open_trial, [self._folder(trial)]), None)

    def peeks(self) -> Callable[[Trial], StoredTrial | None]:
        """`peek` for a plan of many trials: what is there is listed once, as it is now, and nothing else looked for."""
        there: dict[str, set[str]] = {}

        def peek(trial: Trial) -> StoredTrial | None:
            name = trial.experiment.name
            if name not in there:
                there[name] = {path.rpartition("/")[2] for path in self._places(name)}
            return self.peek(trial) if there[name] and trial.digest in there[name] else None

        return peek

    def write(self, trial: Trial, outcome: Outcome, run: Mapping[str, Any]) -> Path:
        """Stores a trial, whole or not at all, and returns its folder.

        A good folder that is there already stays, unless it was made by other code; a damaged one is moved to damaged/
        and replaced; the record of a failure gives way.
        """
        there, ending = self.peek(trial), {**run, "status": outcome.status, "message": outcome.message}
        if there is not None and is_result(there) and not _supersedes(ending, there):
            return self._folder(trial)
        return self._put(trial, encode_trial(trial, outcome, run), ending)

    def put(self, trial: Trial, files: Mapping[str, bytes]) -> Path:
        """As `write`, of files that `encode_trial` has made, perhaps in another process."""
        ending = unseal(files[RUN])
        if files[CONFIG] != describe(trial):
            raise StoreError(f"what was sent as trial {trial.digest} describes another one")
        return self._put(trial, files, ending)

    def _put(self, trial: Trial, files: Mapping[str, bytes], ending: Mapping[str, Any]) -> Path:
        final, temporary = self._folder(trial), self._scratch / scratch_name()
        try:
            with explained(f"store trial {trial.digest} in {self.root}"):
                temporary.mkdir(parents=True)
                write_files(temporary, files)
                self._publish(temporary, final, ending)
                self._settle()
        finally:
            remove(temporary)
        return final

    def _publish(self, temporary: Path, final: Path, ending: Mapping[str, Any]) -> None:
        """Renames a complete folder to its place, unless a good one of the same code has got there first."""
        final.parent.mkdir(parents=True, exist_ok=True)
        while not renamed(temporary, final):
            there = next(undamaged(open_trial, [final]), None)
            if there is None:
                self._set_aside(final)
            elif is_result(there) and _supersedes(ending, there):
                self._retire(final, ending)
            elif is_result(there) or (same_ending(there, ending) and not _other_code(ending, there)):
                return
            else:
                self._drop_failure(final)
        sync_folder(final.parent)

    def _retire(self, folder: Path, ending: Mapping[str, Any]) -> None:
        """Moves a trial of other code to replaced/, from where `_settle` takes it back or removes it."""
        box = self.root / "replaced" / secrets.token_hex(4)
        aside = box / folder.relative_to(self.root / "trials")
        aside.parent.mkdir(parents=True)
        with suppress(FileNotFoundError):  # another process has moved it
            os.rename(folder, aside)
            sync_folder(aside.parent)
        taken = next(undamaged(open_trial, [aside]), None)
        if taken is not None and not _supersedes(ending, taken):  # another process has put the new one there meanwhile
            renamed(aside, folder)

    def _settle(self) -> None:
        """What was being replaced goes back where nothing has come in its place, and goes where a good trial has.

        Folders go only when they are empty: another process may be putting something there.
        """
        for box in entries(self.root / "replaced"):
            for aside in filter(os.path.isdir, below(box, 3)):
                final = self.root / "trials" / aside.relative_to(box)
                final.parent.mkdir(parents=True, exist_ok=True)
                with suppress(FileNotFoundError):  # another process has settled it
                    if not renamed(aside, final) and is_good(final):
                        remove(aside)
            for folder in (*box.glob("*/*"), *box.glob("*"), box):
                with suppress(OSError):
                    folder.rmdir()

    def _drop_failure(self, folder: Path) -> None:
        """Removes the record of a failure; a result that another process has put there meanwhile goes back."""
        taken = self._scratch / scratch_name() / folder.parent.relative_to(self.root / "trials") / folder.name
        taken.parent.mkdir(parents=True)
        with suppress(FileNotFoundError):  # another process has moved it
            os.rename(folder, taken)
        if is_result(next(undamaged(open_trial, [taken]), None)):
            renamed(taken, folder)
        remove(taken.parents[2])

    def _set_aside(self, folder: Path) -> None:
        """Moves a damaged folder out of the way; one that another process has repaired meanwhile goes back."""
        box = self.root / "damaged" / secrets.token_hex(4)
        aside = box / folder.relative_to(self.root / "trials")
        aside.parent.mkdir(parents=True)
        with suppress(FileNotFoundError):  # another process has moved it
            os.rename(folder, aside)
        if is_good(aside):
            renamed(aside, folder)
        if not any(entries(aside.parent)) or is_good(aside):
            remove(box)

    def read(self, trial: Trial | str) -> StoredTrial:
        """The stored trial, with the asking trial's config and arm; by digest alone, with those it was stored with."""
        if isinstance(trial, Trial):
            digest, folders = trial.digest, [self._folder(trial)]
        else:
            digest = valid("digest", trial, DIGEST)
            folders = [experiment / digest for experiment in below(self.root / "trials", 2)]
        for folder in filter(os.path.lexists, folders):
            stored = open_trial(folder)
            return stored.of(trial) if isinstance(trial, Trial) else stored
        raise StoreError(f"trial {digest} is not in the store {self.root}")

    def trials(self, name: str | Experiment | None = None) -> list[StoredTrial]:
        """The undamaged trials of "paper", "paper/experiment" or all, every byte checked.

        Of an Experiment: those that it could ask for as it is now, with their typed configs.
        """
        return self._select(name, open_trial)

    def glance(self, name: str | Experiment | None = None) -> list[StoredTrial]:
        """As `trials`, but quick: metrics and arrays are not opened, only their sizes compared.

        They are checked when first used, so that nothing damaged is believed.
        """
        return list(self.glances(name))

    def glances(self, name: str | Experiment | None = None) -> Iterator[StoredTrial]:
        """As `glance`, one by one."""
        return self._typed(name, self.index().records(_name(name), StoredTrial.open))

    def survey(self, name: str | None = None) -> Iterator[StoredTrial]:
        """As `trials`, one by one, with the bytes of those checked that have not been entered in the index since."""
        return self.index().records(name, open_trial)

    def _select(self, name: str | Experiment | None, read: Callable[[Path], StoredTrial]) -> list[StoredTrial]:
        return list(self._typed(name, undamaged(read, map(Path, self._places(_name(name))))))

    def _typed(self, name: str | Experiment | None, found: Iterable[StoredTrial]) -> Iterator[StoredTrial]:
        for trial in found:
            typed = trial.typed(name) if isinstance(name, Experiment) else trial
            if typed is not None:
                yield typed

    def index(self) -> Index:
        """The index of the trials, as it is now."""
        return self.__dict__.get("pinned") or Index(self.root, self._places, open_trial)

    def snapshot(self) -> "Store":
        """The same store for one command that lists it: its index, and the files of each trial, are looked at once."""
        taken = Store(self.root)
        taken.__dict__["pinned"] = self.index()
        return taken

    def damaged(self, *, again: bool = True, progress: Silent | None = None) -> list[tuple[Path, str]]:
        """Everything in the store that is not believed (trial folders, runs, verdicts), and why.

        Unless `again`, trials that are entered in the index and whose files have not changed since are not read.
        """
        places = [Path(place) for place in self._places(None)] if again else self.index().missing()
        return [
            *damages(open_trial, watched(places, len(places), "checking trials", progress)),
            *damages(open_run, entries(self.root / "runs")),
            *damages(open_verdict, below(self.root / "verdicts", 3)),
        ]

    def find(self, prefix: str) -> StoredTrial | StoredRun:
        """The one trial or run whose digest or id begins with `prefix`."""
        found = [Path(path) for path in self._places(None) if path.rpartition("/")[2].startswith(prefix)]
        found += [path for path in entries(self.root / "runs") if path.name.startswith(prefix)]
        if not found:
            raise StoreError(f"no trial or run begins with {prefix!r} in the store {self.root}")
        if len(found) > 1:
            some = ", ".join(path.stem for path in found[:6]) + (", ..." if len(found) > 6 else "")
            raise StoreError(f"{prefix!r} is ambiguous, {len(found)} trials and runs begin with it: {some}")
        return open_run(found[0]) if found[0].parent == self.root / "runs" else open_trial(found[0])

    def _folder(self, trial: Trial) -> Path:
        return self.root / "trials" / valid("experiment", trial.experiment.name, NAME) / trial.digest

    def _places(self, name: str | None) -> Iterable[str]:
        """Where trial folders should be, and whatever else lies in their way."""
        if name is None:
            return paths_below(f"{self.root}/trials", 3)
        if "/" in name:
            return paths_below(f"{self.root}/trials/{valid('name', name, NAME)}", 1)
        valid("name", f"{name}/any", NAME)
        return paths_below(f"{self.root}/trials/{name}", 2)

    # --- runs -----------------------------------------------------------------------------------------------------

    def write_run(self, record: Mapping[str, Any]) -> str:
        """Stores what a command asked for and returns the run's id; ids sort by the time they were given.

        A record that carries the id of a run replaces that run's: one writes it at the start and again at the end.
        """
        missing = [name for name in RUN_FIELDS if name not in record]
        if missing:
            raise ValueError(f"run record: {', '.join(missing)} missing (fields: {', '.join(RUN_FIELDS)})")
        id = valid("id", record.get("id") or new_id(), RUN_ID)
        with explained(f"store run {id} in {self.root}"):
            replace_file(self.root / "runs" / f"{id}.json", seal({**record, "id": id, "format": FORMAT}), self._scratch)
        return id

    def runs(self) -> list[StoredRun]:
        """The undamaged runs, oldest first."""
        return list(undamaged(open_run, entries(self.root / "runs")))

    def unfinished(self, record: Mapping[str, Any]) -> StoredRun | None:
        """The latest run that asked for the same trials and has not come to its end."""
        same = ("experiment", "preset", "trials")
        found = [run for run in self.runs() if all(run.record[name] == record[name] for name in same)]
        return next((run for run in reversed(found) if run.seconds is None), None)

    @contextmanager
    def recorded(self, record: Mapping[str, Any]) -> Iterator[None]:
        """Writes a run's record, and completes it when the block ends; where that is interrupted it stays unfinished.

        The unfinished record of an earlier attempt at the same trials is taken up again.
        """
        began, earlier = time.monotonic(), self.unfinished(record)
        record = {**record, "started": time.time(), "seconds": None}
        record["id"] = self.write_run({**record, "id": earlier.id} if earlier else record)
        yield
        self.write_run({**record, "seconds": time.monotonic() - began})

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
            return open_verdict(self._verdict(claim, digest))["data"]
        except Damaged:
            return None

    def verdicts(self) -> list[dict[str, Any]]:
        """The data of every undamaged verdict, each with its `claim` and `digest`."""
        found = undamaged(open_verdict, below(self.root / "verdicts", 3))
        return [{**verdict["data"], "claim": verdict["claim"], "digest": verdict["digest"]} for verdict in found]

    def _verdict(self, claim: str, digest: str) -> Path:
        return self.root / "verdicts" / valid("claim", claim, NAME) / f"{valid('digest', digest, DIGEST)}.json"

    # --- checkpoints ----------------------------------------------------------------------------------------------

    def checkpoint(self, digest: str) -> Checkpoint:
        """The place for a checkpoint of the work with this digest."""
        name = f"{valid('digest', digest, DIGEST)}.safetensors"
        return Checkpoint(self.root / "checkpoints" / name, self._scratch)

    def checkpoints(self) -> list[Checkpoint]:
        """All that there are."""
        found = [path for path in entries(self.root / "checkpoints") if DIGEST.fullmatch(path.stem)]
        return [Checkpoint(path, self._scratch) for path in found]


def _other_code(ending: Mapping[str, Any], there: StoredTrial) -> bool:
    made = ending.get("source_hash"), there.run.get("source_hash")
    return None not in made and made[0] != made[1]


def _supersedes(ending: Mapping[str, Any], there: StoredTrial) -> bool:
    """Whether a new trial takes the place of an old one: it is a result, and other code has made the old one."""
    return ending["status"] != FAILED and _other_code(ending, there)


def _name(wanted: str | Experiment | None) -> str | None:
    return wanted.name if isinstance(wanted, Experiment) else wanted
