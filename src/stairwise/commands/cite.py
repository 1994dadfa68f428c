"""`stairwise cite`: BibTeX entries."""

import argparse
import re

from stairwise import __version__
from stairwise.lab.contract.manifest import Manifest
from stairwise.lab.registry import manifests

OURS = "The Stairwise developers"


def add_flags(command: argparse.ArgumentParser) -> None:
    command.add_argument("name", nargs="?", metavar="PAPER", help="the paper to cite (default: this library)")


def act(options, fields) -> int:
    print(bibtex(None if options.name is None else manifests(options.name)[0]))
    return 0


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
