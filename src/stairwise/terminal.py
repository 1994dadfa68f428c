"""Printing to a terminal, or whole lines to anything else. All of it is text: no markup, no control codes."""

import json
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from stairwise.words import is_number, number, plain

UNBOUNDED = 100_000  # columns
MANY = 500  # rows
NARROWEST = 28  # columns of a terminal in which a text of several words can be read


class WholeLines(Console):
    """A console for files and pipes: no line is cut, wrapped or filled up with spaces."""

    def print(self, *objects: Any, **options: Any) -> None:
        with self.capture() as captured:
            super().print(*objects, **options)
        self.file.write("\n".join(line.rstrip() for line in captured.get().split("\n")))


def open_console() -> Console:
    """Standard output as it is now."""
    console = Console(markup=False, highlight=False, emoji=False)
    return console if console.is_terminal else WholeLines(markup=False, highlight=False, emoji=False, width=UNBOUNDED)


class Rows(Table):
    """A table, or, in a terminal that is too narrow for its columns, one entry per row: its name, then the rest."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Any]:
        if self._needed() <= options.max_width:
            yield from super().__rich_console__(console, options)
            return
        for cells in zip(*(column.cells for column in self.columns), strict=True):
            yield from self._entry([Text(str(cell)) if isinstance(cell, str) else cell for cell in cells])

    def _needed(self) -> int:
        """The width in which every column can be read."""
        needed = 2 * (len(self.columns) - 1)
        for column in self.columns:
            width = max(cell_len(str(text)) for text in (column.header, *column.cells))
            needed += width if column.no_wrap else min(width, NARROWEST)
        return needed

    def _entry(self, cells: Sequence[RenderableType]) -> Iterator[RenderableType]:
        """The first cell, the last one where it is a text, and the others with the names of their columns."""
        named = list(zip(self.columns, cells, strict=True))
        if not self.columns[0].no_wrap:  # rows of data, which have no name
            yield Text(f"- {_facts(named)}")
            return
        column, first = named.pop(0)
        label = f"{column.header}: " if column.justify == "right" else ""
        yield Text(f"{label}{first}", style="bold")
        if named and not self.columns[-1].no_wrap and str(named[-1][1]):
            yield Padding.indent(named.pop()[1], 2)
        if facts := _facts(named):
            yield Padding.indent(Text(facts, style="dim"), 2)


def _facts(named: Iterable[tuple[Column, RenderableType]]) -> str:
    """What a row has in its columns, with their names; nothing of those that are empty."""
    return "; ".join(f"{column.header}: {cell}" for column, cell in named if str(cell))


def new_table(*columns: str, right: Sequence[str] = (), wrap: Sequence[str] = ()) -> Table:
    """Columns keep their width, except those in `wrap`, which share what a terminal has left."""
    table = Rows(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for name in columns:
        justify = "right" if name in right else "left"
        table.add_column(name, justify=justify, no_wrap=name not in wrap, overflow="fold")
    return table


def print_table(
    console: Console, columns: Sequence[str], rows: Sequence[Sequence[Any]], right: Sequence[str] = (), wrap=()
) -> None:
    """Rows under the names of their columns; very many are written line by line, without regard to a terminal."""
    texts = [[plain(value) for value in row] for row in rows]
    if len(rows) <= MANY:
        table = new_table(*columns, right=right, wrap=wrap)
        for row in texts:
            table.add_row(*map(Text, row))
        console.print(table)
        return
    widths = [max(map(len, column)) for column in zip(columns, *texts, strict=True)]
    for row in [columns, *texts]:
        padded = zip(row, widths, columns, strict=True)
        line = "  ".join(text.rjust(width) if name in right else text.ljust(width) for text, width, name in padded)
        console.file.write(f"{line.rstrip()}\n")


def cells(values: Iterable[Any], style: str = "") -> list[Text]:
    return [value if isinstance(value, Text) else Text(plain(value), style=style) for value in values]


def heading(console: Console, text: str, after: str = "") -> None:
    console.print(Text(plain(text), style="bold") + Text(plain(after) and f"  {plain(after)}"))


def print_pairs(console: Console, title: str, values: Mapping[str, Any]) -> None:
    """A group of named values; nothing where there are none."""
    if not values:
        return
    console.print()
    heading(console, title)
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in values.items():
        grid.add_row(*cells([name, value]))
    console.print(Padding.indent(grid, 2))


def print_json(data: Any) -> None:
    """All JSON that a command prints: strict, with null for NaN and infinities; indented for a person's eyes only."""
    indent = 1 if sys.stdout.isatty() else None  # without it the encoder is in C, and ten times as fast
    print(json.dumps(finite(data), indent=indent, allow_nan=False, default=str))


def print_rows(console: Console, rows: Sequence[Mapping[str, Any]]) -> None:
    """Flat dictionaries as a table, with the columns of all of them."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    numbers = [name for name in columns if all(is_number(row[name]) for row in rows if row.get(name) is not None)]
    titles = {name: plain(name) for name in columns}
    values = [[_short(row.get(name, "")) for name in columns] for row in rows]
    print_table(console, [*titles.values()], values, right=[titles[name] for name in numbers], wrap=[*titles.values()])


def _short(value: Any) -> Any:
    return number(value) if value is None or isinstance(value, float) else value


def finite(data: Any) -> Any:
    """The data as JSON knows it: NumPy's values as Python's, and null for NaN and infinities.

    >>> import numpy as np
    >>> finite({"n": np.int64(3), "rows": (np.float32("nan"), 0.5)})
    {'n': 3, 'rows': [None, 0.5]}
    """
    if isinstance(data, float):
        return float(data) if math.isfinite(data) else None
    if isinstance(data, Mapping):
        return {str(name): finite(value) for name, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [finite(value) for value in data]
    return finite(data.tolist()) if hasattr(data, "tolist") else data
