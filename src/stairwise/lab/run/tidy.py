"""What a store no longer needs: checkpoints of work that is done or can never go on, and what dead processes left."""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stairwise.config import ConfigError
from stairwise.lab import registry
from stairwise.lab.run.execute import source_hash
from stairwise.lab.run.sharing import ended
from stairwise.lab.store.entries import DIGEST, is_result, open_trial
from stairwise.lab.store.files import StoreError, abandoned, entries, remove
from stairwise.lab.store.segment import NAME
from stairwise.lab.store.store import Store


@dataclass(frozen=True)
class Litter:
    """A file or folder that can go, and why."""

    path: Path
    why: str

    @property
    def bytes(self) -> int:
        files = self.path.rglob("*") if self.path.is_dir() else [self.path]
        return sum(path.lstat().st_size for path in files if path.is_file())


def litter(store: Store) -> list[Litter]:
    """Everything that `clean` would remove."""
    left = [path for path in entries(store.root / "tmp") if abandoned(path)]
    old = [path for path in entries(store.root / "index") if not NAME.fullmatch(path.name)]
    return [
        *(Litter(path, why) for path in entries(store.root / "checkpoints") if (why := _needless(store, path))),
        *(Litter(path, "left by a process that has ended") for path in [*left, *ended(store)]),
        *(Litter(path, "not of the index that this version keeps") for path in old),
    ]


def foreign(store: Store) -> list[Path]:
    """What lies among the checkpoints and reservations and is none; nobody removes it."""
    found = [path for path in entries(store.root / "checkpoints") if not _is_ours(path)]
    return found + [path for path in entries(store.root / "reserved") if os.path.exists(path) and not path.is_file()]


def _is_ours(path: Path) -> bool:
    return path.suffix == ".safetensors" and DIGEST.fullmatch(path.stem) is not None and path.is_file()


def _needless(store: Store, path: Path) -> str | None:
    """Why a checkpoint can go."""
    if not _is_ours(path):
        return None
    found = store.checkpoint(path.stem).peek()
    if found is None:
        return "damaged"
    owner = found.get("owner")
    if not isinstance(owner, dict) or not owner:
        return "its trials are unknown"
    if _alive(path, owner):
        return None
    if all(_is_stored(store, owner["experiment"], digest) for digest in owner["trials"]):
        return f"its trials of {owner['experiment']} are stored"
    return f"made by other code than {owner['experiment']} has now" if _other_code(owner) else None


def _alive(path: Path, owner: dict[str, Any]) -> bool:
    """Whether the process that wrote the checkpoint may still be at work: it may run a stored trial again."""
    with suppress(OSError):
        return "process" in owner and not abandoned(path, owner["process"])
    return False


def _is_stored(store: Store, experiment: str, digest: str) -> bool:
    """Whether the trial has a result: the record of a failure, which may be tried again, is none."""
    try:
        return is_result(open_trial(store.root / "trials" / experiment / digest))
    except StoreError:
        return False


def _other_code(owner: dict[str, Any]) -> bool:
    try:
        return source_hash(registry.experiment(owner["experiment"])) != owner["source_hash"]
    except ConfigError:  # a plug-in that is not installed here may be elsewhere
        return False


def clean(found: list[Litter]) -> None:
    for each in found:
        remove(each.path)
