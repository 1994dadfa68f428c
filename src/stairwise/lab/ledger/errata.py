"""The errata of the papers, made from their claims: what is false as printed, what is a slip, what lacks its proof."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from stairwise.lab.contract.manifest import PAPERS, Manifest

PAGE = PAPERS.parents[2] / "docs" / "errata.md"  # in a checkout
HEAD = """# Errata

This page lists what we found to be wrong in print, paper by paper. It is generated from the claims
(`python -m stairwise.lab.ledger`), so each line is a check that runs.

- A **substantive** entry is a printed statement that is false inside its own hypotheses. Its certificate is a script
  of about 20 lines that shows the counterexample without this package. Where we know a corrected statement, it is a
  claim that holds; else the column says that no repair is claimed.
- A **misprint** is a slip whose intended reading is plain. It says nothing against the result.
- What is **true, but not proved by the printed argument**, holds in every check of ours. The last column names
  the step that needs another argument.

The main theorems of the five papers stand unless a line below says otherwise. We read each statement with the
qualifications that its authors give. If you are an author and read a line differently, please open an issue.
"""


def page(manifests: Iterable[Manifest]) -> str:
    """The whole page, in Markdown."""
    parts = [HEAD]
    for manifest in manifests:
        claims = {claim["id"]: claim for claim in manifest["claims"]}
        false = [claim for claim in claims.values() if claim["kind"] == "refuted" and claim.get("certificate")]
        slips = [claim for claim in claims.values() if claim["kind"] == "misprint"]
        unproved = [claim for claim in claims.values() if claim["argument"]]
        if not false and not slips and not unproved:
            continue
        parts.append(f"## {manifest['title']}\n")
        if false:
            rows = [_false(manifest["id"], claim, claims) for claim in false]
            parts.append(table("Substantive", ("statement", "as printed", "what is true", "certificate"), rows))
        if slips:
            rows = [_slip(manifest["id"], claim) for claim in slips]
            parts.append(table("Misprints", ("statement", "as printed", "what is meant"), rows))
        if unproved:
            rows = [
                (f"{_names(claim)} (`{manifest['id']}/{claim['id']}`)", cell(claim["says"]), cell(claim["argument"]))
                for claim in unproved
            ]
            columns = ("statement", "which is true", "what the printed argument lacks")
            parts.append(table("True, but not proved by the printed argument", columns, rows))
    return "\n".join(parts)


def _false(paper: str, claim: dict[str, Any], claims: dict[str, Any]) -> tuple[str, ...]:
    corrected = claims.get(claim["corrected"])
    true = f"{cell(corrected['says'])} (`{paper}/{corrected['id']}`)" if corrected else "no repair is claimed"
    script = claim["certificate"]
    link = f"[{Path(script).name}](../src/stairwise/papers/{paper}/{script})"
    return f"{_names(claim)} (`{paper}/{claim['id']}`)", cell(claim["says"]), true, link


def _slip(paper: str, claim: dict[str, Any]) -> tuple[str, ...]:
    right = f" (`{paper}/{claim['corrected']}`)" if claim["corrected"] else ""
    return f"{_names(claim)} (`{paper}/{claim['id']}`)", cell(claim["says"]), cell(claim["means"]) + right


def _names(claim: dict[str, Any]) -> str:
    return ", ".join(claim["statement"])


def cell(text: str) -> str:
    """A sentence for a cell of a table, where a bar would end it."""
    return text.removeprefix("as printed: ").replace(r"\|", r"\Vert ").replace("|", r"\vert ")


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], level: int = 3) -> str:
    """A table below its heading."""
    lines = [f"{'#' * level} {title}\n", f"| {' | '.join(columns)} |", f"| {' | '.join('---' for _ in columns)} |"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows), ""])
