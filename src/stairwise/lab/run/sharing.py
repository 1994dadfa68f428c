"""How several processes share the work of one request without a scheduler: shards, and reservations in the store.

A shard is a fixed part of the request. A reservation is a file of the store, reserved/<digest of the trial>, that names
the process at work on it. It only saves work: a trial is done when it is stored, whoever reserved it. It ends with its
process, or minutes after that process was last heard of, by the clock of whoever waits: clocks that differ between
machines do not matter.
"""

import os
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from stairwise.config import ConfigError
from stairwise.lab.contract.experiment import Trial
from stairwise.lab.progress import Silent
from stairwise.lab.run.plan import Group, Width, plan, with_upstream
from stairwise.lab.store.files import (
    SCRATCH_NAME,
    SCRATCH_SECONDS,
    StoreError,
    abandoned,
    entries,
    explained,
    regular,
    remove,
    scratch_name,
)
from stairwise.lab.store.store import Store

T = TypeVar("T")
BEAT_SECONDS = 20.0  # how often a process says that it is alive
EXPIRY_SECONDS = 180.0  # network file systems may show a sign of life a minute late
LOOK_SECONDS = 1.0  # how often a process that waits for others looks
PATIENCE_SECONDS = 3.0  # how long it waits before it says so


# --- shards -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shard:
    """Part `index` of `count` of a request, counted from one.

    >>> Shard.parse("2/3").of("abcdefgh")
    ['b', 'e', 'h']
    """

    index: int
    count: int

    @classmethod
    def parse(cls, text: str) -> "Shard":
        found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text, re.ASCII)
        if found is None or not 1 <= int(found[1]) <= int(found[2]):
            raise ConfigError(f"shard={text} must be i/n with 1 <= i <= n")
        return cls(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    def of(self, items: Sequence[T]) -> list[T]:
        """Every `count`-th of them: neighbours, which cost about the same, go to different shards."""
        return list(items[self.index - 1 :: self.count])

    def trials(self, trials: Sequence[Trial], group: int) -> list[Trial]:
        """This shard's trials, in the order of the request.

        Blocks of `group` trials of one program are dealt out in turn, so that groups stay full; smaller ones where
        there would be fewer blocks than shards. Nothing here depends on the device or on what is stored: every machine
        deals alike. Bits do not depend on it, since the width of a group is not derived from how many trials there are.
        """
        size = min(group, max(1, len(trials) // self.count))
        programs: dict[str, list[Trial]] = {}
        for trial in trials:
            programs.setdefault(trial.program_key, []).append(trial)
        blocks = [members[i : i + size] for members in programs.values() for i in range(0, len(members), size)]
        own = {trial.digest for block in self.of(blocks) for trial in block}
        return [trial for trial in trials if trial.digest in own]


# --- reservations -----------------------------------------------------------------------------------------------------


class Reservations:
    """The trials of a store that this process is at work on, marked so that others leave them alone.

    `mark` is a file whose time is renewed while this lasts. Its name is random: a machine that sees it sees this store
    and no copy of it.
    """

    def __init__(self, store: Store):
        self.folder, self.scratch = _folder(store), store.root / "tmp"
        self.mark = self.scratch / scratch_name()
        self.own: set[str] = set()
        self.heard: dict[Path, tuple[int, float]] = {}  # by mark: its time, and when, by our clock, we saw it change
        self.over = threading.Event()

    def __enter__(self) -> "Reservations":
        with explained(f"use the store {self.scratch.parent}"):
            self.scratch.mkdir(parents=True, exist_ok=True)
            self.mark.touch()
        threading.Thread(target=self._beat, daemon=True, name="stairwise-reservations").start()
        return self

    def __exit__(self, *error: object) -> None:
        self.over.set()
        self.release(list(self.own))
        remove(self.mark)

    def _beat(self) -> None:
        while not self.over.wait(BEAT_SECONDS):
            with suppress(OSError):  # a disk that is full now may have room later
                self.mark.touch()
        remove(self.mark)  # where it was touched while the reservations were being given back

    def take(self, digests: Sequence[str]) -> list[str]:
        """Reserve those that are free. Where another process has the first, it has begun on them: none."""
        taken: list[str] = []
        for digest in digests:
            if self._take(self.folder / digest):
                taken.append(digest)
                self.own.add(digest)
            elif not taken:
                break
        return taken

    def release(self, digests: Iterable[str]) -> None:
        for digest in digests:
            self.own.discard(digest)
            if _owner(self.folder / digest) == self.mark.name:
                remove(self.folder / digest)

    def elsewhere(self) -> dict[str, str]:
        """What other living processes have reserved, and the marks of these."""
        owners = {path.name: _owner(path) for path in entries(self.folder)}
        others = {digest: owner for digest, owner in owners.items() if owner is not None and owner != self.mark.name}
        return {digest: owner for digest, owner in others.items() if not self._gone(self.folder / digest, owner)}

    def _take(self, path: Path) -> bool:
        if self._make(path):
            return True
        owner = _owner(path)
        if owner == self.mark.name:
            return True
        if owner is not None and not self._gone(path, owner):
            return False
        return (owner is None or self._removed(path, owner)) and self._make(path)

    def _make(self, path: Path) -> bool:
        with explained(f"reserve a trial in {self.folder}"):
            self.folder.mkdir(parents=True, exist_ok=True)
            try:
                with open(path, "x") as file:
                    file.write(self.mark.name)
            except FileExistsError:
                return False
            except OSError:
                remove(path)  # a full disk: an empty reservation would be nobody's
                raise
        return True

    def _removed(self, path: Path, owner: str) -> bool:
        """Remove a dead process's reservation; one that another process has made meanwhile goes back."""
        aside = self.scratch / scratch_name()
        try:
            os.rename(path, aside)
        except FileNotFoundError:
            return True
        try:
            if _owner(aside) == owner:
                return True
            with suppress(OSError):  # at worst two processes do the same work
                os.link(aside, path)
            return False
        finally:
            remove(aside)

    def _gone(self, path: Path, owner: str) -> bool:
        """Whether a process has ended, or given no sign of life for minutes."""
        mark = self.scratch / owner if owner else path  # empty: it was killed before it wrote its name
        try:
            if abandoned(mark):
                return True
            time_of_mark = mark.stat().st_mtime_ns
        except FileNotFoundError:
            return True
        if mark not in self.heard or self.heard[mark][0] != time_of_mark:
            self.heard[mark] = (time_of_mark, time.monotonic())
        return time.monotonic() - self.heard[mark][1] > EXPIRY_SECONDS


def seen(store: Store, mark: str) -> bool:
    """Whether this is the store, and not a copy, in which the process with this mark works."""
    return bool(SCRATCH_NAME.fullmatch(mark)) and (store.root / "tmp" / mark).exists()


def ended(store: Store) -> list[Path]:
    """The reservations whose process has ended, or has not been heard of for an hour."""
    return [path for path in entries(_folder(store)) if _over(path, store.root / "tmp")]


def _over(path: Path, scratch: Path) -> bool:
    try:
        owner = _owner(path)
        return abandoned(scratch / owner) if owner else time.time() - path.stat().st_mtime > SCRATCH_SECONDS
    except FileNotFoundError:  # the mark is gone, or the reservation was given back while we look
        return path.exists()
    except StoreError:  # something that is no reservation
        return False


def _folder(store: Store) -> Path:
    return store.root / "reserved"


def _owner(path: Path) -> str | None:
    """The mark of whoever reserved; empty where it is not (yet) a name, None where there is no reservation."""
    try:
        with regular(path) as file:
            name = file.read(1000).decode(errors="replace")
    except OSError:
        return None
    return name if SCRATCH_NAME.fullmatch(name) else ""


# --- work -------------------------------------------------------------------------------------------------------------


class Work:
    """Hands out groups of trials that nobody else is at work on, until every trial is settled."""

    def __init__(
        self,
        trials: Sequence[Trial],
        reservations: Reservations,
        settled: Callable[[Trial], bool],
        width: int | Width,
        progress: Silent,
    ):
        self.trials, self.reservations, self.settled, self.width = trials, reservations, settled, width
        self.progress = progress
        self.left = {trial.digest: trial for trial in with_upstream(trials) if not settled(trial)}
        self.here = self.meanwhile = 0  # trials that this process has run, and that others have
        self.restart()

    def restart(self) -> None:
        """Take what was handed out, and is not done, as not begun."""
        self.queue: deque[Group] = deque()
        self.running: set[str] = set()
        self.looked = -LOOK_SECONDS
        self.idle_since: float | None = None
        self.said = False

    def next(self) -> Group | None:
        """A group to run, now reserved; None where there is none at present."""
        if not self.queue and time.monotonic() - self.looked >= LOOK_SECONDS:
            self._plan()
        while self.queue:
            group = self._reserved(self.queue.popleft())
            if group.trials:
                self.running.update(trial.digest for trial in group.trials)
                self.idle_since, self.said = None, False
                self.looked = -LOOK_SECONDS  # what comes after it need not wait
                return group
        return None

    def done(self, trial: Trial) -> None:
        """The trial is stored."""
        self.here += self.left.pop(trial.digest, None) is not None
        self.running.discard(trial.digest)
        self.reservations.release([trial.digest])

    def wait(self, stop: threading.Event) -> None:
        """Wait for the processes that have reserved what is left; say so once."""
        now = time.monotonic()
        self.idle_since = now if self.idle_since is None else self.idle_since
        if not self.said and now - self.idle_since >= PATIENCE_SECONDS:
            self.said = True
            owners = {SCRATCH_NAME.fullmatch(owner) for owner in self.reservations.elsewhere().values()}
            names = sorted(f"process {owner['pid']}" for owner in owners if owner)
            who = f" ({', '.join(names[:3])}{', ...' if len(names) > 3 else ''})" if names else ""
            count = "1 trial" if len(self.left) == 1 else f"{len(self.left)} trials"
            self.progress.warn(f"waiting for {count} that other processes are running{who}")
        stop.wait(LOOK_SECONDS)

    def _plan(self) -> None:
        self.looked = time.monotonic()
        for trial in list(self.left.values()):
            if trial.digest not in self.running and self.settled(trial):
                self._by_another(trial)
        begun = {*self.running, *(self.reservations.elsewhere() if self.left else ())}
        free = {digest for digest in self.left if digest not in begun}
        self.queue.extend(plan(self.trials, lambda trial: trial.digest not in free, self.width))

    def _reserved(self, group: Group) -> Group:
        """Those of the group that can run and that we got."""
        members = [trial for trial in group.trials if trial.digest in self.left]
        if any(needed.digest in self.left for trial in members for needed in trial.needs.values()):
            return Group((), group.width)
        taken = set(self.reservations.take([trial.digest for trial in members]))
        own = []
        for trial in members:
            if trial.digest not in taken:
                continue
            if self.settled(trial):  # stored by another process before we reserved it
                self.reservations.release([trial.digest])
                self._by_another(trial)
            else:
                own.append(trial)
        return Group(tuple(own), group.width)

    def _by_another(self, trial: Trial) -> None:
        del self.left[trial.digest]
        if trial.digest in self.reservations.own:  # by one of our workers, before their scheduler was lost
            self.here += 1
            self.reservations.release([trial.digest])
        else:
            self.meanwhile += 1
        self.progress.finished(trial.label, "stored by another process")
