"""What a store no longer needs: checkpoints of work that is done or can never go on, and what dead processes left."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from stairwise.lab import registry
from stairwise.lab.config import ConfigError
from stairwise.lab.execute import source_hash
from stairwise.lab.files import abandoned, entries, remove
from stairwise.lab.sharing import ended
from stairwise.lab.store import Store


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
    scratch = [path for path in entries(store.root / "tmp") if abandoned(path)]
    why = "left by a process that has ended"
    return [*_checkpoints(store), *(Litter(path, why) for path in [*scratch, *ended(store)])]


def _checkpoints(store: Store) -> Iterator[Litter]:
    stored = {path.name for path in store.index().places(None)}
    for path in entries(store.root / "checkpoints"):
        found = store.checkpoint(path.stem).peek() if path.suffix == ".safetensors" else None
        if found is None:
            yield Litter(path, "not a checkpoint")
            continue
        owner = found.get("owner") or {}
        if not owner:
            yield Litter(path, "its trials are unknown")
        elif set(owner["trials"]) <= stored:
            yield Litter(path, f"its trials of {owner['experiment']} are stored")
        elif _other_code(owner):
            yield Litter(path, f"made by other code than {owner['experiment']} has now")


def _other_code(owner: dict) -> bool:
    try:
        return source_hash(registry.experiment(owner["experiment"])) != owner["source_hash"]
    except ConfigError:  # a plug-in that is not installed here may be elsewhere
        return False


def clean(found: list[Litter]) -> None:
    for each in found:
        remove(each.path)
