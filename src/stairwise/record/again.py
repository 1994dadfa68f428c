"""Run one published trial of an experiment here, and compare: what a large machine measured and what this one does.

Metrics are compared in single precision, which is what the record has. Programs of a CPU and of a GPU round
differently, and training amplifies that.
"""

import tempfile
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from stairwise.config import ConfigError
from stairwise.lab import registry
from stairwise.lab.contract.experiment import Experiment, Trial
from stairwise.lab.progress import Silent
from stairwise.lab.run.execute import execute
from stairwise.lab.store.store import Store
from stairwise.lab.store.trial import StoredTrial
from stairwise.record import published


class Compared(NamedTuple):
    """One metric of both runs: differences over the largest value, at the first measurement and the largest of all."""

    metric: str
    measurements: int
    first: float
    largest: float

    @property
    def equal(self) -> bool:
        return self.largest == 0


def cheapest(experiment: Experiment) -> StoredTrial:
    """The published trial of an experiment that took the least time."""
    found = [record for record in published.published(experiment.name).records if record.status == "finished"]
    if not found:
        raise ConfigError(f"{experiment.name} has no finished trial in the record")
    return min(found, key=lambda record: (record.run.get("timing", {}).get("seconds_per_trial", 0.0), record.seed))


def compared(there: StoredTrial, seconds: float, progress: Silent | None = None) -> list[Compared] | None:
    """A published trial against the same trial run here; None where that takes longer."""
    from stairwise.train.loop import Interrupted

    trial = Trial(registry.experiment(there.experiment), there.config, there.seed)
    stop = threading.Event()
    timer = threading.Timer(seconds, stop.set)
    timer.daemon = True
    timer.start()
    try:
        with tempfile.TemporaryDirectory() as folder:
            store = Store.open(folder)
            execute([trial], store, progress=progress, stop=stop)
            return list(differences(there, store.read(trial)))
    except Interrupted:
        return None
    finally:
        timer.cancel()


def differences(there: StoredTrial, here: StoredTrial) -> Iterator[Compared]:
    """Every metric that both have, in the order of the record."""
    for name in there.names():
        if name not in here.names():
            continue
        (steps, values), (again, found) = there.series(name), here.series(name)
        common, one, other = np.intersect1d(steps, again, return_indices=True)
        first, second = values[one].astype(np.float32), found[other].astype(np.float32)
        finite = np.isfinite(first) & np.isfinite(second)
        scale = max(float(np.max(np.abs(first[finite]), initial=0.0)), 1e-30)
        apart = np.where(finite, np.abs(first - second) / scale, np.where(first == second, 0.0, np.inf))
        apart = np.where(np.isnan(first) & np.isnan(second), 0.0, apart)
        if len(common):
            yield Compared(name, len(common), float(apart[0]), float(apart.max()))


def summary(found: list[Compared]) -> dict[str, Any]:
    """How many metrics are equal, and the worst of the others."""
    worst = max(found, key=lambda each: each.largest)
    equal = sum(each.equal for each in found)
    return {
        "metrics": len(found),
        "equal": equal,
        "first measurement apart by": max(each.first for each in found),
        "any measurement apart by": worst.largest,
        "in": worst.metric if worst.largest else "",
    }
