"""Which of an experiment's trials belong together on its page: a complete preset, a run, or what is left over."""

import dataclasses
import hashlib
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from stairwise.lab.contract.experiment import Experiment
from stairwise.lab.run.stale import count
from stairwise.lab.store.store import StoredRun
from stairwise.lab.store.trial import StoredTrial
from stairwise.words import device_of, distinct, flat, inner, moment, plain, seconds_of, versions_of

LARGEST_FIRST = ("gpu", "paper", "quick")


@dataclass(frozen=True)
class TrialSet:
    """Trials that are shown on one axis, with the arm that each plays in this set."""

    id: str
    label: str
    command: str
    preset: str
    records: tuple[StoredTrial, ...]
    complete: bool = True
    stale: int = 0  # trials that were made by other code than is installed

    published: bool = False  # with this package, not in one's own store

    def as_published(self) -> "TrialSet":
        label = f"published, {self.label}"
        return dataclasses.replace(self, id=f"published-{self.id}", label=label, published=True)

    @property
    def from_record(self) -> bool:
        """Whether all of its trials come from the record, as in a report of that alone."""
        return all("published" in record.run for record in self.records)

    @cached_property
    def prints(self) -> list[list[Any]]:
        """Of each of its trials what changes whenever anything of it does."""
        return [fingerprint(record) for record in self.records]

    @cached_property
    def arms(self) -> list[str]:
        return list(dict.fromkeys(record.arm for record in self.records))

    @cached_property
    def seeds(self) -> list[int]:
        return sorted({record.seed for record in self.records})

    @property
    def endings(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for record in self.records:
            found[record.status] = found.get(record.status, 0) + 1
        return found

    @property
    def seconds(self) -> float:
        return sum(seconds_of(record.run) for record in self.records)

    @cached_property
    def device(self) -> str:
        return distinct(device_of(record.run) for record in self.records)

    @cached_property
    def versions(self) -> str:
        return distinct(versions_of(record.run) for record in self.records)

    @property
    def started(self) -> str:
        """The day and minute at which the first of the trials was begun."""
        return min((moment(inner(record.run, "timing", "started")) for record in self.records), default="-")

    @cached_property
    def config(self) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """The fields that all trials share, and those that differ, by arm."""
        first = {record.arm: record for record in reversed(self.records)}
        by_arm = {arm: flat(record.config_dict) for arm, record in first.items()}
        fields = dict.fromkeys(path for values in by_arm.values() for path in values)
        common, differing = {}, []
        for path in fields:
            values = [values.get(path) for values in by_arm.values()]
            if all(value == values[0] for value in values):
                common[path] = values[0]
            else:
                differing.append(path)
        arms = {arm: {path: by_arm[arm].get(path, "") for path in differing} for arm in self.arms}
        return common, arms if differing else {}


def fingerprint(record: StoredTrial) -> list[Any]:
    """Changes whenever anything of a trial does."""
    run = json.dumps(record.run, sort_keys=True)
    return [record.digest, record.arm, hashlib.sha256(run.encode()).hexdigest()]


def sets_of(experiment: Experiment, stored: Sequence[StoredTrial], runs: Sequence[StoredRun]) -> list[TrialSet]:
    """Complete presets, the largest first; then runs that are none of those, the newest first; then the rest."""
    if not stored:
        return []
    by_digest = {record.digest: record for record in stored}
    found = [*_presets(experiment, by_digest)]
    seen = {frozenset(record.digest for record in each.records) for each in found}
    mine = [run for run in runs if run.experiment == experiment.name]
    for run in sorted(mine, key=lambda run: run.id, reverse=True):
        records = tuple(by_digest[digest] for digest in run.trials if digest in by_digest)
        digests = frozenset(record.digest for record in records)
        if records and digests not in seen:
            seen.add(digests)
            found.append(_run(run, records))
    covered = set().union(*seen)
    rest = tuple(record for record in stored if record.digest not in covered)
    if rest:
        label = f"{len(rest)} other trial{'s' if len(rest) > 1 else ''}"
        found.append(TrialSet("other", label, f"stairwise runs {experiment.name} --trials", "", rest, complete=False))
    return [dataclasses.replace(each, stale=count(each.records, experiment)) for each in found]


def _presets(experiment: Experiment, stored: Mapping[str, StoredTrial]) -> list[TrialSet]:
    known = [name for name in LARGEST_FIRST if name in experiment.presets]
    found = []
    for name in dict.fromkeys([*known, *experiment.presets]):
        trials = experiment.trials(name)
        if all(trial.digest in stored for trial in trials):
            records = tuple(stored[trial.digest].of(trial) for trial in trials)
            command = shlex.join(["stairwise", "run", experiment.name, "--preset", name])
            found.append(TrialSet(name, f"preset {name}", command, name, records))
    return found


def _run(run: StoredRun, records: tuple[StoredTrial, ...]) -> TrialSet:
    changes = run.record.get("changes")
    changed = " ".join(f"{plain(k)}={plain(v)}" for k, v in changes.items()) if isinstance(changes, Mapping) else ""
    label = f"run of {moment(run.started)}, {plain(run.preset)}" + (f", {changed}" if changed else "")
    return TrialSet(run.id, label, plain(run.command), run.preset, records, len(records) == len(set(run.trials)))
