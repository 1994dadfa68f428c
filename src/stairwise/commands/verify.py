"""`stairwise verify`: checks claims, and prints the ledger of what was found. Imports no JAX."""

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from stairwise.commands import flags
from stairwise.commands.where import links
from stairwise.config import Config, ConfigError
from stairwise.lab import registry
from stairwise.lab.contract import latex
from stairwise.lab.contract.claims import Claim
from stairwise.lab.contract.manifest import TIERS, check_name
from stairwise.lab.contract.verdict import STATUSES
from stairwise.lab.ledger.asked import VerifyRequest, base_of
from stairwise.lab.ledger.verify import LedgerRow, exit_status, perform_verify, preview_verify, unchecked
from stairwise.lab.progress import for_terminal
from stairwise.lab.store.store import Store
from stairwise.lab.worker import in_worker
from stairwise.terminal import cells, heading, new_table, open_console, print_json, print_rows
from stairwise.words import counted, margin, number, plain, required

FEW = 3  # claims that are told in full, however narrow the terminal
INDENT = 4
STYLES = {
    "fails": "bold white on red",
    "not-reproduced": "bold yellow",
    "refuted": "bold magenta",
    "misprint": "magenta",
    "outside": "yellow",
    "vacuous": "dim",
    "reported": "cyan",
    "holds": "green",
    "skipped": "dim",
}


def add_flags(command: argparse.ArgumentParser) -> None:
    flags.add_json(command)
    flags.add_published(command)
    command.add_argument(
        "targets",
        nargs="*",
        metavar="PAPER[/CLAIM]",
        help="papers or claims, also as a pattern: 'lego/thm4.1*' (default: all)",
    )
    command.add_argument(
        "--tier",
        default="instant",
        help=f"check claims that take up to this long: {', '.join(TIERS)} (default: instant)",
    )
    command.add_argument("--run", action="store_true", help="run the trials that empirical claims need")
    command.add_argument(
        "--fresh", action="store_true",
        help="check again what has a verdict; with --run, run trials again that other versions of the code made",
    )  # fmt: skip
    command.add_argument("--seed", action=flags.Whole, default=0, help="first seed of the random draws (default: 0)")
    command.add_argument("--seeds", action=flags.Whole, metavar="N", help="how many seeds (default: the claim's)")
    flags.add_jobs(command, "processes that share the checks")
    flags.add_shard(command, "checks")
    command.add_argument("--dry-run", action="store_true", help="list what would be checked, and check nothing")
    command.add_argument("--details", action="store_true", help="print the table behind each verdict")
    flags.add_preset(command)


def configs_of(options) -> dict[str, Config]:
    configs = {claim.name: base_of(claim, options.preset) for claim, _ in registry.claims(options.targets)}
    return {name: config for name, config in configs.items() if config is not None}


def act(options, fields) -> int:
    for target in options.targets:
        check_name(target, "claims")
    asked = {name: getattr(options, name) for name in ("tier", "preset", "seed", "seeds", "jobs", "shard")}
    request = VerifyRequest.of(options.targets, fields, **asked, published=options.published)
    if options.published and options.targets and not request.claims:
        named = ", ".join(options.targets)
        raise ConfigError(f"{named}: no claim of these is judged on trials, so --published has nothing to judge")
    if options.dry_run:
        return dry_run(preview_verify(request), options.json)
    store = Store.open(options.store)
    chosen = {"run": options.run, "fresh": options.fresh, "store": store, "progress": for_terminal()}
    rows = in_worker(lambda stop: list(perform_verify(request, **chosen, stop=stop)))
    if options.json:
        print_json([row.as_dict() for row in rows])
    else:
        ledger_table(rows, details=options.details)
        if options.shard is not None:
            left = unchecked(request, store)
            print(f"shard {options.shard}: {left} checks of the whole request have no verdict in this store yet")
    return exit_status(rows)


def dry_run(planned: Sequence[LedgerRow], as_json: bool) -> int:
    """The claims that would be checked, and why some of them would not."""
    if as_json:
        print_json([row.as_dict() for row in planned])
        return 0
    claims_table(list({row.claim.name: row.claim for row in planned}.values()))
    for row in planned:
        if row.verdict.note:
            print(f"{row.claim.name}: {row.verdict.note}")
    print(f"{len(planned)} checks, none of which was run")
    return 0


# --- what is printed --------------------------------------------------------------------------------------------------


def claims_table(claims: Sequence[Claim]) -> None:
    """Every claim by the name that `verify` takes."""
    table = new_table("claim", "strength", "needs", "says", wrap=("says",))
    for claim in claims:
        needs = f"trials of {claim.experiment}" if claim.judge else claim.tier
        table.add_row(*cells([claim.name, claim.strength or claim.kind, needs, latex.plain(claim.says)]))
    console = open_console()
    console.print(table)


def ledger_table(rows: Sequence[LedgerRow], details: bool = False) -> None:
    """Two lines per claim: what was found, and what it says. A claim at several sizes has a table of its own."""
    console = open_console()
    claims: dict[str, list[LedgerRow]] = {}
    for row in rows:
        claims.setdefault(row.claim.name, []).append(row)
    single = [group[0] for group in claims.values() if len(group) == 1]
    shared = _shared_notes(single)
    for row in single:
        _two_lines(console, row, shared, whole=len(single) <= FEW)
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
    _unexpected(console, rows)


def _shared_notes(rows: Sequence[LedgerRow]) -> dict[str, int]:
    """Why claims were skipped, where several were for the same reason: said once, below the table."""
    notes = [row.verdict.note for row in rows if row.verdict.status == "skipped" and row.verdict.note]
    return {note: notes.count(note) for note in dict.fromkeys(notes) if notes.count(note) > 1}


def _two_lines(console: Console, row: LedgerRow, shared: Mapping[str, int], whole: bool) -> None:
    """What was found, and what the claim says, in full or each cut to one line; a failure also says why."""
    first = _status(row) + Text(f"  {row.claim.name}", style="bold") + Text(f"  {'  '.join(_found(row, shared))}")
    second = Text(f"    {_statement(row.claim)}")
    for line in (first, second):
        if whole and line.cell_len > console.width:
            pieces = line.wrap(console, console.width - INDENT)
            console.print(pieces[0])
            for piece in pieces[1:]:
                console.print(Padding.indent(piece, INDENT))
        else:
            _one_line(console, line)
    if row.verdict.status == "fails" and row.verdict.note:
        console.print(Padding.indent(Text(plain(row.verdict.note), style="red"), 4))


def _one_line(console: Console, line: Text) -> None:
    line.truncate(console.width, overflow="ellipsis")
    line.rstrip()
    console.print(line, no_wrap=True)


def _found(row: LedgerRow, shared: Mapping[str, int]) -> list[str]:
    """The measurement, or why there is none, then how many cases it is about and what it took."""
    verdict = row.verdict
    found = [f"at {_sizes(row.changes)}"] if row.changes else []
    if verdict.status == "skipped":
        return [*found, plain(verdict.note)] if verdict.note not in shared else found
    found += [f"not met: {plain(hypothesis)}" for hypothesis in verdict.hypotheses]
    if verdict.measured is not None:
        line = "" if verdict.required is None else f" {required(verdict)}"
        if verdict.margin is not None and verdict.margin < 1:  # a comparison that is false is not written as if true
            line = f", required{line}"
        found.append(f"{plain(verdict.quantity) or 'measured'} {number(verdict.measured)}{line}")
    if verdict.margin is not None:
        found.append(f"margin {margin(verdict)}")
    if row.claim.strength == "inequality" and verdict.sharpest is not None:
        found.append(f"sharpest constant {number(verdict.sharpest, 3)}")
    if verdict.status in ("outside", "vacuous") and verdict.note:
        found.append(plain(verdict.note))
    if len(verdict.cases) > 1:
        counts = counted([case["status"] for case in verdict.cases], STATUSES)
        sizes, seeds = (len({case[name] for case in verdict.cases}) for name in ("case", "seed"))
        said = ", ".join(f"{n} {what}" for n, what in ((sizes, "cases"), (seeds, "seeds")) if n > 1)
        found.append(said if len(counts) == 1 else f"{said}: {', '.join(f'{n} {name}' for name, n in counts.items())}")
    return [*found, f"{row.seconds:.2f} s"]


def _statement(claim: Claim) -> str:
    """What the paper calls it and what it says; of what is false as printed, also where it is put right."""
    named = f"{', '.join(claim.statement)}: " if claim.statement else ""
    corrected = f" (corrected: {claim.corrected})" if claim.corrected else ""
    return plain(f"{named}{latex.plain(claim.says)}{corrected}")


def _unexpected(console: Console, rows: Sequence[LedgerRow]) -> None:
    """Statuses that differ from those in the manifest: both are named."""
    for row in rows:
        for case, expected, found in row.unexpected:
            at = f" at {plain(case)}" if len(row.verdict.cases) > 1 else ""
            said = f"{row.claim.name}{at}: {found}, where the manifest has {expected}"
            console.print(Text(said, style="bold red"))


def _status(row: LedgerRow) -> Text:
    return Text(f"{row.verdict.status}{' (stale)' if row.stale else ''}", style=STYLES[row.verdict.status])


def _measured(row: LedgerRow) -> list[Text]:
    verdict = row.verdict
    return cells([number(verdict.measured), required(verdict), margin(verdict)])


def _sizes(changes: Mapping[str, Any]) -> str:
    return " ".join(f"{plain(path)}={plain(value)}" for path, value in changes.items())


def _margins(console: Console, group: Sequence[LedgerRow]) -> None:
    """A claim's margin against size."""
    axes = list(dict.fromkeys(path for row in group for path in row.changes))
    numbers = ("measured", "required", "margin", "seconds")
    table = new_table(*axes, "status", *numbers, "remarks", right=(*axes, *numbers), wrap=("remarks",))
    for row in group:
        sizes = [row.changes.get(path, "default") for path in axes]
        remarks = [f"not met: {text}" for text in row.verdict.hypotheses]
        remarks += [row.verdict.note] if row.verdict.note else []
        table.add_row(*cells(sizes), _status(row), *_measured(row), *cells([f"{row.seconds:.2f}", "; ".join(remarks)]))
    console.print()
    heading(console, group[0].claim.name, latex.plain(group[0].claim.says))
    console.print(table)
    console.print()


def _details(console: Console, rows: Sequence[LedgerRow]) -> None:
    for row in rows:
        verdict = row.verdict
        linked = links(row.claim.paper, vars(row.claim))
        if not (verdict.details or verdict.note or linked or len(verdict.cases) > 1):
            continue
        console.print()
        heading(console, row.claim.name, _sizes(row.changes))
        for line in linked:
            console.print(Text(plain(line)))
        if verdict.note:
            console.print(Text(plain(verdict.note)))
        if len(verdict.cases) > 1:
            print_rows(console, verdict.cases)
        if verdict.details:
            print_rows(console, verdict.details)
        console.print()
