"""What `stairwise runs`, `show` and `diff` print of the store. Imports no JAX."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from rich.console import Console
from rich.text import Text

from stairwise.lab.files import StoreError
from stairwise.lab.record import StoredTrial
from stairwise.lab.shown import shown
from stairwise.lab.stale import count, words
from stairwise.lab.store import Store, StoredRun
from stairwise.report.listing import Filter, difference, run_data, runs_listing, trial_data
from stairwise.report.terminal import (
    cells,
    heading,
    new_table,
    open_console,
    print_json,
    print_pairs,
    print_rows,
    print_table,
)
from stairwise.report.words import device_of, duration, flat, moment, number, plain, seconds_of


def runs_table(store: Store, wanted: Filter | str | None = None) -> None:
    """What commands have run, oldest first."""
    chosen = wanted if isinstance(wanted, Filter) else Filter(wanted)
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


def trials_table(store: Store, wanted: Filter | str | None = None) -> None:
    """What is stored, one line a trial."""
    chosen = wanted if isinstance(wanted, Filter) else Filter(wanted)
    records = chosen.trials(store)
    columns = ("trial", "experiment", "arm", "seed", "status", "took", "device")
    rows = [
        (
            *(record.digest, record.experiment, record.arm, record.seed, record.status),
            *(duration(seconds_of(record.run)), device_of(record.run)),
        )
        for record in records
    ]
    if rows:
        print_table(open_console(), columns, rows, right=("seed", "took"), wrap=("arm", "device"))
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


def _of(chosen: Filter) -> str:
    kind = " of this kind" if chosen != Filter(chosen.name) else ""
    return f"{kind} of {chosen.name}" if chosen.name else kind


def show(found: StoredTrial | StoredRun, store: Store, as_json: bool = False) -> None:
    """One trial: config, last measurements, arrays, how it was made. One run: its trials, and their measurements."""
    found = shown(found) if isinstance(found, StoredTrial) else found
    data = trial_data(found) if isinstance(found, StoredTrial) else run_data(found, _records(found, store))
    if as_json:
        print_json(data)
    elif isinstance(found, StoredTrial):
        _show_trial(found, data)
    else:
        _show_run(found, data)


def _records(found: StoredTrial | StoredRun, store: Store) -> list[StoredTrial]:
    """The trial itself, or the run's trials that are stored and undamaged."""
    if isinstance(found, StoredTrial):
        return [shown(found)]
    records = []
    for digest in found.trials:
        with suppress(StoreError):
            records.append(shown(store.read(digest)))
    return records


def _show_trial(record: StoredTrial, data: Mapping[str, Any]) -> None:
    console = open_console()
    arm = f"  arm {record.arm}" if record.arm else ""
    heading(console, f"trial {record.digest}", f"{record.experiment}{arm}  seed {record.seed}")
    console.print(Text(plain(f"{record.status} {data['message']}")))
    if data["stale"]:
        console.print("made by other code than there is now")
    print_pairs(console, "config", flat(record.config_dict))
    print_pairs(console, "starts from", record.needs)
    print_pairs(console, "last measurements", {row["metric"]: number(row["median"], 6) for row in data["final"]})
    shapes = {name: f"{array['dtype']} {_shape(array['shape'])}" for name, array in data["arrays"].items()}
    print_pairs(console, "arrays", shapes)
    timing = {"started": moment(data["started"]), "took": duration(data["seconds"])}
    print_pairs(console, "made with", {**timing, **flat(data["provenance"])})


def _shape(sizes: Sequence[int]) -> str:
    return " x ".join(map(str, sizes)) or "scalar"


def _show_run(run: StoredRun, data: Mapping[str, Any]) -> None:
    console = open_console()
    heading(console, f"run {run.id}", f"{run.experiment}  preset {run.preset}")
    took = "unfinished" if run.seconds is None else duration(run.seconds)
    facts = {"command": run.command, "started": moment(run.started), "took": took}
    print_pairs(console, "asked for", {**facts, **{f"--{path}": value for path, value in data["changes"].items()}})
    console.print()
    heading(console, f"{len(run.trials)} trials")
    columns = ("digest", "arm", "seed", "status", "seconds")
    lines = [{name: row[name] for name in columns} for row in data["stored"]]
    print_rows(console, [*lines, *({"digest": digest, "status": "not stored"} for digest in data["missing"])])
    if data["final"]:
        console.print()
        heading(console, "last measurements over seeds")
        print_rows(console, data["final"])


def diff(a: StoredTrial | StoredRun, b: StoredTrial | StoredRun, store: Store, as_json: bool = False) -> None:
    """What differs between two trials or runs: config, last measurements side by side, how they were made."""
    data = difference(_records(a, store), _records(b, store))
    if as_json:
        print_json(data)
        return
    console = open_console()
    heading(console, f"A  {_name(a)}")
    heading(console, f"B  {_name(b)}")
    seeds = {"seed": {"a": data["seeds"][0], "b": data["seeds"][1]}}
    same_seeds = data["seeds"][0] == data["seeds"][1]
    _sides(console, "config", {**({} if same_seeds else seeds), **data["config"]})
    _finals(console, data["final"])
    spent = dict(zip("ab", map(duration, data["seconds"]), strict=True))
    _sides(console, "made with", {"took": spent, **data["provenance"]})


def _name(found: StoredTrial | StoredRun) -> str:
    if isinstance(found, StoredRun):
        return f"run {found.id} {found.experiment} preset {found.preset}"
    return f"trial {found.digest} {found.experiment} {shown(found).arm} seed {found.seed}"


def _sides(console: Console, title: str, values: Mapping[str, Mapping[str, Any]]) -> None:
    console.print()
    if not values:
        heading(console, f"{title}: the same")
        return
    heading(console, f"{title}: what differs")
    table = new_table("field", "A", "B", wrap=("A", "B"))
    for path, sides in values.items():
        table.add_row(*cells([path, *("absent" if sides[k] is None else sides[k] for k in "ab")]))
    console.print(table)


def _finals(console: Console, rows: Sequence[Mapping[str, Any]]) -> None:
    if not rows:
        return
    arms = ["arm"] if any(row["arm"] for row in rows) else []
    table = new_table(*arms, "metric", "A", "B", "B - A", right=("A", "B", "B - A"), wrap=("arm",))
    for row in rows:
        a, b = row["a"], row["b"]
        change = "-" if a is None or b is None else f"{b - a:+.4g}"
        table.add_row(*cells([*(row[name] for name in arms), row["metric"], number(a), number(b), change]))
    console.print()
    heading(console, "last measurements" + (", median over seeds" if arms else ""))
    console.print(table)
