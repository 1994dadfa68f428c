"""What `stairwise sweep`, `query` and `gc` print."""

import csv
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.text import Text

from stairwise.lab.board import label
from stairwise.lab.config import ConfigError
from stairwise.lab.stale import words
from stairwise.lab.sweep import Sweep
from stairwise.lab.tidy import Litter
from stairwise.report.summary import shared
from stairwise.report.terminal import heading, open_console, print_json, print_rows
from stairwise.report.words import duration, number, plain

MOST_BAD = 20
MOST_NAMES = 12


def plan(found: Mapping[str, Any], script: str | None, *, as_json: bool) -> None:
    """The plan of a sweep, and the job script where there is one."""
    if as_json:
        print_json({**found, **({} if script is None else {"job script": script})})
        return
    for name, value in found.items():
        if name == "grid":
            for path, values in value.items():
                print(f"{'grid ' + path:34} {_values(values)}")
        else:
            print(f"{name:34} {'unknown' if value is None else value}")
    if script is not None:
        print(f"\njob script:\n{script}")


def _values(values: Sequence[Any]) -> str:
    shown = [str(value) for value in (values if len(values) <= 12 else [*values[:6], "...", *values[-3:]])]
    return f"{', '.join(shown)}  ({len(values)})"


def summary(result: Sweep, seconds: float, *, as_json: bool) -> None:
    """How the trials ended, the best of them, and those that failed or were lost to a NaN with their messages."""
    best = result.best()
    if as_json:
        chosen = None if best is None else best.digest
        data = {"experiment": result.experiment.name, "statuses": dict(result.statuses), "best": chosen}
        found = {**data, "stale": result.stale, "trials": result.rows(), "seconds": seconds}
        print_json(found | result.share.as_dict())
        return
    counts = ", ".join(f"{count} {status}" for status, count in sorted(result.statuses.items()))
    print(f"{result.experiment.name}: {len(result.records)} trials ({counts}) in {duration(seconds)}")
    if result.stale:
        print(f"  {words(result.stale, len(result.records))}")
    for line in shared(result.share, len(result.records)):
        print(f"  {line}")
    if best is not None:
        found = result.aim.of({name: best.final(name) for name in best.names()})
        assert found is not None
        where = plain(label(best, result.axes))
        print(f"  best {found[0]} {number(found[1])}: {where}  (stairwise show {best.digest})")
    elif result.aim.metric and result.records:
        known = sorted({name for record in result.records for name in record.names()})
        print(f"  best {result.aim.metric}: no trial has it (they have {', '.join(known[:MOST_NAMES])})")
    for record in result.bad[:MOST_BAD]:
        print(f"  {record.status}: {plain(label(record, result.axes))}: {plain(record.run.get('message', ''))}")
    if len(result.bad) > MOST_BAD:
        print(f"  and {len(result.bad) - MOST_BAD} more: stairwise runs {result.experiment.name} --status failed")
    if result.statuses["failed"]:
        print("  --retry-failed runs those that failed again")


def answer(table: Any, form: str) -> None:
    """A query's result as a table, as CSV or as JSON."""
    columns = {name: _shown(name, table[name]) for name in table.column_names}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    if form == "json":
        print_json(rows)
    elif form == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(table.column_names)
        writer.writerows([row[name] for name in table.column_names] for row in rows)
    elif rows:
        print_rows(open_console(), rows)
    else:
        print(f"no rows (columns: {', '.join(table.column_names)})")


def _shown(name: str, column: Any) -> list[Any]:
    try:
        return column.to_pylist()
    except (OverflowError, ValueError):  # Python's dates end with the year 9999
        raise ConfigError(f'query: column {name} has a time that cannot be shown; "{name}"::varchar can') from None


def litter(found: Sequence[Litter], foreign: Sequence[Path], root: Path) -> None:
    """What can go, and how much room it takes; what is not the store's, and stays."""
    console = open_console()
    for each in found:
        heading(console, f"{each.bytes / 1e6:9.2f} MB", f"{each.path.relative_to(root)}: {each.why}")
    for path in foreign:
        console.print(Text(plain(f"{path.relative_to(root)}: not a checkpoint, left alone")))
    print(f"{len(found)} files or folders, {sum(each.bytes for each in found) / 1e6:.2f} MB")
