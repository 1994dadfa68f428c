"""`stairwise diff`: what differs between two trials or runs. Imports no JAX."""

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from stairwise.commands import flags
from stairwise.commands.stored import opened, provenance, records_of
from stairwise.lab.store.finals import finals
from stairwise.lab.store.shown import shown
from stairwise.lab.store.store import Store, StoredRun
from stairwise.lab.store.trial import StoredTrial
from stairwise.terminal import cells, heading, new_table, open_console, print_json
from stairwise.words import duration, flat, number, seconds_of


def add_flags(command: argparse.ArgumentParser) -> None:
    flags.add_json(command)
    flags.add_published(command)
    command.add_argument("a", metavar="A", help="the id of a run or the digest of a trial, or its beginning")
    command.add_argument("b", metavar="B", help="the same of the other one")


def act(options, fields) -> int:
    store = opened(options.store)
    diff(store.find(options.a), store.find(options.b), store, as_json=options.json)
    return 0


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


def diff(a: StoredTrial | StoredRun, b: StoredTrial | StoredRun, store: Store, as_json: bool = False) -> None:
    """What differs between two trials or runs: config, last measurements side by side, how they were made."""
    data = difference(records_of(a, store), records_of(b, store))
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
