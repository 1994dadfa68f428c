"""`stairwise runs`: the runs or trials in the store, all or those that are wanted. Imports no JAX."""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from rich.text import Text

from stairwise.commands import flags
from stairwise.commands.stored import opened, run_line, started_of, trial_line
from stairwise.config import Config, ConfigError, as_flags, find_leaf, leaves, unknown_field
from stairwise.lab import registry
from stairwise.lab.progress import for_terminal
from stairwise.lab.run.stale import count, words
from stairwise.lab.store.shown import shown
from stairwise.lab.store.store import Store, StoredRun
from stairwise.lab.store.trial import StoredTrial
from stairwise.terminal import cells, new_table, open_console, print_json, print_table
from stairwise.train.stage import STATUSES
from stairwise.words import device_of, duration, flat, moment, plain, seconds_of


def add_flags(command: argparse.ArgumentParser) -> None:
    flags.add_json(command)
    flags.add_published(command)
    command.add_argument("name", nargs="?", metavar="PAPER[/EXPERIMENT]", help="only runs of this paper or experiment")
    command.add_argument("--trials", action="store_true", help="list trials instead of runs")
    command.add_argument("--preset", help="only runs of this preset")
    statuses = f"{', '.join(STATUSES[:-1])} or {STATUSES[-1]}"
    command.add_argument("--status", help=f"only trials with this status: {statuses}")
    command.add_argument(
        "--where", nargs="+", action="extend", metavar="FIELD=VALUE", help="only trials whose config has this value"
    )
    command.add_argument(
        "--since", metavar="DATE", help="only what was started on this day or later (UTC, such as 2026-11-15)"
    )
    command.add_argument("--last", action=flags.Whole, metavar="N", help="only the N latest")


def act(options, fields) -> int:
    chosen = RunFilter.of(options.name, options.preset, options.status, options.where, options.since, options.last)
    trials = options.trials or chosen.of_trials
    if trials and chosen.preset is not None:
        raise ConfigError(f"preset={chosen.preset} selects runs; --trials, --status and --where select trials")
    store = opened(options.store).snapshot()
    chosen.check(store)
    store.index().refresh(for_terminal())
    if options.json:
        print_json(runs_listing(store, chosen, trials=trials))
    else:
        (trials_table if trials else runs_table)(store, chosen)
    return 0


# --- which ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RunFilter:
    """Which runs, or which trials, are wanted."""

    name: str | None = None
    preset: str | None = None
    status: str | None = None
    where: tuple[tuple[str, str], ...] = ()
    since: float | None = None
    last: int | None = None

    @classmethod
    def of(cls, name, preset=None, status=None, where=None, since=None, last=None) -> "RunFilter":
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
            for paper in registry.manifests()
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
        configs = [each.Config() for each in declared]
        known |= {leaf.path for config in configs for leaf in leaves(config)}
        for path, _ in self.where:
            if path not in known and not any(find_leaf(config, path) for config in configs):
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


# --- what is printed --------------------------------------------------------------------------------------------------


def runs_listing(store: Store, chosen: RunFilter | str | None = None, *, trials: bool = False) -> list[dict[str, Any]]:
    """The stored runs, or the trials, of a paper, of an experiment or of all; oldest run first."""
    chosen = chosen if isinstance(chosen, RunFilter) else RunFilter(chosen)
    if trials:
        records = chosen.trials(store)
        return [trial_line(record) | {"varied": own} for record, own in zip(records, varied(records), strict=True)]
    return [run_line(run) for run in chosen.runs(store)]


def varied(records: Sequence[StoredTrial]) -> list[dict[str, Any]]:
    """Of each trial, the fields in which the listed trials of its experiment differ."""
    configs = [flat(record.config_dict) for record in records]
    seen: dict[str, dict[str, set[str]]] = {}
    for record, config in zip(records, configs, strict=True):
        values = seen.setdefault(record.experiment, {})
        for path, value in config.items():
            values.setdefault(path, set()).add(repr(value))
    return [
        {path: value for path, value in config.items() if len(seen[record.experiment][path]) > 1}
        for record, config in zip(records, configs, strict=True)
    ]


def runs_table(store: Store, wanted: RunFilter | str | None = None) -> None:
    """What commands have run, oldest first."""
    chosen = wanted if isinstance(wanted, RunFilter) else RunFilter(wanted)
    rows = runs_listing(store, chosen)
    table = new_table(
        "run", "experiment", "preset", "trials", "started (UTC)", "took", "command",
        right=("trials", "took"), wrap=("command",),
    )  # fmt: skip
    for row in rows:
        took = duration(row["seconds"]) if row["seconds"] is not None else "unfinished"
        table.add_row(
            *cells([row["id"], row["experiment"], row["preset"], len(row["trials"])]),
            *cells([moment(row["started"]), took, row["command"]]),
        )
    open_console().print(table if rows else Text(plain(f"no runs{_of(chosen)} in the store {store.root}")))
    asked = {digest for row in rows for digest in row["trials"]}
    _say_stale(record for record in store.glances(chosen.name) if record.digest in asked)
    _name_damaged(store)


def trials_table(store: Store, wanted: RunFilter | str | None = None) -> None:
    """What is stored, one line per trial, with the fields that vary among those of its experiment."""
    chosen = wanted if isinstance(wanted, RunFilter) else RunFilter(wanted)
    records = chosen.trials(store)
    columns = ("trial", "experiment", "arm", "seed", "status", "took", "device", "fields that vary")
    rows = [
        (
            *(record.digest, record.experiment, record.arm, record.seed, record.status),
            *(duration(seconds_of(record.run)), device_of(record.run), as_flags(own).strip()),
        )
        for record, own in zip(records, varied(records), strict=True)
    ]
    if not any(row[-1] for row in rows):
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    if rows:
        wrap = ("arm", "device", "fields that vary")
        print_table(open_console(), columns, rows, right=("seed", "took"), wrap=wrap)
    else:
        open_console().print(Text(plain(f"no trials{_of(chosen)} in the store {store.root}")))
    _say_stale(records)
    _name_damaged(store)


def _say_stale(records: Iterable[StoredTrial]) -> None:
    seen = 0

    def counted() -> Iterator[StoredTrial]:  # one by one: a store may hold many
        nonlocal seen
        for record in records:
            seen += 1
            yield record

    stale = count(counted())
    if stale:
        open_console().print(Text(words(stale, seen, "stairwise run --fresh runs them again")))


def _name_damaged(store: Store) -> None:
    """What lies in the store and is not believed."""
    console = open_console()
    for path, why in store.damaged(again=False):
        console.print(Text(plain(f"damaged, skipped: {path.relative_to(store.root)}: {why}")))


def _of(chosen: RunFilter) -> str:
    kind = " of this kind" if chosen != RunFilter(chosen.name) else ""
    return f"{kind} of {chosen.name}" if chosen.name else kind
