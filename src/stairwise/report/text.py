"""The tables that the command line prints: papers, and the ledger of claims. Imports no JAX."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from stairwise.lab.contract import STATUSES, Claim
from stairwise.lab.verify import Row
from stairwise.report.listing import listing, runs_listing
from stairwise.report.stored import diff, runs_table, show, trials_table
from stairwise.report.terminal import cells, heading, new_table, open_console, print_rows
from stairwise.report.words import counted, margin, number, plain, required

__all__ = ["diff", "ledger_table", "listing", "runs_listing", "runs_table", "show", "trials_table"]

ROOMY = 120  # columns from which a claim's line has room for its statement
STYLES = {
    "fails": "bold white on red",
    "not-reproduced": "bold yellow",
    "refuted": "bold magenta",
    "vacuous": "dim",
    "reported": "cyan",
    "holds": "green",
    "skipped": "dim",
}


# --- claims ---------------------------------------------------------------------------------------------------------


def claims_table(claims: Sequence[Claim]) -> None:
    """Every claim by the name that `verify` takes."""
    table = new_table("claim", "kind", "needs", "says", wrap=("says",))
    for claim in claims:
        needs = f"trials of {claim.experiment}" if claim.judge else claim.tier
        table.add_row(*cells([claim.name, claim.kind, needs, claim.says]))
    console = open_console()
    console.print(table)


# --- verify -----------------------------------------------------------------------------------------------------------


def ledger_table(rows: Sequence[Row], details: bool = False) -> None:
    """One line a claim, and under it what the verdict adds; a claim at several sizes has a table of its own."""
    console = open_console()
    claims: dict[str, list[Row]] = {}
    for row in rows:
        claims.setdefault(row.claim.name, []).append(row)
    single = [group[0] for group in claims.values() if len(group) == 1]
    shared = _shared_notes(single)
    if single and console.width >= ROOMY:
        console.print(_ledger(single, shared))
    elif single:
        _narrow_ledger(console, single, shared)
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
    stale = sum(row.stale > 0 for row in rows)
    if stale:
        console.print(f"stale {stale}: judged on trials that were made by other code; --run --fresh runs them again")


def _shared_notes(rows: Sequence[Row]) -> dict[str, int]:
    """Why claims were skipped, where several were for the same reason: said once, below the table."""
    notes = [row.verdict.note for row in rows if row.verdict.status == "skipped" and row.verdict.note]
    return {note: notes.count(note) for note in dict.fromkeys(notes) if notes.count(note) > 1}


def _ledger(rows: Sequence[Row], shared: Mapping[str, int]) -> Table:
    columns = ("status", "claim", "measured", "required", "margin", "seconds", "says")
    table = new_table(*columns, right=("measured", "required", "margin", "seconds"), wrap=("says",))
    for row in rows:
        table.add_row(
            _status(row), *cells([row.claim.name]), *_measured(row), *cells([f"{row.seconds:.2f}", row.claim.says])
        )
        for line in _remarks(row, shared):
            table.add_row(*[""] * (len(columns) - 1), Text(f"  {line}", style="dim"))
    return table


def _narrow_ledger(console: Console, rows: Sequence[Row], shared: Mapping[str, int]) -> None:
    """The same on a narrow terminal, where a statement needs a line of its own."""
    for row in rows:
        named = zip(("measured", "required", "margin"), _measured(row), strict=True)
        numbers = [f"{name} {text}" for name, text in named if text.plain != "-"]
        console.print(_status(row), Text(row.claim.name), Text("  ".join(numbers), style="dim"))
        for line in (plain(row.claim.says), *_remarks(row, shared)):
            console.print(Padding.indent(Text(line), 4))


def _status(row: Row) -> Text:
    return Text(f"{row.verdict.status}{' (stale)' if row.stale else ''}", style=STYLES[row.verdict.status])


def _measured(row: Row) -> list[Text]:
    verdict = row.verdict
    return cells([number(verdict.measured), required(verdict), margin(verdict)])


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
    table = new_table(*axes, "status", *numbers, "remarks", right=(*axes, *numbers), wrap=("remarks",))
    for row in group:
        sizes = [row.changes.get(path, "default") for path in axes]
        remarks = [f"hypothesis violated: {text}" for text in row.verdict.hypotheses]
        remarks += [row.verdict.note] if row.verdict.note else []
        table.add_row(*cells(sizes), _status(row), *_measured(row), *cells([f"{row.seconds:.2f}", "; ".join(remarks)]))
    console.print()
    heading(console, group[0].claim.name, group[0].claim.says)
    console.print(table)
    console.print()


def _details(console: Console, rows: Sequence[Row]) -> None:
    for row in rows:
        if row.verdict.details:
            console.print()
            heading(console, row.claim.name, _sizes(row.changes))
            print_rows(console, row.verdict.details)
            console.print()
