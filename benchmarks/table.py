"""Rows for people: a line as each comes, and the table at the end."""

import statistics
import sys

from benchmarks.row import Row
from benchmarks.run import Findings
from stairwise.terminal import cells, new_table, open_console

COLUMNS = ("work", "unit", "Stairwise, ms", "eager, ms", "times", "compiled, ms", "times", "agree to")


def brief(value: float) -> str:
    """Three digits, and whole numbers above them.

    >>> brief(0.12345), brief(1234.5)
    ('0.123', '1234')
    """
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


def milliseconds(values: tuple[float, ...]) -> str:
    """Median and range.

    >>> milliseconds((0.5, 0.25, 1.0))
    '0.5 [0.25, 1]'
    """
    if not values:
        return "-"
    return f"{brief(statistics.median(values))} [{brief(min(values))}, {brief(max(values))}]"


def times(row: Row, side: str) -> str:
    """How many times faster ours is: median and range.

    >>> times(Row("a", "b", ours=(1.0, 1.0), eager=(2.0, 4.0)), "eager")
    '3x [2, 4]'
    """
    found = row.ratio(side)
    return f"{brief(found[1])}x [{brief(found[0])}, {brief(found[2])}]" if found else "-"


def line(found: Findings) -> None:
    """The latest row, to standard error."""
    row = found.rows[-1]
    said = row.failure or f"{times(row, 'eager')} eager, {times(row, 'compiled')} compiled"
    against = f", against {row.mirror}" if row.mirror else ""
    print(f"{found.seconds:6.0f} s  {row.bench}: {row.work}{against}: {said}", file=sys.stderr, flush=True)


def show(found: Findings) -> None:
    """The table, and under it what did not fit into it."""
    console, machine, rows = open_console(), found.machine, found.rows
    console.print(", ".join(f"{name} {value}" for name, value in machine["versions"].items()))
    console.print(f"{machine['device']['kind']}, {machine['cores']} core{'s' if machine['cores'] != 1 else ''}")
    table = new_table(*COLUMNS, right=COLUMNS[2:], wrap=("work",))
    for row in rows:
        against = f" (PyTorch: {row.mirror})" if row.mirror else ""
        sides = [milliseconds(row.ours), milliseconds(row.eager), times(row, "eager")]
        sides += [milliseconds(row.compiled), times(row, "compiled"), "-" if row.error is None else f"{row.error:.1g}"]
        table.add_row(*cells([f"{row.bench}: {row.work}{against}", row.unit, *sides]))
    console.print(table)
    for row in rows:
        for name, value in notes(row).items():
            shown = f"{value:.4g}" if isinstance(value, float) else value
            console.print(f"{row.bench}: {row.work}: {name}: {shown}")


def notes(row: Row) -> dict:
    """Failures, why there is no compiled side, and the row's own facts."""
    missing = {"failed": row.failure, "no compiled side": row.no_compile}
    return {name: value for name, value in missing.items() if value} | dict(row.facts)
