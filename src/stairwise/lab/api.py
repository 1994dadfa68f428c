"""What `import stairwise as sw` offers: run, verify, falsify, load. The command line calls the same functions."""

import io
import json
import os
import subprocess
import sys
import tempfile
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any, TypeGuard

from stairwise.config import Config, ConfigError, find_leaf, named, one_line, short
from stairwise.lab import own, registry
from stairwise.lab.contract.claims import Claim
from stairwise.lab.contract.experiment import Experiment, Figure, Trial
from stairwise.lab.contract.plots import STYLE, house_style
from stairwise.lab.contract.verdict import Verdict
from stairwise.lab.ledger.checking import checked
from stairwise.lab.ledger.falsify import LIMIT
from stairwise.lab.ledger.searching.findings import Falsification
from stairwise.lab.ledger.verify import LedgerRow
from stairwise.lab.ledger.verify import verify as verify_rows
from stairwise.lab.progress import Silent, for_people
from stairwise.lab.run import stale
from stairwise.lab.run.execute import execute
from stairwise.lab.run.grid import GridAxis
from stairwise.lab.run.plan import once
from stairwise.lab.run.settings import as_toml
from stairwise.lab.run.sharing import Shard
from stairwise.lab.run.sweep_progress import Objective
from stairwise.lab.store.entries import is_result
from stairwise.lab.store.files import StoreError, explained, replace_file
from stairwise.lab.store.finals import finals
from stairwise.lab.store.shown import shown
from stairwise.lab.store.store import Store
from stairwise.lab.store.trial import StoredTrial
from stairwise.lab.worker import in_worker

MOST_ROWS = 40  # of a table in a notebook


@dataclass(frozen=True)
class RunRequest:
    """What a run asks for, checked: made once, then previewed, shown or run."""

    experiment: Experiment
    preset: str
    changes: Mapping[str, Any]
    trials: Sequence[Trial]  # of the shard, where there is one
    asked: Sequence[Trial]  # of all shards
    shard: Shard | None = None
    group: int | None = None  # trials per program, where that was asked for
    figure_id: str | None = None
    axes: Sequence[GridAxis] = ()  # of a sweep
    settings: str = ""  # all of this as TOML, from which it can be asked for again

    @classmethod
    def of(
        cls,
        target: str | Experiment | Figure,
        preset: str = "quick",
        seeds: int | Sequence[int] | None = None,
        changes: Mapping[str, Any] | None = None,
        *,
        model: Any = None,
        shard: str | None = None,
        group: int | None = None,
    ) -> "RunRequest":
        experiment = registry.experiment(target)
        config = experiment.preset(preset).config
        changes = named(config, changes or {})
        told = as_toml(
            experiment.name, preset, experiment.seeds(preset, seed_list(seeds)), config, changes, model=model
        )
        if model is not None:
            experiment = own.with_model(experiment, model, changes)
        asked = experiment.trials(preset, seed_list(seeds), changes)
        part, trials = shard_of(shard, asked, group or experiment.preset(preset).group)
        figure = (
            target.id if isinstance(target, Figure) else target.partition("/")[2] if isinstance(target, str) else ""
        )
        known = figure in {each.id for each in experiment.figures}
        shown = figure if known else None
        return cls(experiment, preset, changes, trials, asked, part, group, shown, settings=told)

    @property
    def preset_group(self) -> int:
        return self.experiment.preset(self.preset).group


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
    scratch: Any = field(default=None, repr=False)  # where the trials lie that are in no store

    def __repr__(self) -> str:
        """A few lines for a terminal: what ran, how it ended, and what to call next."""
        return "\n".join([self._heading(), "  .records  .table()  .figure()  (stairwise.load_model takes one record)"])

    def _heading(self) -> str:
        arms, seeds = ({getattr(each, name) for each in self.records} for name in ("arm", "seed"))
        said = ", ".join(f"{count} {status}" for status, count in self.statuses.items()) or "no trials"
        counts = f"{_several(arms, 'arm')}, {_several(seeds, 'seed')}, {said}"
        return f"{type(self).__name__} of {self.experiment.name}: {counts}"

    def _repr_html_(self) -> str:
        """For a notebook: the last measurements over seeds as a table, and the figure where it can be drawn."""
        rows = finals(self.records, arms=True)
        columns = ("arm", "metric", "median", "lowest", "highest", "trials")
        head = "".join(f"<th>{name}</th>" for name in columns)
        body = "".join(f"<tr>{''.join(_cell(row[name]) for name in columns)}</tr>" for row in rows[:MOST_ROWS])
        more = f"<p>{len(rows) - MOST_ROWS} more rows: .table()</p>" if len(rows) > MOST_ROWS else ""
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}" if rows else ""
        return f"<p>{escape(self._heading())}</p>{table}{self._picture()}"

    def _picture(self) -> str:
        if not self.experiment.figures:
            return ""
        try:
            content = figure_bytes(self.figure(), ".png")
        except Exception:  # arms that are missing or changed; .figure() says which
            return ""
        return f'<img alt="{escape(self.experiment.name)}" src="data:image/png;base64,{b64encode(content).decode()}">'

    @property
    def stale(self) -> int:
        """How many of the trials were made by other code than there is now."""
        return stale.count(self.records, self.experiment)

    @property
    def statuses(self) -> Counter[str]:
        """How many trials ended in which way."""
        return Counter(record.status for record in self.records)

    def table(self, *, pandas: bool = False):
        """Every measurement in long form: experiment, digest, seed, arm, stage, step, name, value.

        It is a pyarrow table, or a pandas frame.
        """
        found = tables(self.records)
        return found.to_pandas() if pandas else found

    def best(self, metric: str | None = None, highest: bool = False) -> StoredTrial | None:
        """The trial with the lowest (or highest) last value of a metric, by default of the first that is a loss."""
        return Objective(metric, highest).best(self.records)

    def figure(self, id: str | None = None):
        """The experiment's figure (its first, or the one named) as a Matplotlib figure."""
        id = id or self.figure_id or (self.experiment.figures[0].id if self.experiment.figures else "")
        figure = registry.figure(f"{self.experiment.paper}/{id}")
        return draw(figure, self.records)


def _several(values: set[Any], what: str) -> str:
    """
    >>> _several({1, 2}, "seed"), _several({""}, "arm")
    ('2 seeds', '1 arm')
    """
    return f"{len(values)} {what}{'' if len(values) == 1 else 's'}"


def _cell(value: Any) -> str:
    """A cell of an HTML table.

    >>> _cell(0.123456), _cell("a < b")
    ('<td>0.1235</td>', '<td>a &lt; b</td>')
    """
    return f"<td>{f'{value:.4g}' if isinstance(value, float) else escape(str(value))}</td>"


def tables(records: Sequence[StoredTrial]):
    import pyarrow

    return pyarrow.concat_tables([record.table() for record in records])


def draw(figure: Figure, records: Sequence[StoredTrial], missing: int = 0):
    """Draw a figure from records, in the house style; where it shows only some of them, it says so in its corner."""
    found = f"{len(records)} of {len(records) + missing} trials"
    with house_style():
        try:
            drawn = figure.draw(list(records))
        except Exception as error:  # the drawing may need an arm that is not there
            if missing:
                raise ConfigError(f"{figure.id} cannot be drawn from {found} yet: {error}") from error
            if isinstance(error, StoreError) and any("published" in record.run for record in records):
                return _draw_from_arrays(figure, records)
            arms = list(dict.fromkeys(record.arm for record in records))
            if figure.paper not in registry.modules() or not registry.experiment(figure).lacks_arms(arms):
                raise
            said = f"it shows arms that have been changed into {'; '.join(arms)}"
            raise ConfigError(f"{figure.id} cannot be drawn: {said} ({type(error).__name__}: {error})") from error
        if missing:
            _in_corner(drawn, f"{found}; the others have not been run")
        return drawn


def _draw_from_arrays(figure: Figure, records: Sequence[StoredTrial]):
    """Draw from the trials whose arrays are published: often one seed per arm."""
    whole = [record for record in records if not record.bare()]
    if not 0 < len(whole) < len(records):
        command = f"stairwise figure {figure.paper}/{figure.id} --run"
        raise ConfigError(f"{figure.id} reads arrays that are not published ({command} makes them)")
    drawn = figure.draw(whole)
    _in_corner(drawn, f"{len(whole)} of {len(records)} trials; the others are published without their arrays")
    return drawn


def _in_corner(drawn: Any, words: str) -> None:
    drawn.legend([], [], title=words, title_fontsize=6, loc="outside lower right")


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
            _make_printable(figure)
            if suffix == ".svg":
                _lay_out_for_svg(figure)
            figure.savefig(buffer, format=suffix[1:], metadata=stamps.get(suffix))
    finally:
        plt.close(figure)
    return _few_colours(buffer) if suffix == ".png" else buffer.getvalue()


def _few_colours(drawn: io.BytesIO) -> bytes:
    """A PNG with a palette of 256 colours, which is a third of the size and looks the same."""
    from PIL import Image

    buffer = io.BytesIO()
    picture = Image.open(drawn).convert("RGB")
    few = picture.quantize(256, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    few.save(buffer, "png", optimize=True, dpi=(STYLE["savefig.dpi"],) * 2)
    return buffer.getvalue()


def _lay_out_for_svg(figure: Any) -> None:
    """Give everything its place; left to it, printing draws all of the figure once more for that."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    engine, dpi = figure.get_layout_engine(), figure.dpi
    if engine is None or matplotlib.rcParams["savefig.bbox"] is not None:
        return
    FigureCanvasSVG(figure)  # whose measures of texts are those that count
    figure.dpi = 72
    engine.execute(figure)
    figure.dpi = dpi
    with matplotlib.rc_context({"figure.constrained_layout.use": False, "figure.autolayout": False}):
        figure.set_layout_engine(None)


def _make_printable(figure: Any) -> None:
    """Take control codes out of a figure's words: no font has them, and no reader of SVG takes them."""
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        lines = text.get_text().split("\n")
        if not all(map(str.isprintable, lines)):
            text.set_text("\n".join(map(one_line, lines)))


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
    model: Any = None,
    store: Store | str | None = None,
    group: int | None = None,
    shard: str | None = None,
    fresh: bool = False,
    progress: Silent | None = None,
    command: str | None = None,
    chunk: int | None = None,
    save_every: float = 10.0,
    **fields: Any,
) -> Result:
    """Run an experiment (or the one that owns a figure): every arm of the preset at every seed, stored one by one.

    Fields of the config are set by keyword (`task__length=30`) or by dotted path in `changes`; `seeds` is how many, or
    which. What the store has is not run again,
    unless `fresh` is set and other code has made it: the old trial then stays until the new one is complete. What
    another process is running is left to it. `shard="2/3"` runs the second third of the trials.

    `model`, a function of (sizes, key) or "module:name" of one, makes the model that is trained in the place of the
    experiment's own (see `train.own`). One that cannot be imported is run as well, and not stored.
    """
    changes = {**(changes or {}), **{path.replace("__", "."): value for path, value in fields.items()}}
    request = RunRequest.of(target, preset, seeds, changes, model=model, shard=shard, group=group)
    said = "" if model is None else f", model={model!r}"
    call = f"sw.run({request.experiment.name!r}, {preset!r}, seeds={seeds!r}, changes={request.changes!r}{said})"
    chosen = {"fresh": fresh, "progress": progress or for_people(), "chunk": chunk, "save_every": save_every}
    result = perform(request, command or call, store=store, **chosen)
    if command is None:  # a command prints it with its results
        stale.warn(result.stale, len(result.records), "fresh=True runs them again")
    return result


def perform(
    request: RunRequest,
    command: str,
    *,
    store: Store | str | None = None,
    fresh: bool = False,
    progress: Silent | None = None,
    **options: Any,
) -> Result:
    """Run what a request asks for and the store does not have; `command` is what asked for it, for the record."""
    experiment, trials, scratch = request.experiment, request.trials, None
    if not own.is_named(experiment):
        scratch = tempfile.TemporaryDirectory(prefix="stairwise-")
        store = Store.open(scratch.name)
    store = store if isinstance(store, Store) else Store.open(store)
    record = {
        "experiment": experiment.name,
        "preset": request.preset,
        "command": command,
        "changes": {path: str(value) for path, value in request.changes.items()},
        "settings": request.settings,
        "trials": [trial.digest for trial in trials],
    }

    def good(found: StoredTrial | None) -> TypeGuard[StoredTrial]:
        return is_result(found) and not (fresh and stale.is_stale(found, experiment))

    def work(stop):
        settled = once(stale.made_now(store) if fresh else store.has, there)
        common = {"settled": settled, "progress": progress, "stop": stop, **options}
        return execute(trials, store, preset_group=request.preset_group, width=request.group, **common)

    ran = (0, 0)
    there = {trial.digest: found for trial in trials if good(found := store.peek(trial))}
    missing = len(there) < len(trials)
    if missing or store.unfinished(record):
        with store.recorded(record):
            if missing:
                ran = in_worker(work)
    share = Share(*ran, request.shard, len(request.asked), count_left(request.asked, trials, store.has))
    records = [there[trial.digest].of(trial) if trial.digest in there else store.read(trial) for trial in trials]
    return Result(experiment, records, request.figure_id, share, scratch)


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
) -> LedgerRow | list[LedgerRow]:
    """Check a claim ("selection/thm3.1") or a paper's ledger ("selection"); sizes as keywords, `task__length=8`.

    A claim gives one row (several when a size is a list), a paper a list of rows. `run` runs the trials that are
    missing; `fresh` checks again what has a verdict, and with `run` runs trials again that other code has made.
    """
    changes = {path.replace("__", "."): value for path, value in sizes.items()}
    opened = store if isinstance(store, Store) else Store.open(store)
    asked = {"run": run, "fresh": fresh, "store": opened}
    rows = in_worker(lambda stop: list(verify_rows([target], changes, **asked, stop=stop)))
    return rows[0] if "/" in target and len(rows) == 1 else rows


@dataclass(frozen=True)
class NoSizes(Config):
    """The config of a check that has no sizes."""


def check(
    function: Callable[..., Any],
    *configs: Config,
    seeds: int = 1,
    hypotheses: Mapping[str, Callable[[Any], Any]] | None = None,
) -> Verdict:
    """Check a statement of your own: a function of (config, seed) that yields `equal`, `at_most` and the like.

    They and `Config` are in `stairwise.paper`; without configs the function is asked once. JAX computes in float64.
    """
    if not callable(function):
        raise ConfigError(f"{short(function)} must be a function of (config, seed) that yields comparisons (sw.check)")
    claim = Claim(
        id=getattr(function, "__name__", "check"),
        says=(getattr(function, "__doc__", None) or "").strip().partition("\n")[0],
        kind="bound",
        statement=("yours",),
        of=(function,),
        check=function,
        cases=configs or (NoSizes(),),
        hypotheses=hypotheses,
        seeds=seeds,
    )
    return in_worker(lambda stop: checked(claim, {}, range(seeds))[0])


def falsify(
    target: str,
    *,
    minutes: float = 5.0,
    drop: str | None = None,
    jobs: int = 1,
    limit: float = LIMIT,
    points: int | None = None,
    seed: int = 0,
    store: Store | str | None = None,
    fresh: bool = False,
) -> Falsification:
    """Search for a counterexample to a claim ("paper/claim"), inside its hypotheses and with each of them dropped.

    `drop` searches only where this hypothesis is broken, or, if empty, only inside all of them; `limit` is how many
    seconds a point may take, `points` after how many of them a search ends at the latest. What the store has of the
    same search is taken up again, unless `fresh`. The command `stairwise falsify` does it, in a process of its own: one
    that has used JAX cannot be forked.
    """
    registry.claims([target])
    root = (store if isinstance(store, Store) else Store.open(store, create=False)).root
    given = {"minutes": minutes, "drop": drop, "jobs": jobs, "limit": limit, "points": points}
    given |= {"seed": seed, "store": root}
    words = [f"--{name}={value}" for name, value in given.items() if value is not None]
    command = [sys.executable, "-m", "stairwise", "falsify", target, *words, *(["--fresh"] if fresh else []), "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 1) or not done.stdout:
        raise ConfigError(done.stderr.strip().removeprefix("stairwise: ") or f"{target}: the search was ended")
    return Falsification.from_dict(json.loads(done.stdout))


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
    if target is not None and not isinstance(target, str):
        raise ConfigError(f"{short(target)} must be the name of a paper or an experiment, for example 'selection'")
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
