"""`stairwise list`: what there is to run, draw and verify, from the manifests; imports no paper and no JAX."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from rich.text import Text

from stairwise.commands import flags
from stairwise.config import ConfigError
from stairwise.lab.contract import latex
from stairwise.lab.contract.manifest import KINDS, TIERS, Manifest
from stairwise.lab.registry import manifests
from stairwise.terminal import cells, heading, new_table, open_console, print_json
from stairwise.words import counted, plain


def add_flags(command: argparse.ArgumentParser) -> None:
    flags.add_json(command)
    command.add_argument("name", nargs="?", metavar="PAPER", help="list the experiments and figures of this paper")
    command.add_argument(
        "--claims", action="store_true", help="list the claims of the paper, by the names that verify takes"
    )
    command.add_argument("--find", metavar="TEXT", help="list everything whose name or description has these words")


def act(options, fields) -> int:
    if options.claims and not options.name:
        raise ConfigError("--claims needs a paper: stairwise list PAPER --claims")
    if options.json:  # has every field of every config: imports the papers
        from stairwise.commands.listing import listing
        from stairwise.lab import registry

        papers = [registry.paper(options.name)] if options.name else registry.papers()
        print_json(listing(papers, _store(options)))
        return 0
    found = manifests(options.name)
    if options.find is not None:
        found_table(found, options.find)
    elif options.claims:
        claims_table(found[0])
    elif options.name:
        paper_table(found[0], _store(options).root)
    else:
        papers_table(found)
    return 0


def _store(options):
    from stairwise.commands.stored import opened

    return opened(options.store)


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
        ("stairwise list --find TEXT", "what has these words in its name or description"),
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


def _stored(store: Path, experiment: str) -> int:
    """How many trials of an experiment the store holds."""
    folder = store / "trials" / experiment
    return sum(1 for _ in folder.iterdir()) if folder.is_dir() else 0


def claims_table(paper: Manifest) -> None:
    """Every claim by the name that `verify` takes, with what the paper calls it and how strong it is."""
    table = new_table("claim", "statement", "strength", "needs", "says", wrap=("statement", "says"))
    for claim in paper["claims"]:
        needs = f"trials of {claim['experiment']}" if claim["experiment"] else claim["tier"]
        called, strength = ", ".join(claim["statement"]), claim["strength"] or claim["kind"]
        table.add_row(*cells([f"{paper['id']}/{claim['id']}", called, strength, needs, latex.plain(claim["says"])]))
    open_console().print(table)


def found_table(papers: Sequence[Manifest], text: str) -> None:
    """Everything whose name, description or alias has all the words of a text."""
    words = text.lower().split()
    if not words:
        raise ConfigError("find= must be some text, for example: stairwise list --find 'length generalisation'")
    table = new_table("name", "what", "says", wrap=("says",))
    rows = 0
    for paper in papers:
        for kind in ("experiments", "figures", "claims", "constructions", "tasks"):
            for each in paper[kind]:
                name, says = f"{paper['id']}/{each['id']}", each.get("says") or each.get("caption", "")
                named = (*each.get("aliases", ()), *each.get("statement", ()))
                searched = " ".join([name, says, latex.plain(says), *named, paper["title"]]).lower()
                if all(word in searched for word in words):
                    table.add_row(*cells([name, kind.removesuffix("s"), latex.plain(says)]))
                    rows += 1
    console = open_console()
    if rows:
        console.print(table)
    console.print(Text(f"{rows} found for {plain(text)!r}", style="dim"))
