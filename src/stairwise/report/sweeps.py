"""What `stairwise sweep`, `query` and `gc` print."""

import csv
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from stairwise.lab.board import label
from stairwise.lab.stale import words
from stairwise.lab.sweep import Sweep
from stairwise.lab.tidy import Litter
from stairwise.report.listing import finite
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
    """How the trials ended, the best of them, and those that failed or diverged with their messages."""
    best = result.best()
    if as_json:
        chosen = None if best is None else best.digest
        data = {"experiment": result.experiment.name, "statuses": dict(result.statuses), "best": chosen}
        print_json({**data, "stale": result.stale, "trials": result.rows(), "seconds": seconds})
        return
    counts = ", ".join(f"{count} {status}" for status, count in sorted(result.statuses.items()))
    print(f"{result.experiment.name}: {len(result.records)} trials ({counts}) in {duration(seconds)}")
    if result.stale:
        print(f"  {words(result.stale, len(result.records))}")
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
    rows = table.to_pylist()
    if form == "json":
        print_json(finite(rows))
    elif form == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(table.column_names)
        writer.writerows([row[name] for name in table.column_names] for row in rows)
    elif rows:
        print_rows(open_console(), rows)
    else:
        print(f"no rows (columns: {', '.join(table.column_names)})")


def litter(found: Sequence[Litter], root: Any) -> None:
    """What can go, and how much room it takes."""
    console = open_console()
    for each in found:
        heading(console, f"{each.bytes / 1e6:9.2f} MB", f"{each.path.relative_to(root)}: {each.why}")
    print(f"{len(found)} files or folders, {sum(each.bytes for each in found) / 1e6:.2f} MB")
