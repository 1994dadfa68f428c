"""What there is to run, draw and verify, printed from the manifests; imports no paper and no JAX."""

import re
from collections.abc import Sequence
from pathlib import Path

from rich.text import Text

from stairwise import __version__
from stairwise.lab.config import ConfigError
from stairwise.lab.manifest import KINDS, TIERS, Manifest
from stairwise.report.terminal import cells, heading, new_table, open_console
from stairwise.report.words import counted, plain

OURS = "The Stairwise developers"


def papers_table(papers: Sequence[Manifest]) -> None:
    """One line per paper, and how to see more."""
    console = open_console()
    table = new_table(
        "paper", "experiments", "claims", "what it shows", right=("experiments", "claims"), wrap=("what it shows",)
    )
    for paper in papers:
        table.add_row(*cells([paper["id"], len(paper["experiments"]), len(paper["claims"]), paper["summary"]]))
    console.print(table)
    console.print()
    for command, about in (
        ("stairwise list PAPER", "its experiments and figures"),
        ("stairwise list PAPER --claims", "its claims, by the names that verify takes"),
        ("stairwise list --find TEXT", "everything whose name or description has these words"),
    ):
        console.print(Text(f"{command:32}{about}", style="dim"))


def paper_table(paper: Manifest, store: Path) -> None:
    """The experiments of a paper, what is stored of them, and how many claims of what sort it has."""
    console = open_console()
    heading(console, paper["id"], f"{paper['title']} ({paper['authors']}; {paper['venue']} {paper['year']})")
    console.print(Text(plain(paper["summary"]), style="dim"))
    console.print()
    table = new_table("experiment", "arms x seeds", "stored", "figures", "what it runs", right=("stored",),
                      wrap=("arms x seeds", "figures", "what it runs"))  # fmt: skip
    for each in paper["experiments"]:
        name = f"{paper['id']}/{each['id']}"
        presets = ", ".join(f"{preset} {size}" for preset, size in each["presets"].items())
        table.add_row(*cells([name, presets, _stored(store, name), " ".join(each["figures"]), each["says"]]))
    console.print(table)
    console.print()
    for kind, order in (("tier", TIERS), ("kind", KINDS)):
        counts = counted([claim[kind] for claim in paper["claims"]], order)
        said = ", ".join(f"{count} {what}" for what, count in counts.items())
        console.print(Text(f"{len(paper['claims'])} claims by {kind}: {said or 'none'}"))
    if paper["constructions"]:
        written = ", ".join(each["id"] for each in paper["constructions"])
        console.print(Text(f"constructions for stairwise export: {written}"))
    console.print(Text(f"store: {plain(store)}", style="dim"))


def bibtex(paper: Manifest | None) -> str:
    """The entry of a paper; of this library where there is none, and for studies of our own, which are part of it.

    Title and author have lines of their own.
    """
    if paper is None or paper["authors"] == OURS:
        kind, key, title, authors = "misc", "stairwise", "Stairwise", [f"{{{OURS}}}"]
        rest = {"note": f"Version {__version__}", "year": "2026"}
    else:
        title, authors, venue = paper["title"], paper["authors"].split(", "), paper["venue"].strip("-")
        kind = "inproceedings" if venue else "misc"
        key = f"{authors[0].split()[-1].lower()}{paper['year']}{paper['id']}"
        rest = {"booktitle": venue, "year": str(paper["year"])}
        rest["url"] = f"https://arxiv.org/abs/{paper['arxiv']}" if paper["arxiv"] else ""
    lines = [
        f"title = {{{{{title}}}}},",  # the second pair of braces keeps its capitals
        f"author = {{{' and '.join(authors)}}},",
        " ".join(f"{name} = {{{value}}}," for name, value in rest.items() if value),
    ]
    return "\n  ".join([f"@{kind}{{{key},", *(re.sub(r"([&%#])", r"\\\1", line) for line in lines)]) + "\n}"


def _stored(store: Path, experiment: str) -> int:
    """How many trials of an experiment the store holds."""
    folder = store / "trials" / experiment
    return sum(1 for _ in folder.iterdir()) if folder.is_dir() else 0


def claims_table(paper: Manifest) -> None:
    """Every claim by the name that `verify` takes."""
    table = new_table("claim", "kind", "needs", "says", wrap=("says",))
    for claim in paper["claims"]:
        needs = f"trials of {claim['experiment']}" if claim["experiment"] else claim["tier"]
        table.add_row(*cells([f"{paper['id']}/{claim['id']}", claim["kind"], needs, claim["says"]]))
    open_console().print(table)


def found_table(papers: Sequence[Manifest], text: str) -> None:
    """Everything whose name, description or alias has all the words of a text."""
    words = text.lower().split()
    if not words:
        raise ConfigError("find= must be some text, for example: stairwise list --find 'length generalisation'")
    table = new_table("what", "name", "says", wrap=("says",))
    rows = 0
    for paper in papers:
        for kind in ("experiments", "figures", "claims", "constructions", "tasks"):
            for each in paper[kind]:
                name, says = f"{paper['id']}/{each['id']}", each.get("says") or each.get("caption", "")
                searched = " ".join([name, says, *each.get("aliases", ()), paper["title"]]).lower()
                if all(word in searched for word in words):
                    table.add_row(*cells([kind.removesuffix("s"), name, says]))
                    rows += 1
    console = open_console()
    if rows:
        console.print(table)
    console.print(Text(f"{rows} found for {plain(text)!r}", style="dim"))
