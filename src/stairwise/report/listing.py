"""What there is, as plain data: papers with their experiments and claims, stored runs and trials. Imports no JAX."""

import math
import statistics
import typing
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from stairwise.lab import manifest, registry
from stairwise.lab.config import Config, ConfigError, find_leaf, leaves, unknown_field
from stairwise.lab.contract import Claim, Experiment, Paper, Preset
from stairwise.lab.record import StoredTrial
from stairwise.lab.shown import shown
from stairwise.lab.stale import is_stale
from stairwise.lab.store import Store, StoredRun
from stairwise.report.words import flat, inner, seconds_of
from stairwise.train.stage import STATUSES

# what run.json says about the ending and the files, not about how the trial was made
NOT_PROVENANCE = ("format", "files", "status", "message", "timing")


# --- papers -----------------------------------------------------------------------------------------------------------


def listing(papers: Sequence[Paper], store: Store) -> dict[str, Any]:
    """Every paper with its experiments, figures and claims, and what the store holds of them."""
    stored = by_experiment(store)
    return {"store": str(store.root), "papers": [_paper(paper, stored) for paper in papers]}


class Tally(NamedTuple):
    """How many trials of an experiment are stored, and what they cost."""

    trials: int = 0
    seconds: float = 0.0


def by_experiment(store: Store) -> dict[str, Tally]:
    """What is stored under each experiment's name."""
    found: dict[str, Tally] = {}
    for record in store.glances():
        before = found.get(record.experiment, Tally())
        found[record.experiment] = Tally(before.trials + 1, before.seconds + seconds_of(record.run))
    return found


def _paper(paper: Paper, stored: Mapping[str, Tally]) -> dict[str, Any]:
    return {
        "id": paper.id,
        "title": paper.title,
        "authors": paper.authors,
        "year": paper.year,
        "venue": paper.venue,
        "summary": paper.summary,
        "experiments": [_experiment(each, stored.get(each.name, Tally())) for each in paper.experiments],
        "figures": [
            {"id": each.id, "experiment": each.experiment, "caption": each.caption, "headline": each.headline}
            for each in paper.figures
        ],
        "claims": [_claim(each, paper) for each in paper.claims],
        "constructions": [{"id": each.id, "says": each.says} for each in paper.constructions],
    }


def _experiment(experiment: Experiment, stored: Tally) -> dict[str, Any]:
    return {
        "id": experiment.id,
        "name": experiment.name,
        "says": experiment.says,
        "presets": {name: _preset(preset) for name, preset in experiment.presets.items()},
        "figures": [figure.id for figure in experiment.figures],
        "fields": fields(experiment.Config()),
        "stored": stored.trials,
        "seconds": round(stored.seconds, 3),
    }


def _preset(preset: Preset) -> dict[str, Any]:
    settings = {leaf.path: leaf.default for leaf in leaves(preset.config)}
    return {
        "seeds": preset.seeds,
        "arms": list(preset.arms),
        "steps": settings.get("steps"),
        "trials": preset.seeds * len(preset.arms),
        "group": preset.group,
        "hours": preset.hours,
        "note": preset.note,
        "config": settings,
    }


def _claim(claim: Claim, paper: Paper) -> dict[str, Any]:
    base = claim.cases[0] if claim.cases else None
    if claim.judge is not None:
        base = next(iter(paper.experiment(claim.experiment).presets.values())).config
    return {
        "id": claim.id,
        "name": claim.name,
        "aliases": list(claim.aliases),
        "says": claim.says,
        "kind": claim.kind,
        "tier": claim.tier,
        "experiment": f"{claim.paper}/{claim.experiment}" if claim.experiment else None,
        "source": claim.source,
        "fields": [] if base is None else fields(base),
    }


def fields(config: Config) -> list[dict[str, Any]]:
    """The fields that a command line can set, with the config's values as their defaults."""
    return [
        {
            "name": leaf.path,
            "type": _type_name(leaf.kind),
            "default": leaf.default,
            "help": leaf.metadata.get("help", ""),
            "range": leaf.range,
            "choices": list(leaf.metadata.get("choices") or ()),
            "numeric": leaf.numeric,
        }
        for leaf in leaves(config)
    ]


def _type_name(kind: Any) -> str:
    if typing.get_origin(kind) is tuple:
        return f"list of {_type_name(typing.get_args(kind)[0])}"
    return getattr(kind, "__name__", str(kind))


# --- runs and trials --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Filter:
    """Which runs, or which trials, are wanted."""

    name: str | None = None
    preset: str | None = None
    status: str | None = None
    where: tuple[tuple[str, str], ...] = ()
    since: float | None = None
    last: int | None = None

    @classmethod
    def of(cls, name, preset=None, status=None, where=None, since=None, last=None) -> "Filter":
        """From a command line's words."""
        if last is not None and last < 1:
            raise ConfigError(f"last={last} must be at least 1")
        if status is not None and status not in STATUSES:
            raise ConfigError(f"status={status} must be one of {', '.join(STATUSES)}")
        pairs = []
        for word in where or ():
            path, _, value = word.partition("=")
            if not path or not value:
                raise ConfigError(f"where={word} must be written as field=value")
            pairs.append((path.replace("-", "_"), value))
        try:
            moment = None if since is None else datetime.fromisoformat(since).replace(tzinfo=UTC).timestamp()
        except ValueError:
            raise ConfigError(f"since={since} must be a date, such as 2026-11-15") from None
        return cls(name, preset, status, tuple(pairs), moment, last)

    @property
    def of_trials(self) -> bool:
        """Whether it selects by what only trials have."""
        return bool(self.status or self.where)

    def run(self, run: StoredRun) -> bool:
        recent = self.since is None or run.started >= self.since
        return self._named(run.experiment) and recent and self.preset in (None, run.preset)

    def _named(self, experiment: str) -> bool:
        return self.name is None or f"{experiment}/".startswith(f"{self.name}/")

    def check(self, store: Store) -> None:
        """ConfigError where a paper, preset or field is wanted that neither a paper declares nor the store has."""
        if self.name is not None or self.preset is not None:
            self._check_names(store)
        if self.where:
            self._check_fields(store)

    def _check_names(self, store: Store) -> None:
        declared = {
            f"{paper['id']}/{each['id']}": each["presets"]
            for paper in manifest.manifests()
            for each in paper["experiments"]
        }
        runs = store.runs()
        if not any(map(self._named, [*declared, *(run.experiment for run in runs)])):
            stored = {record.experiment for record in store.glances()}
            if not any(map(self._named, stored)):
                known = sorted({name.partition("/")[0] for name in [*declared, *stored]})
                raise ConfigError(f"unknown paper or experiment: {self.name} (papers: {', '.join(known)})")
        presets = {preset for name, own in declared.items() if self._named(name) for preset in own}
        presets |= {run.preset for run in runs if self._named(run.experiment)}
        if self.preset is not None and self.preset not in presets:
            raise ConfigError(f"preset={self.preset} must be one of {', '.join(sorted(presets))}")

    def _check_fields(self, store: Store) -> None:
        known = {"seed", "arm"}
        for record in store.glances(self.name):
            known |= flat(record.config_dict).keys()
            if all(path in known for path, _ in self.where):
                return
        declared = [each for paper in registry.papers() for each in paper.experiments if self._named(each.name)]
        known |= {leaf.path for each in declared for leaf in leaves(each.Config())}
        for path, _ in self.where:
            if path not in known:
                raise ConfigError(f"where: {unknown_field(path, sorted(known))}")

    def trial(self, record: StoredTrial) -> StoredTrial | None:
        """The trial as it is shown, where it is wanted."""
        if self.status not in (None, record.status) or (self.since or 0) > (started_of(record) or 0):
            return None
        known = shown(record)
        config = {**flat(known.config_dict), "seed": known.seed, "arm": known.arm}
        for path, value in self.where:
            leaf = find_leaf(known.config, path) if isinstance(known.config, Config) else None
            path = path if leaf is None else leaf.path
            if path not in config or not _same(config[path], value):
                return None
        return known

    def runs(self, store: Store) -> list[StoredRun]:
        return self._last([run for run in store.runs() if self.run(run)])

    def trials(self, store: Store) -> list[StoredTrial]:
        found = [known for record in store.survey(self.name) if (known := self.trial(record)) is not None]
        return found if self.last is None else self._last(sorted(found, key=lambda each: started_of(each) or 0))

    def _last(self, found: list[Any]) -> list[Any]:
        return found if self.last is None else found[-self.last :]


def _same(value: Any, text: str) -> bool:
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value)) == text.replace(" ", "")
    if isinstance(value, bool):
        return str(value).lower() == text.lower()
    if isinstance(value, (int, float)):
        with suppress(ValueError):
            return float(text) == value
    return str(value) == text


def started_of(record: StoredTrial) -> float | None:
    found = inner(record.run, "timing", "started")
    return found if isinstance(found, (int, float)) else None


def runs_listing(store: Store, chosen: Filter | str | None = None, *, trials: bool = False) -> list[dict[str, Any]]:
    """The stored runs, or the trials, of a paper, of an experiment or of all; oldest run first."""
    chosen = chosen if isinstance(chosen, Filter) else Filter(chosen)
    if trials:
        return [trial_line(record) for record in chosen.trials(store)]
    return [run_line(run) for run in chosen.runs(store)]


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


def finals(records: Iterable[StoredTrial], *, arms: bool) -> list[dict[str, Any]]:
    """The last value of every metric: median, lowest and highest over the records (of each arm, with `arms`)."""
    values: dict[tuple[str, str], list[float]] = {}
    for record in records:
        for name in record.names():
            values.setdefault((record.arm if arms else "", name), []).append(record.final(name))
    return [
        {
            "arm": arm,
            "metric": name,
            "median": median(column),
            "lowest": min(column, key=_nan_last),
            "highest": -min((-value for value in column), key=_nan_last),
            "trials": len(column),
        }
        for (arm, name), column in values.items()
    ]


def median(values: Sequence[float]) -> float:
    """The median; NaN when any value is."""
    return math.nan if any(math.isnan(value) for value in values) else statistics.median(values)


def _nan_last(value: float) -> float:
    return math.inf if math.isnan(value) else value


# --- two of them ------------------------------------------------------------------------------------------------------


def difference(a: Sequence[StoredTrial], b: Sequence[StoredTrial]) -> dict[str, Any]:
    """What differs in config and making between two trials, or two sets of them, and their last measurements."""
    arms = len(a) != 1 or len(b) != 1
    final = [{(row["arm"], row["metric"]): row["median"] for row in finals(side, arms=arms)} for side in (a, b)]
    return {
        "config": _differing(*(_values(side, lambda record: record.config_dict) for side in (a, b))),
        "seeds": [sorted({record.seed for record in side}) for side in (a, b)],
        "final": [
            {"arm": arm, "metric": name, "a": final[0].get((arm, name)), "b": final[1].get((arm, name))}
            for arm, name in dict.fromkeys([*final[0], *final[1]])
        ],
        "provenance": _differing(*(_values(side, provenance) for side in (a, b))),
        "seconds": [sum(seconds_of(record.run) for record in side) for side in (a, b)],
    }


def _values(records: Sequence[StoredTrial], read: Any) -> dict[str, list[Any]]:
    """The distinct values of each field over the records."""
    found: dict[str, list[Any]] = {}
    for record in records:
        for path, value in flat(read(record)).items():
            column = found.setdefault(path, [])
            if value not in column:
                column.append(value)
    return found


def _differing(a: Mapping[str, list[Any]], b: Mapping[str, list[Any]]) -> dict[str, dict[str, Any]]:
    paths = dict.fromkeys([*a, *b])
    return {path: {"a": _one(a.get(path)), "b": _one(b.get(path))} for path in paths if a.get(path) != b.get(path)}


def _one(values: list[Any] | None) -> Any:
    return values[0] if values is not None and len(values) == 1 else values


def finite(data: Any) -> Any:
    """The data as JSON knows it: NumPy's values as Python's, and null for NaN and infinities.

    >>> import numpy as np
    >>> finite({"n": np.int64(3), "rows": (np.float32("nan"), 0.5)})
    {'n': 3, 'rows': [None, 0.5]}
    """
    if isinstance(data, float):
        return float(data) if math.isfinite(data) else None
    if isinstance(data, Mapping):
        return {str(name): finite(value) for name, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [finite(value) for value in data]
    return finite(data.tolist()) if hasattr(data, "tolist") else data
