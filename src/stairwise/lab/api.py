"""What `import stairwise as sw` offers: run, verify, load, fit. The command line calls the same functions."""

import io
import os
from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stairwise.lab import registry, stale
from stairwise.lab.config import Config, ConfigError, find_leaf, named
from stairwise.lab.contract import Experiment, Figure, Outcome, Stage, Trial
from stairwise.lab.execute import execute
from stairwise.lab.files import explained, replace_file
from stairwise.lab.plots import house_style
from stairwise.lab.progress import Silent
from stairwise.lab.record import StoredTrial
from stairwise.lab.sharing import Shard
from stairwise.lab.shown import shown
from stairwise.lab.store import Store
from stairwise.lab.verify import Row
from stairwise.lab.verify import verify as verify_rows
from stairwise.lab.worker import in_worker


@dataclass(frozen=True)
class Share:
    """Who did what: the trials that this process ran, that others ran meanwhile, and what other shards have to do."""

    here: int = 0
    meanwhile: int = 0
    shard: Shard | None = None
    asked: int = 0
    left: int = 0

    def as_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = {"run here": self.here, "run by other processes meanwhile": self.meanwhile}
        if self.shard is not None:
            found |= {"shard": str(self.shard), "trials of all shards": self.asked, "left to other shards": self.left}
        return found


@dataclass(frozen=True)
class Result:
    """The stored trials that a run asked for."""

    experiment: Experiment
    records: list[StoredTrial]
    figure_id: str | None = None
    share: Share = field(default_factory=Share)

    @property
    def stale(self) -> int:
        """How many of the trials were made by other code than there is now."""
        return stale.count(self.records, self.experiment)

    def table(self):
        """Every measurement in long form (a pyarrow table: experiment, digest, seed, arm, stage, step, name, value)."""
        return tables(self.records)

    def figure(self, id: str | None = None):
        """The experiment's figure (its first, or the one named) as a Matplotlib figure."""
        id = id or self.figure_id or (self.experiment.figures[0].id if self.experiment.figures else "")
        figure = registry.figure(f"{self.experiment.paper}/{id}")
        return draw(figure, self.records)


def tables(records: Sequence[StoredTrial]):
    import pyarrow

    return pyarrow.concat_tables([record.table() for record in records])


def draw(figure: Figure, records: Sequence[StoredTrial], missing: int = 0):
    """Draw a figure from records, in the house style; where some are missing, it says so in its corner."""
    found = f"{len(records)} of {len(records) + missing} trials"
    with house_style():
        try:
            drawn = figure.draw(list(records))
        except Exception as error:  # the drawing may need an arm that is not there
            if missing:
                raise ConfigError(f"{figure.id} cannot be drawn from {found} yet: {error}") from error
            arms = list(dict.fromkeys(record.arm for record in records))
            if figure.paper not in registry.modules() or not registry.experiment(figure).lacks_arms(arms):
                raise
            said = f"it shows arms that have been changed into {'; '.join(arms)}"
            raise ConfigError(f"{figure.id} cannot be drawn: {said} ({type(error).__name__}: {error})") from error
        if missing:
            words = f"{found}; the others have not been run"
            drawn.legend([], [], title=words, title_fontsize=6, loc="outside lower right")
        return drawn


def save_figure(figure: Any, path: Path) -> None:
    """Write a figure to a file, whole or not at all; the same figure gives the same bytes."""
    data = figure_bytes(figure, path.suffix)
    with explained(f"write {path}"):
        replace_file(Path(os.path.realpath(path)), data)


def figure_bytes(figure: Any, suffix: str) -> bytes:
    """A figure as the content of a file with this ending; the figure is closed."""
    import matplotlib.pyplot as plt

    stamps = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}}
    buffer = io.BytesIO()
    try:
        with house_style():
            figure.savefig(buffer, format=suffix[1:], metadata=stamps.get(suffix))
    finally:
        plt.close(figure)
    return buffer.getvalue()


def seed_list(seeds: int | Sequence[int] | None) -> Sequence[int] | None:
    if seeds is None:
        return None
    if isinstance(seeds, int):
        if not 1 <= seeds <= 10**6:
            raise ConfigError(f"seeds={seeds} must lie in 1..1000000")
        return range(seeds)
    return list(seeds)


def run(
    target: str | Experiment | Figure,
    preset: str = "quick",
    seeds: int | Sequence[int] | None = None,
    changes: Mapping[str, Any] | None = None,
    *,
    store: Store | str | None = None,
    group: int | None = None,
    shard: str | None = None,
    fresh: bool = False,
    progress: Silent | None = None,
    command: str | None = None,
    **options: Any,
) -> Result:
    """Run an experiment (or the one that owns a figure): every arm of the preset at every seed, stored one by one.

    `changes` sets config fields by dotted path; `seeds` is how many, or which. What the store has is not run again,
    unless `fresh` is set and other code has made it: the old trial then stays until the new one is complete. What
    another process is running is left to it. `shard="2/3"` runs the second third of the trials.
    """
    experiment = registry.experiment(target)
    changes = named(experiment.preset(preset).config, changes or {})
    asked = experiment.trials(preset, seed_list(seeds), changes)
    part, trials = shard_of(shard, asked, group or experiment.preset(preset).group)
    store = store if isinstance(store, Store) else Store.open(store)
    call = f"sw.run({experiment.name!r}, {preset!r}, seeds={seeds!r}, changes={changes!r})"
    settled = stale.made_now(store) if fresh else store.has
    record = {
        "experiment": experiment.name,
        "preset": preset,
        "command": command or call,
        "changes": {path: str(value) for path, value in changes.items()},
        "trials": [trial.digest for trial in trials],
    }

    def work(stop):
        width = experiment.preset(preset).group
        common = {"settled": settled, "progress": progress, "stop": stop, **options}
        return execute(trials, store, preset_group=width, width=group, **common)

    ran = (0, 0)
    missing = [trial for trial in trials if not settled(trial)]
    if missing or store.unfinished(record):
        with store.recorded(record):
            if missing:
                ran = in_worker(work)
    figure_id = target.id if isinstance(target, Figure) else None
    if isinstance(target, str) and target.partition("/")[2] in {figure.id for figure in experiment.figures}:
        figure_id = target.partition("/")[2]
    share = Share(*ran, part, len(asked), count_left(asked, trials, store.has))
    result = Result(experiment, [store.read(trial) for trial in trials], figure_id, share)
    if command is None:  # a command prints it with its results
        stale.warn(result.stale, len(trials), "fresh=True runs them again")
    return result


def shard_of(shard: str | None, trials: Sequence[Trial], group: int) -> tuple[Shard | None, Sequence[Trial]]:
    """The shard that a text means, and its part of the trials; all of them where there is none."""
    part = None if shard is None else Shard.parse(shard)
    return part, trials if part is None else part.trials(trials, group)


def count_left(asked: Sequence[Trial], own: Sequence[Trial], settled: Callable[[Trial], bool]) -> int:
    """How many trials of other shards are still to run."""
    done = {trial.digest for trial in own}
    return sum(trial.digest not in done and not settled(trial) for trial in asked)


def verify(
    target: str, *, store: Store | str | None = None, run: bool = False, fresh: bool = False, **sizes: Any
) -> Row | list[Row]:
    """Check a claim ("selection/thm3.1") or a paper's ledger ("selection"); sizes as keywords, `task__length=8`.

    A claim gives one row (several when a size is a list), a paper a list of rows. `run` runs the trials that are
    missing; `fresh` checks again what has a verdict, and with `run` runs trials again that other code has made.
    """
    changes = {path.replace("__", "."): value for path, value in sizes.items()}
    opened = store if isinstance(store, Store) else Store.open(store)
    asked = {"run": run, "fresh": fresh, "store": opened}
    rows = in_worker(lambda stop: list(verify_rows([target], changes, **asked, stop=stop)))
    return rows[0] if "/" in target and len(rows) == 1 else rows


def load(
    target: str | None = None,
    *,
    fields: Sequence[str] = (),
    pandas: bool = False,
    store: Store | str | None = None,
):
    """Every stored measurement of a paper or an experiment in one long-form table: pyarrow's, or a pandas frame.

    `fields` adds columns of the config ("learning_rate", "task.length") and of the trial ("status", "message", and
    "stale": whether other code has made it than there is now).
    """
    opened = store if isinstance(store, Store) else Store.open(store, create=False)
    records = [shown(record) for record in opened.trials(target)]
    if not records:
        raise ConfigError(f"the store {opened.root} holds no trials of {target or 'any paper'}")
    stale.warn(stale.count(records), len(records), "sw.run(..., fresh=True) runs them again")
    table = tables(records)
    for path in fields:
        table = table.append_column(path, _column(path, records))
    return table.to_pandas() if pandas else table


def _column(path: str, records: Sequence[StoredTrial]):
    """A trial's value of a field, once for each of its measurements."""
    import pyarrow

    values = [value for record in records for value in [_field(record, path)] * record.table().num_rows]
    return pyarrow.array(values)


def _field(record: StoredTrial, path: str) -> Any:
    if path in ("status", "message"):
        return record.run[path]
    if path == "stale":
        return stale.is_stale(record)
    place: Any = record.config_dict
    if isinstance(record.config, Config):
        leaf = find_leaf(record.config, path)
        path = path if leaf is None else leaf.path
    for name in path.replace("-", "_").split("."):
        if not isinstance(place, dict) or name not in place:
            raise ConfigError(f"trial {record.digest} of {record.experiment} has no field {path}")
        place = place[name]
    return place


def load_model(trial: StoredTrial | str, *, store: Store | str | None = None) -> Any:
    """The trained model of a stored trial (a record, or a prefix of its digest)."""
    if isinstance(trial, str):
        found = (store if isinstance(store, Store) else Store.open(store, create=False)).find(trial)
        if not isinstance(found, StoredTrial):
            raise ConfigError(f"{trial} is a run of several trials, not a trial")
        trial = found
    experiment = registry.experiment(trial.experiment)
    if experiment.model is None:
        raise ConfigError(f"{experiment.name} stores no model")
    if trial.status in ("diverged", "failed"):
        raise ConfigError(f"trial {trial.digest} has no model: it {trial.status} ({trial.run['message']})")
    typed = trial.typed(experiment)
    if typed is None:
        raise ConfigError(f"trial {trial.digest} was made by another version of {experiment.name}")
    try:
        return experiment.model(typed.config, {name: trial.array(name) for name in trial.arrays()})
    except KeyError as error:
        raise ConfigError(f"trial {trial.digest} ({trial.status}) has no model: it keeps no {error}") from None


def fit(
    stages: Stage | Sequence[Stage], seeds: int | Sequence[int] = 1, *, group: int = 1, **numbers: Any
) -> list[Outcome]:
    """Run your own stages once a seed, in memory; `group` seeds at a time share one vmapped program.

    Stages find the numbers as fields of `trial.config`; one given as a list has one value per seed.
    """
    from stairwise.train.loop import Member, Program

    stages = [stages] if isinstance(stages, Stage) else list(stages)
    chosen = list(seed_list(seeds) or [])
    columns = {
        name: value if isinstance(value, (list, tuple)) else [value] * len(chosen) for name, value in numbers.items()
    }
    for name, column in columns.items():
        if len(column) != len(chosen):
            raise ConfigError(f"{name} has {len(column)} values and there are {len(chosen)} seeds")
    numbers_of = namedtuple("numbers_of", columns)  # type: ignore[misc]  a pytree with these fields
    members = [Member(seed, numbers_of(*(c[i] for c in columns.values()))) for i, seed in enumerate(chosen)]

    def work(stop):
        program = Program(stages, group)
        return [outcome for i in range(0, len(members), group) for outcome in program.run(members[i : i + group])]

    return in_worker(work)
