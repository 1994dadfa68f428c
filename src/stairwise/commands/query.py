"""`stairwise query`: SQL over the store."""

import argparse
import csv
import sys
from typing import Any

from stairwise.commands import flags
from stairwise.commands.stored import opened
from stairwise.config import ConfigError
from stairwise.lab.progress import for_terminal
from stairwise.lab.run import stale
from stairwise.lab.store.query import query
from stairwise.terminal import open_console, print_json, print_rows


def add_flags(command: argparse.ArgumentParser) -> None:
    flags.add_json(command)
    flags.add_published(command)
    command.add_argument("sql", metavar="SQL", help="for example: select status, count(*) from trials group by status")
    command.add_argument("--csv", action="store_true", help="print CSV")


def act(options, fields) -> int:
    if options.json and options.csv:
        raise ConfigError("json and csv exclude each other")
    made_by: list[Any] = []
    found = query(opened(options.store), options.sql, for_terminal(), made_by)
    answer(found, "json" if options.json else "csv" if options.csv else "table")
    stale.warn(*stale.of_counts(made_by), "stairwise run --fresh runs them again")
    return 0


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
