"""Stored trials and runs as plain data, as `runs`, `show` and `diff` have them. Imports no JAX."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from stairwise.lab.run.stale import is_stale
from stairwise.lab.store.files import StoreError
from stairwise.lab.store.finals import finals
from stairwise.lab.store.shown import shown
from stairwise.lab.store.store import Store, StoredRun
from stairwise.lab.store.trial import StoredTrial
from stairwise.words import inner, seconds_of

# what run.json says about the ending and the files, not about how the trial was made
NOT_PROVENANCE = ("format", "files", "status", "message", "timing")


def opened(place: str | None) -> Store:
    """The store that a command reads. One that is named must exist; the default one is empty before the first run.

    Commands that write (`run`, `sweep`, `verify`, `falsify`, `reproduce`) make the store that is named.
    """
    store = Store.open(place, create=False)
    if place is not None and not store.root.is_dir():
        raise StoreError(f"there is no store {store.root} (stairwise run makes one)")
    return store


def records_of(found: StoredTrial | StoredRun, store: Store) -> list[StoredTrial]:
    """The trial itself, or the run's trials that are stored and undamaged."""
    if isinstance(found, StoredTrial):
        return [shown(found)]
    records = []
    for digest in found.trials:
        with suppress(StoreError):
            records.append(shown(store.read(digest)))
    return records


def started_of(record: StoredTrial) -> float | None:
    found = inner(record.run, "timing", "started")
    return found if isinstance(found, (int, float)) else None


def run_line(run: StoredRun) -> dict[str, Any]:
    changes = run.record.get("changes")
    return {
        "id": run.id,
        "experiment": run.experiment,
        "preset": run.preset,
        "trials": list(run.trials),
        "started": run.started,
        "seconds": run.seconds,
        "command": run.command,
        "changes": changes if isinstance(changes, Mapping) else {},
    }


def trial_line(record: StoredTrial) -> dict[str, Any]:
    return {
        "digest": record.digest,
        "experiment": record.experiment,
        "arm": record.arm,
        "seed": record.seed,
        "status": record.status,
        "message": record.run.get("message", ""),
        "started": started_of(record),
        "seconds": seconds_of(record.run),
        "device": record.run.get("device"),
        "stale": is_stale(record),
    }


def trial_data(record: StoredTrial) -> dict[str, Any]:
    """All of a trial but its series and the content of its arrays."""
    arrays = {name: record.array(name) for name in record.arrays()}
    return {
        **trial_line(record),
        "version": record.version,
        "needs": record.needs,
        "config": record.config_dict,
        "final": finals([record], arms=False),
        "arrays": {name: {"dtype": str(array.dtype), "shape": list(array.shape)} for name, array in arrays.items()},
        "provenance": provenance(record),
    }


def run_data(run: StoredRun, records: Sequence[StoredTrial]) -> dict[str, Any]:
    """A run, its trials that are stored, and their last measurements over seeds."""
    there = {record.digest for record in records}
    return {
        **run_line(run),
        "stored": [trial_line(record) for record in records],
        "missing": [digest for digest in run.trials if digest not in there],
        "final": finals(records, arms=True),
    }


def provenance(record: StoredTrial) -> dict[str, Any]:
    """How a trial was made: device, versions, machine, source hash."""
    return {name: value for name, value in record.run.items() if name not in NOT_PROVENANCE}
