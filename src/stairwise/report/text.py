"""The tables that the command line prints. Nothing here imports JAX, and nothing a store holds is taken as markup."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from stairwise.lab.contract import KINDS, STATUSES, TIERS, Experiment, Paper
from stairwise.lab.record import StoredTrial
from stairwise.lab.store import Store, StoredRun
from stairwise.lab.verify import Row
from stairwise.report.listing import by_experiment, difference, finite, listing, run_data, runs_listing, trial_data
from stairwise.report.words import (
    counted,
    device_of,
    duration,
    flat,
    is_number,
    margin,
    moment,
    number,
    plain,
    required,
    seconds_of,
)

__all__ = ["diff", "ledger_table", "listing", "papers_table", "runs_listing", "runs_table", "show", "trials_table"]

STYLES = {
    "fails": "bold white on red",
    "not-reproduced": "bold yellow",
    "refuted": "bold magenta",
    "vacuous": "dim",
    "reported": "cyan",
    "holds": "green",
    "skipped": "dim",
}
UNBOUNDED = 100_000  # columns of a file or a pipe: nothing is cut or wrapped there


# --- printing ---------------------------------------------------------------------------------------------------------


def _console() -> Console:
    console = Console(markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = UNBOUNDED
    return console


def _table(*columns: str, right: Sequence[str] = (), wrap: Sequence[str] = ()) -> Table:
    """Columns keep their width, except those in `wrap`, which share what a terminal has left."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in columns:
        justify = "right" if name in right else "left"
        table.add_column(name, justify=justify, no_wrap=name not in wrap, overflow="fold")
    return table


def _cells(values: Iterable[Any], style: str = "") -> list[Text]:
    return [value if isinstance(value, Text) else Text(plain(value), style=style) for value in values]


def _heading(console: Console, text: str, after: str = "") -> None:
    console.print(Text(plain(text), style="bold") + Text(plain(after) and f"  {plain(after)}"))


def _pairs(console: Console, title: str, values: Mapping[str, Any]) -> None:
    """A group of named values; nothing where there are none."""
    if not values:
        return
    console.print()
    _heading(console, title)
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in values.items():
        grid.add_row(*_cells([f"  {plain(name)}", value]))
    console.print(grid)


def _json(data: Any) -> None:
    print(json.dumps(finite(data), indent=1, allow_nan=False, default=str))


# --- list -------------------------------------------------------------------------------------------------------------


def papers_table(papers: Sequence[Paper], store: Store) -> None:
    """For each paper: its experiments, what is stored of them and what that cost, and how many claims of what sort."""
    console, stored = _console(), by_experiment(store)
    for paper in papers:
        _heading(console, paper.id, f"{paper.title} ({paper.authors}; {paper.venue} {paper.year})")
        console.print(Text(plain(paper.summary), style="dim"))
        console.print()
        table = _table(
            "experiment", "arms x seeds", "stored", "cost", "figures", "what it runs", right=("stored", "cost"),
            wrap=("arms x seeds", "figures", "what it runs"),
        )  # fmt: skip
        for experiment in paper.experiments:
            table.add_row(*_cells(_experiment_cells(experiment, stored.get(experiment.name, []))))
        console.print(table)
        console.print()
        for name, order in (("tier", TIERS), ("kind", KINDS)):
            counts = counted([getattr(claim, name) for claim in paper.claims], order)
            said = ", ".join(f"{count} {what}" for what, count in counts.items())
            console.print(Text(f"{len(paper.claims)} claims by {name}: {said or 'none'}"))
        console.print()
    console.print(Text(f"store: {plain(store.root)}", style="dim"))


def _experiment_cells(experiment: Experiment, stored: Sequence[StoredTrial]) -> list[str]:
    presets = [f"{name} {len(preset.arms)}x{preset.seeds}" for name, preset in experiment.presets.items()]
    cost = sum(seconds_of(record.run) for record in stored)
    figures = " ".join(figure.id for figure in experiment.figures)
    spent = duration(cost) if stored else "-"
    return [experiment.name, ", ".join(presets), f"{len(stored)}", spent, figures, experiment.says]


# --- verify -----------------------------------------------------------------------------------------------------------


def ledger_table(rows: Sequence[Row], details: bool = False) -> None:
    """One line a claim, and under it what the verdict adds; a claim at several sizes has a table of its own."""
    console = _console()
    claims: dict[str, list[Row]] = {}
    for row in rows:
        claims.setdefault(row.claim.name, []).append(row)
    single = [group[0] for group in claims.values() if len(group) == 1]
    shared = _shared_notes(single)
    if single:
        console.print(_ledger(single, shared))
    for group in claims.values():
        if len(group) > 1:
            _margins(console, group)
    if details:
        _details(console, rows)
    for note, count in shared.items():
        console.print(Text(f"{count} skipped: {plain(note)}", style="dim"))
    counts = counted([row.verdict.status for row in rows], STATUSES)
    said = ", ".join(f"{status} {count}" for status, count in counts.items())
    console.print(Text(f"{len(claims)} claim{'s' if len(claims) != 1 else ''}: {said or 'none'}", style="bold"))


def _shared_notes(rows: Sequence[Row]) -> dict[str, int]:
    """Why claims were skipped, where several were for the same reason: said once, below the table."""
    notes = [row.verdict.note for row in rows if row.verdict.status == "skipped" and row.verdict.note]
    return {note: notes.count(note) for note in dict.fromkeys(notes) if notes.count(note) > 1}


def _ledger(rows: Sequence[Row], shared: Mapping[str, int]) -> Table:
    columns = ("status", "claim", "measured", "required", "margin", "seconds", "says")
    table = _table(*columns, right=("measured", "required", "margin", "seconds"), wrap=("says",))
    for row in rows:
        table.add_row(
            _status(row), *_cells([row.claim.name]), *_measured(row), *_cells([f"{row.seconds:.2f}", row.claim.says])
        )
        for line in _remarks(row, shared):
            table.add_row(*[""] * (len(columns) - 1), Text(f"  {line}", style="dim"))
    return table


def _status(row: Row) -> Text:
    return Text(row.verdict.status, style=STYLES[row.verdict.status])


def _measured(row: Row) -> list[Text]:
    verdict = row.verdict
    return _cells([number(verdict.measured), required(verdict), margin(verdict)])


def _remarks(row: Row, shared: Mapping[str, int]) -> list[str]:
    lines = []
    if row.changes:
        lines.append(f"at {_sizes(row.changes)}")
    lines += [f"hypothesis violated: {plain(hypothesis)}" for hypothesis in row.verdict.hypotheses]
    if row.verdict.note and row.verdict.note not in shared:
        lines.append(plain(row.verdict.note))
    return lines


def _sizes(changes: Mapping[str, Any]) -> str:
    return " ".join(f"{plain(path)}={plain(value)}" for path, value in changes.items())


def _margins(console: Console, group: Sequence[Row]) -> None:
    """A claim's margin against size."""
    axes = list(dict.fromkeys(path for row in group for path in row.changes))
    numbers = ("measured", "required", "margin", "seconds")
    table = _table(*axes, "status", *numbers, "remarks", right=(*axes, *numbers), wrap=("remarks",))
    for row in group:
        sizes = [row.changes.get(path, "default") for path in axes]
        remarks = [f"hypothesis violated: {text}" for text in row.verdict.hypotheses]
        remarks += [row.verdict.note] if row.verdict.note else []
        table.add_row(
            *_cells(sizes), _status(row), *_measured(row), *_cells([f"{row.seconds:.2f}", "; ".join(remarks)])
        )
    console.print()
    _heading(console, group[0].claim.name, group[0].claim.says)
    console.print(table)
    console.print()


def _details(console: Console, rows: Sequence[Row]) -> None:
    for row in rows:
        if row.verdict.details:
            console.print()
            _heading(console, row.claim.name, _sizes(row.changes))
            _rows(console, row.verdict.details)
            console.print()


def _rows(console: Console, rows: Sequence[Mapping[str, Any]]) -> None:
    """Flat dictionaries as a table, with the columns of all of them."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    table = _table(*map(plain, columns), wrap=tuple(map(plain, columns)))
    for row in rows:
        table.add_row(*_cells(_short(row.get(name, "")) for name in columns))
    console.print(table)


def _short(value: Any) -> Any:
    return number(value) if is_number(value) and isinstance(value, float) else value


# --- runs and trials --------------------------------------------------------------------------------------------------


def runs_table(store: Store, name: str | None = None) -> None:
    """What commands have run, oldest first."""
    rows = runs_listing(store, name)
    table = _table(
        "run", "experiment", "preset", "trials", "started (UTC)", "took", "command",
        right=("trials", "took"), wrap=("command",),
    )  # fmt: skip
    for row in rows:
        took = duration(row["seconds"]) if row["seconds"] is not None else "unfinished"
        table.add_row(
            *_cells([row["id"], row["experiment"], row["preset"], len(row["trials"])]),
            *_cells([moment(row["started"]), took, row["command"]]),
        )
    _print_or_say(table, rows, f"no runs{_of(name)} in the store {store.root}")


def trials_table(store: Store, name: str | None = None) -> None:
    """What is stored, one line a trial."""
    records = store.glance(name)
    table = _table(
        "trial", "experiment", "arm", "seed", "status", "took", "device", right=("seed", "took"), wrap=("arm", "device")
    )
    for record in records:
        table.add_row(
            *_cells([record.digest, record.experiment, record.arm, record.seed, record.status]),
            *_cells([duration(seconds_of(record.run)), device_of(record.run)]),
        )
    _print_or_say(table, records, f"no trials{_of(name)} in the store {store.root}")


def _of(name: str | None) -> str:
    return f" of {name}" if name else ""


def _print_or_say(table: Table, rows: Sequence[Any], otherwise: str) -> None:
    console = _console()
    console.print(table if rows else Text(plain(otherwise)))


def show(found: StoredTrial | StoredRun, store: Store, as_json: bool = False) -> None:
    """One trial: config, last measurements, arrays, how it was made. One run: its trials, and their measurements."""
    data = trial_data(found) if isinstance(found, StoredTrial) else run_data(found, _records(found, store))
    if as_json:
        _json(data)
    elif isinstance(found, StoredTrial):
        _show_trial(found, data)
    else:
        _show_run(found, data)


def _records(found: StoredTrial | StoredRun, store: Store) -> list[StoredTrial]:
    """The trial itself, or the run's trials that are stored."""
    if isinstance(found, StoredTrial):
        return [found]
    stored = {record.digest: record for record in store.glance(found.experiment)}
    return [stored[digest] for digest in found.trials if digest in stored]


def _show_trial(record: StoredTrial, data: Mapping[str, Any]) -> None:
    console = _console()
    arm = f"  arm {record.arm}" if record.arm else ""
    _heading(console, f"trial {record.digest}", f"{record.experiment}{arm}  seed {record.seed}")
    console.print(Text(plain(f"{record.status} {data['message']}")))
    _pairs(console, "config", flat(record.config_dict))
    _pairs(console, "starts from", record.needs)
    _pairs(console, "last measurements", {row["metric"]: number(row["median"], 6) for row in data["final"]})
    shapes = {name: f"{array['dtype']} {_shape(array['shape'])}" for name, array in data["arrays"].items()}
    _pairs(console, "arrays", shapes)
    timing = {"started": moment(data["started"]), "took": duration(data["seconds"])}
    _pairs(console, "made with", {**timing, **flat(data["provenance"])})


def _shape(sizes: Sequence[int]) -> str:
    return " x ".join(map(str, sizes)) or "scalar"


def _show_run(run: StoredRun, data: Mapping[str, Any]) -> None:
    console = _console()
    _heading(console, f"run {run.id}", f"{run.experiment}  preset {run.preset}")
    took = "unfinished" if run.seconds is None else duration(run.seconds)
    facts = {"command": run.command, "started": f"{moment(run.started)} UTC", "took": took}
    _pairs(console, "asked for", {**facts, **flat(data["changes"] if isinstance(data["changes"], Mapping) else {})})
    console.print()
    _heading(console, f"{len(run.trials)} trials")
    columns = ("digest", "arm", "seed", "status", "seconds")
    lines = [{name: row[name] for name in columns} for row in data["stored"]]
    _rows(console, [*lines, *({"digest": digest, "status": "not stored"} for digest in data["missing"])])
    if data["final"]:
        console.print()
        _heading(console, "last measurements over seeds")
        _rows(console, data["final"])


def diff(
    a: StoredTrial | StoredRun, b: StoredTrial | StoredRun, store: Store, as_json: bool = False
) -> None:  # fmt: skip
    """What differs between two trials or runs: config, last measurements side by side, how they were made."""
    data = difference(_records(a, store), _records(b, store))
    if as_json:
        _json(data)
        return
    console = _console()
    _heading(console, f"A  {_name(a)}")
    _heading(console, f"B  {_name(b)}")
    seeds = {"seed": {"a": data["seeds"][0], "b": data["seeds"][1]}}
    same_seeds = data["seeds"][0] == data["seeds"][1]
    _sides(console, "config", {**({} if same_seeds else seeds), **data["config"]})
    _finals(console, data["final"])
    spent = dict(zip("ab", map(duration, data["seconds"]), strict=True))
    _sides(console, "made with", {"took": spent, **data["provenance"]})


def _name(found: StoredTrial | StoredRun) -> str:
    if isinstance(found, StoredRun):
        return f"run {found.id} {found.experiment} preset {found.preset}"
    return f"trial {found.digest} {found.experiment} {found.arm} seed {found.seed}"


def _sides(console: Console, title: str, values: Mapping[str, Mapping[str, Any]]) -> None:
    console.print()
    if not values:
        _heading(console, f"{title}: the same")
        return
    _heading(console, f"{title}: what differs")
    table = _table("field", "A", "B", wrap=("A", "B"))
    for path, sides in values.items():
        table.add_row(*_cells([path, *("absent" if sides[k] is None else sides[k] for k in "ab")]))
    console.print(table)


def _finals(console: Console, rows: Sequence[Mapping[str, Any]]) -> None:
    if not rows:
        return
    arms = ["arm"] if any(row["arm"] for row in rows) else []
    table = _table(*arms, "metric", "A", "B", "B - A", right=("A", "B", "B - A"), wrap=("arm",))
    for row in rows:
        a, b = row["a"], row["b"]
        change = "-" if a is None or b is None else f"{b - a:+.4g}"
        table.add_row(*_cells([*(row[name] for name in arms), row["metric"], number(a), number(b), change]))
    console.print()
    _heading(console, "last measurements" + (", median over seeds" if arms else ""))
    console.print(table)
