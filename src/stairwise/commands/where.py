"""`stairwise where`: the claims about a statement of a paper, their checks, and the formulas that they test."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.text import Text

from stairwise.commands import flags
from stairwise.lab.contract import latex
from stairwise.lab.contract.manifest import Manifest
from stairwise.lab.ledger import where
from stairwise.lab.registry import manifests
from stairwise.terminal import heading, open_console, print_json
from stairwise.words import plain

SHOWN = ("statement", "says", "kind", "strength", "corrected", "corrects", "argument")


def add_flags(command: argparse.ArgumentParser) -> None:
    flags.add_json(command)
    command.add_argument("paper", metavar="PAPER", help="the paper, such as selection")
    command.add_argument(
        "statement", metavar="WORD", nargs="+", help='one statement, such as Lemma E.15, lemE15 or "eq. 7"'
    )


def act(options, fields) -> int:
    (paper,) = manifests(options.paper)
    unchecked = where.without_a_check(paper, " ".join(options.statement))
    if unchecked is not None:
        if options.json:
            print_json([unchecked])
        else:
            without_a_check(unchecked)
        return 0
    claims = where.find(paper, " ".join(options.statement))
    if options.json:
        print_json([where_data(paper, claim) for claim in claims])
    else:
        where_lines(paper, claims)
    return 0


def where_data(paper: Manifest, claim: dict[str, Any]) -> dict[str, Any]:
    """A claim with the places of its check and of the functions that it is of."""
    return {
        "claim": f"{paper['id']}/{claim['id']}",
        **{name: claim[name] for name in SHOWN},
        "check": _place(claim["check"]),
        "of": [_place(reference) for reference in claim["of"]],
    }


def where_lines(paper: Manifest, claims: Sequence[dict[str, Any]]) -> None:
    """Each claim, what it says, its check, and the formulas that it puts to the test."""
    console = open_console()
    for claim in claims:
        found = where_data(paper, claim)
        heading(console, found["claim"], ", ".join([*found["statement"], found["strength"] or found["kind"]]))
        for line in (latex.plain(found["says"]), *links(paper["id"], found)):
            console.print(Text(f"  {plain(line)}"))
        for what, places in (("check", [found["check"]]), ("of", found["of"])):
            for each in places:
                line = Text(f"  {what:5}  ") + Text(plain(f"{each['file']}:{each['line']}"), style="cyan")
                console.print(line + Text(f"  {plain(each['name'])}  {plain(each['about'])}".rstrip()))


def without_a_check(statement: Mapping[str, str]) -> None:
    """A statement that no claim is about: what it is, and why it has no check."""
    console = open_console()
    heading(console, statement["name"], f"Section {statement['section']}, {statement['state']}")
    console.print(Text(f"  {plain(latex.plain(statement['what']))} ({plain(statement['why'])})"))


def links(paper: str, claim: Mapping[str, Any]) -> list[str]:
    """How what is printed and what is true belong together, and what the printed proof lacks; a line each."""
    lines = [f"corrected: {paper}/{claim['corrected']}"] if claim["corrected"] else []
    lines += [f"corrects: {', '.join(f'{paper}/{id}' for id in claim['corrects'])}"] if claim["corrects"] else []
    lines += [f"true, but not by the printed argument: {latex.plain(claim['argument'])}"] if claim["argument"] else []
    return lines


def _place(reference: str) -> dict[str, Any]:
    """Where a function stands: the file as it is reached from here."""
    found = where.place(reference)
    near = found.file.is_relative_to(Path.cwd())
    return {**found._asdict(), "file": str(found.file.relative_to(Path.cwd()) if near else found.file)}
