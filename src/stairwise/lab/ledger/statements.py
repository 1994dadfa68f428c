"""The numbered statements of each paper: which of them has a check, and which has none and why.

`statements.toml` beside a paper's code lists what is legible: name, section and, where no claim says it, what it is.
`python -m stairwise.lab.ledger.statements` writes the page; `... --draft FILE` prints such a list from a paper's text.
"""

import argparse
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from stairwise.lab.contract.manifest import PAPERS, Manifest, built_in, read
from stairwise.lab.ledger.errata import cell, table

FILE = "statements.toml"
PAGE = PAPERS.parents[2] / "docs" / "statements.md"  # in a checkout
KINDS = (
    "Theorem",
    "Lemma",
    "Proposition",
    "Corollary",
    "Definition",
    "Assumption",
    "Remark",
    "Claim",
    "Fact",
    "Induction",
    "Algorithm",
    "Figure",
    "Table",
)
STATES = ("own check", "shared check", "measured only", "no statement of its own", "illegible", "no check yet")
SHARED = 4  # a claim that names so many numbered statements is not a check of each
NUMBERED = re.compile(rf"(?:{'|'.join(KINDS)}) (?:[A-Z]\.)?\d+(?:\.\d+)?")
START = re.compile(rf"[\W_]*({NUMBERED.pattern})(?![\w(])[\s.:*]*(.*)")
SECTION = re.compile(r"(?:Appendix )?((?:[A-H]|[1-9])(?:\.\d+)*)[.:]? +([A-Z].*)")
HEAD = """# Every numbered statement

This page lists every numbered definition, assumption, lemma, theorem, algorithm, figure and table of the papers, and
the remarks without a number. It says how each is checked. It is generated from the claims and from the list of what
is legible in our copies (`python -m stairwise.lab.ledger.statements`).

- **own check**: a claim is about this statement, or about this one and few others.
- **shared check**: the only claims about it are about many statements at once.
- **measured only**: its claims report numbers and have no line to pass, so they cannot fail (status `reported`).
- **no statement of its own**: notation, an assumption, or a step of an induction. The claims that use it are the check.
- **illegible**: our copy of the paper does not have it in readable form.
- **no check yet**: it is legible and could be checked.
"""


def listed(paper: str) -> list[dict[str, str]]:
    """The statements of a paper in the order of print; empty for one without a list."""
    return list(_read(PAPERS / paper / FILE))


@cache
def _read(file: Path) -> tuple[dict[str, str], ...]:
    return tuple(tomllib.loads(file.read_text(encoding="utf-8"))["statements"]) if file.is_file() else ()


def numbered(name: str) -> str | None:
    """The numbered statement that a claim's name of one is about; None for a section, an equation, or one of ours.

    >>> numbered("Lemma 15, score table"), numbered("Figure 1b"), numbered("Theorem 2(1)"), numbered("ours: Theorem 5")
    ('Lemma 15', 'Figure 1', 'Theorem 2', None)
    """
    found = NUMBERED.match(name)
    return found[0] if found else None


def claims_about(manifest: Manifest) -> dict[str, list[Mapping[str, Any]]]:
    """The claims about each numbered statement, or about a part of it."""
    known = {each["name"] for each in listed(manifest["id"])}
    found: dict[str, list[Mapping[str, Any]]] = {}
    for claim in manifest["claims"]:
        names = (name if name in known else numbered(name) for name in claim["statement"])  # remarks have no number
        for name in dict.fromkeys(filter(None, names)):
            part_of = name.rpartition(".")[0]  # "Lemma 5.8" is the eighth item of Lemma 5
            found.setdefault(part_of if name not in known and part_of in known else name, []).append(claim)
    return found


def state(statement: Mapping[str, str], claims: Iterable[Mapping[str, Any]]) -> str:
    """How a statement is checked, one of STATES."""
    claims = list(claims)
    sharing = [len({*filter(None, map(numbered, claim["statement"]))}) for claim in claims]
    if claims and all(claim["kind"] == "reported" for claim in claims):
        return "measured only"
    if sharing:
        return "own check" if min(sharing) < SHARED else "shared check"
    return statement.get("state", "no check yet")


def counts(manifest: Manifest) -> dict[str, int]:
    """How many statements of a paper are in each state."""
    about = claims_about(manifest)
    found = [state(each, about.get(each["name"], ())) for each in listed(manifest["id"])]
    return {name: found.count(name) for name in STATES}


# --- the page ---------------------------------------------------------------------------------------------------------


def page(manifests: Iterable[Manifest]) -> str:
    """The whole page, in Markdown."""
    kept = [manifest for manifest in manifests if listed(manifest["id"])]
    sums = [(manifest["id"], *map(str, counts(manifest).values())) for manifest in kept]
    parts = [HEAD, table("How many", ("paper", *STATES), sums, level=2)]
    for manifest in kept:
        about = claims_about(manifest)
        rows = [_row(each, about.get(each["name"], ())) for each in listed(manifest["id"])]
        parts += [f"## {manifest['title']}\n", table("Statements", ("statement", "section", "what", "check"), rows)]
    return "\n".join(parts)


def _row(statement: Mapping[str, str], claims: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    claims = list(claims)
    names = ", ".join(f"`{claim['id']}`" for claim in claims)
    how = state(statement, claims)
    why = f": {statement['why']}" if not claims and "why" in statement else ""
    return statement["name"], statement["section"], cell(about(statement, claims)), f"{how}{why} {names}".strip()


def about(statement: Mapping[str, str], claims: Iterable[Mapping[str, Any]]) -> str:
    """What a statement is: as listed, else as its first claim says."""
    return statement.get("what") or next((claim["says"] for claim in claims), "")


# --- a list from the text of a paper ----------------------------------------------------------------------------------


def drafted(text: str) -> Iterator[dict[str, str]]:
    """The statements that begin a line of a text, with section and title; each once, where it stands first.

    >>> list(drafted("2 Results\\nTheorem 1 (Main). Let x be\\nLemma A.2. If x"))[0]
    {'name': 'Theorem 1', 'section': '2', 'what': 'Main'}
    """
    section, seen = "", set()
    for line in map(str.strip, text.splitlines()):
        if (head := SECTION.fullmatch(line)) and _is_next(section, head[1], head[2]):
            section = head[1]
        found = START.fullmatch(line)
        if found and found[1] not in seen:
            seen.add(found[1])
            title = _title(found[2])
            yield {"name": found[1], "section": section} | ({"what": title} if title else {})


def _is_next(section: str, number: str, words: str) -> bool:
    """Whether a line opens a section, and is no item of a list."""
    if "." in number:
        return len(words) < 120
    top = section.partition(".")[0]
    follows = not top or ord(number) == ord(top) + 1 or (number == "A" and top.isdigit())
    return follows and len(words) < 60 and not re.search(r"[=<>|%$:]", words)


def _title(text: str) -> str:
    """What stands in brackets at the beginning."""
    if not text.startswith("("):
        return ""
    depth = 0
    for position, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if not depth:
            return text[1:position]
    return ""


def main(words: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m stairwise.lab.ledger.statements", description="list statements")
    parser.add_argument("--draft", metavar="FILE", help="print the list of the statements in this text")
    options = parser.parse_args(words)
    if options.draft:
        print("\n".join(_toml(drafted(Path(options.draft).read_text(encoding="utf-8")))))
        return
    PAGE.write_text(page([read(id) for id in built_in()]), encoding="utf-8")


def _toml(statements: Iterable[Mapping[str, str]]) -> Iterator[str]:
    yield "statements = ["
    for each in statements:
        yield "  { " + ", ".join(f"{name} = {_quoted(value)}" for name, value in each.items()) + " },"
    yield "]"


def _quoted(text: str) -> str:
    return f"'{text}'" if "'" not in text else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


if __name__ == "__main__":
    main(sys.argv[1:])
