"""`sw.fit`: your own stages, once per seed, with the trained models, a table, and a place in the store if you want one.

Nothing says which code your stages are, so a fit is always run, and a stored one takes the place of an earlier fit of
the same name, numbers and seed that came out differently.
"""

import dataclasses
import hashlib
import re
import time
from collections import namedtuple
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stairwise.config import Config, ConfigError, option, short
from stairwise.lab.api import seed_list
from stairwise.lab.contract.experiment import Experiment, Preset, Trial
from stairwise.lab.progress import Silent, for_terminal
from stairwise.lab.run.execute import device
from stairwise.lab.store import provenance
from stairwise.lab.store.store import Store
from stairwise.lab.store.trial import ARRAYS, METRICS, StoredTrial, encode_trial
from stairwise.lab.worker import in_worker
from stairwise.train.stage import LOST, Outcome, Stage

OWNER = "own"  # of experiments that no paper has


@dataclass
class SeedFit(Outcome):
    """One seed: how it ended, its metrics and arrays, its model (None where training was lost to a NaN)."""

    seed: int = 0
    numbers: dict[str, Any] = field(default_factory=dict)
    model: Any = field(default=None, repr=False)
    record: StoredTrial | None = None  # where it is stored


class Fits(list[SeedFit]):
    """The fits of all seeds."""

    def table(self, *, pandas: bool = False):
        """Every measurement in long form: seed, the numbers, status, stage, step, name, value.

        It is a pyarrow table, or a pandas frame.
        """
        import pyarrow

        rows: dict[str, list[Any]] = {name: [] for name in ("seed", *(self[0].numbers if self else ()), "status")}
        for fit in self:
            for name, value in {"seed": fit.seed, **fit.numbers, "status": fit.status}.items():
                rows[name] += [value] * len(fit.value)
        for name in ("stage", "step", "name", "value"):
            rows[name] = [value for fit in self for value in getattr(fit, name)]
        found = pyarrow.table(rows)
        return found.to_pandas() if pandas else found


def fit(
    stages: Stage | Sequence[Stage],
    seeds: int | Sequence[int] = 1,
    *,
    group: int = 1,
    name: str = "fit",
    store: Store | str | None = None,
    progress: Silent | bool = True,
    **numbers: Any,
) -> Fits:
    """Train your own stages once per seed; `group` seeds at a time share one vmapped program.

    Stages find the numbers as fields of `trial.config`; one given as a list has one value per seed. Progress goes to
    standard error. With a `store` (a folder) the fits are kept there as trials of the experiment own/NAME, which
    `sw.load` and `stairwise query` read. `sw.export(fit.model, folder)` writes a model to files.
    """
    stages = [stages] if isinstance(stages, Stage) else stages
    if not isinstance(stages, Sequence) or not stages or not all(isinstance(each, Stage) for each in stages):
        raise ConfigError(f"stages={short(stages)} must be a stage (sw.online and the like) or a list of them")
    chosen = list(seed_list(seeds) or [])
    rows = _rows(numbers, chosen)
    store = store if isinstance(store, Store) or store is None else Store.open(store)
    trials = [] if store is None else [_trial(name, row, seed) for row, seed in zip(rows, chosen, strict=True)]
    display = for_terminal() if progress is True else progress or Silent()
    display.begin(name, len(chosen), 0)
    began = time.time()
    try:
        fits = in_worker(lambda stop: _trained(stages, chosen, rows, group, display, stop))
    finally:
        display.end()
    for trial, one in zip(trials, fits, strict=store is not None):
        assert store is not None
        one.record = _stored(store, trial, one, _environment(began, len(chosen), group))
    return fits


def _rows(numbers: Mapping[str, Any], seeds: Sequence[int]) -> list[dict[str, Any]]:
    """The numbers of each seed."""
    for name, value in numbers.items():
        if isinstance(value, list | tuple) and len(value) != len(seeds):
            raise ConfigError(f"{name} has {len(value)} values and there are {len(seeds)} seeds")
    return [
        {name: value[i] if isinstance(value, list | tuple) else value for name, value in numbers.items()}
        for i in range(len(seeds))
    ]


def _trial(name: str, numbers: Mapping[str, Any], seed: int) -> Trial:
    if not re.fullmatch(r"[\w-]+", name):
        raise ConfigError(f"name={name} must consist of letters, digits, _ and -")
    fields = [(path, type(value), option(value, path, numeric=True)) for path, value in numbers.items()]
    made: Any = dataclasses.make_dataclass("Numbers", fields, bases=(Config,), frozen=True)
    experiment = Experiment(name, "", made, {"quick": Preset(made())}, program=fit, paper=OWNER)
    return Trial(experiment, made(), seed)


def _trained(
    stages: Sequence[Stage], seeds: Sequence[int], rows: list[dict[str, Any]], group: int, display: Silent, stop: Any
) -> Fits:
    import jax

    from stairwise.train.loop import Hooks, Member, Program

    class Host(Hooks):
        carry: Any = None

        def compiling(self, stage):
            display.status(f"compiling {stage}")

        def progress(self, stage, tick, max_ticks, metrics):
            display.ticks(stage, tick, max_ticks, metrics)

        def stop(self):
            return stop.is_set()

        def handed_over(self, carry):
            self.carry = carry

    program, fits = Program(stages, group), Fits()
    fields = namedtuple("fields", rows[0] if rows else ())  # type: ignore[misc]  a pytree with these names
    for first in range(0, len(seeds), group):
        host, part = Host(), range(first, min(first + group, len(seeds)))
        outcomes = program.run([Member(seeds[i], fields(**rows[i])) for i in part], host)
        for place, (i, outcome) in enumerate(zip(part, outcomes, strict=True)):
            model = host.carry if group == 1 else jax.tree.map(lambda leaf, place=place: leaf[place], host.carry)
            model = None if outcome.status in LOST else model
            fits.append(SeedFit(**vars(outcome), seed=seeds[i], numbers=rows[i], model=model))
            display.finished(f"seed {seeds[i]}", outcome.status)
    return fits


def _environment(began: float, seeds: int, group: int) -> dict[str, Any]:
    seconds = time.time() - began
    return {
        "device": device(),
        "group_width": group,
        "versions": provenance.versions(),
        "machine": provenance.machine(),
        "timing": {"started": began, "seconds": seconds, "seconds_per_trial": seconds / seeds},
    }


def _stored(store: Store, trial: Trial, fit: SeedFit, environment: Mapping[str, Any]) -> StoredTrial:
    """The stored fit. Its code is named by what came out of it, so that another result takes its place."""
    files = encode_trial(trial, fit, {})
    code = hashlib.sha256(files[METRICS] + files[ARRAYS]).hexdigest()
    store.write(trial, fit, {**environment, "source_hash": code})
    return store.read(trial)
