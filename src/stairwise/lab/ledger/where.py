"""Where a statement of a paper lives: its claims, their checks, and the functions that they put to the test.

Everything is answered from the manifest and by reading source files; nothing is imported.
"""

import ast
import re
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from stairwise.config import ConfigError
from stairwise.lab.contract.manifest import Manifest, unknown
from stairwise.lab.ledger import statements
from stairwise.lab.store import provenance

KINDS = {
    "theorem": "thm",
    "lemma": "lem",
    "corollary": "cor",
    "proposition": "prop",
    "definition": "def",
    "assumption": "ass",
    "remark": "rem",
    "equation": "eq",
    "figure": "fig",
    "appendix": "app",
    "section": "sec",
    "algorithm": "alg",
}
BEGIN = "<!-- generated from the claims: python -m stairwise.lab.ledger -->"
END = "<!-- end of what is generated -->"


class Place(NamedTuple):
    """Where a function stands, and the first line of its docstring."""

    name: str
    file: Path
    line: int
    about: str


def short(statement: str) -> str:
    """A statement as ids are written, however it was typed.

    >>> short("Lemma E.15"), short("lemE15"), short("Theorem 3.1"), short("eq. (7)"), short("Eqs. 7"), short("thm D4")
    ('leme15', 'leme15', 'thm3.1', 'eq7', 'eq7', 'thmd4')
    """
    text = re.sub(r"[\s()]", "", statement.lower())
    for word, stem in KINDS.items():
        text = re.sub(rf"^{word[:-1]}(ies|ices|{word[-1]}s?|as)(?![a-z]{{2}})", stem, text)
    text = re.sub(r"^eqs(?=\W|\d)", "eq", text)
    return re.sub(r"(?<![0-9])\.|\.(?![0-9])", "", text)


def find(manifest: Manifest, statement: str) -> list[dict[str, Any]]:
    """The claims of a paper about a statement, however it is written; those about a part of it come last."""
    wanted = short(statement)
    if not wanted:
        raise ConfigError(f"statement={statement} must name one, for example: Theorem 1")
    exact, parts = [], []
    for claim in manifest["claims"]:
        names = {short(name) for name in (claim["id"], *claim["aliases"], *claim["statement"])}
        if wanted in names:
            exact.append(claim)
        elif any(re.match(rf"{re.escape(wanted)}(?![0-9.])[-,]", name) for name in names):
            parts.append(claim)
    if not exact + parts and (listed := _listed(manifest, wanted)) is not None:
        parts = list(statements.claims_about(manifest).get(listed["name"], ()))  # "Figure 1", of which 1a has a claim
    if not exact + parts:
        known = [name for claim in manifest["claims"] for name in (*claim["statement"], claim["id"], *claim["aliases"])]
        line = unknown(f"statement of {manifest['id']}", statement, known)
        near = re.split(r" \((?:known:|\d+ are known)", line)[0]
        raise ConfigError(f"{near} (stairwise list {manifest['id']} --claims names them)")
    return exact + parts


def without_a_check(manifest: Manifest, statement: str) -> dict[str, str] | None:
    """A numbered statement that no claim is about: where it stands, what it is and why it has no check."""
    found = _listed(manifest, short(statement))
    return None if found is None or found["name"] in statements.claims_about(manifest) else found


def _listed(manifest: Manifest, wanted: str) -> dict[str, str] | None:
    return next((each for each in statements.listed(manifest["id"]) if short(each["name"]) == wanted), None)


@cache
def place(reference: str) -> Place:
    """Where "module:Class.function" stands; line 1 of its module where no such definition is found."""
    module, _, name = reference.partition(":")
    file = provenance.locate(module)
    if file.is_dir():
        file = file / "__init__.py"
    inside: ast.AST = _parsed(file)
    line, about = 1, ""
    for part in name.split("."):
        for node in ast.walk(inside):  # outer definitions come before inner ones
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == part:
                line, inside = node.lineno, node
                about = (ast.get_docstring(node) or "").partition("\n")[0]
                break
    return Place(name, file, line, about)


@lru_cache(maxsize=8)  # neighbours in a ledger are of few modules
def _parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


# --- the map of a paper -----------------------------------------------------------------------------------------------


def table(manifest: Manifest, folder: Path) -> str:
    """The map of a paper as a table: every claim that says what it is of, with its check and its formulas."""
    rows = ["| statement | claim | check | formula |", "| --- | --- | --- | --- |"]
    for claim in manifest["claims"]:
        if claim["statement"]:
            called = ", ".join(claim["statement"])
            of = "<br>".join(_link(reference, folder) for reference in claim["of"]) or "-"
            rows.append(f"| {called} | `{claim['id']}` | {_link(claim['check'], folder)} | {of} |")
    return "\n".join([BEGIN, "", *rows, "", END])


def _link(reference: str, folder: Path) -> str:
    file = place(reference).file
    name = reference.partition(":")[2]
    inside = file.is_relative_to(folder)
    return f"`{name}` ([{file.relative_to(folder)}]({file.relative_to(folder)}))" if inside else f"`{reference}`"


def with_map(page: str, manifest: Manifest, folder: Path) -> str:
    """The page of a paper with its map brought up to date; one without a place for it is left as it is."""
    start, end = page.find(BEGIN), page.find(END)
    if start < 0 or end < 0:
        return page
    return page[:start] + table(manifest, folder) + page[end + len(END) :]
