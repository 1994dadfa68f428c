"""The page of published measurements: every run of the record, and how it judges the claims about its experiment."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from docs_site import pages as texts
from stairwise.lab import registry
from stairwise.lab.contract import manifest
from stairwise.lab.ledger.verify import LedgerRow, verify
from stairwise.record import published
from stairwise.words import number

PAGE = "results/published.md"
HEAD = """# Published measurements

Every run of the record, which comes with the package, and the verdict that it gives to each claim about its
experiment. This page is made from the record itself. The same verdicts in a terminal:

```
stairwise record list
stairwise verify --published --tier minutes
```

`stairwise figure PAPER/FIGURE --published -o FIGURE.png` draws a figure from it, and
`stairwise.published("lego/length").table()` is all that was measured. The record keeps every metric of every run, and
arrays of the first seed of an arm; a claim that needs the arrays of every seed is not judged here.
"""


def pages() -> dict[str, str]:
    runs = published.listed()
    return {PAGE: HEAD + "".join(f"\n{section(paper, runs)}" for paper in manifest.built_in())}


def section(paper: str, runs: Sequence[Mapping[str, Any]]) -> str:
    """A paper's runs, and the claims that are judged on them; nothing where none of its runs is published."""
    own = {run["run"].rpartition("/")[0]: run for run in runs if run["run"].startswith(f"{paper}/")}
    if not own:
        return ""
    listed = [
        f"| `{name}` | {run['trials']} | {', '.join(run['devices'])} | `{run['command']}` | {texts.cell(run['note'])} |"
        for name, run in own.items()
    ]
    judged = [line(row.as_dict()) for row in verdicts(own)]
    parts = [f"## {paper}\n", *table("experiment | trials | device | command | note", listed)]
    return "\n".join([*parts, "", *table("claim | statement | verdict | measured, and required", judged), ""])


@cache
def ledger() -> tuple[LedgerRow, ...]:
    """The verdicts on all that is published."""
    there = {run["run"].rpartition("/")[0] for run in published.listed()}
    found = [claim for claim, _ in registry.claims([]) if claim.judge]
    named = [claim.name for claim in found if f"{claim.paper}/{claim.experiment}" in there]
    return tuple(verify(named, preset="gpu", store=published.store())) if named else ()


def verdicts(experiments: Mapping[str, Any]) -> list[LedgerRow]:
    """Those on some of the experiments."""
    return [row for row in ledger() if f"{row.claim.paper}/{row.claim.experiment}" in experiments]


def statuses() -> dict[str, str]:
    """By claim, where its run is published with all that the claim needs."""
    return {row.claim.name: row.verdict.status for row in ledger() if row.verdict.status != "skipped"}


def line(row: Mapping[str, Any]) -> str:
    """One verdict as a row of the table.

    >>> found = {"quantity": "exact match", "measured": 0.25, "direction": "<=", "required": 0.5, "note": ""}
    >>> line({"paper": "lego", "claim": "fig1a", "statement": ["Figure 1a"], "status": "holds", **found})
    '| [`fig1a`](../claims/lego.md) | Figure 1a | holds | exact match: 0.25, required <= 0.5 |'
    """
    claim = f"[`{row['claim']}`](../claims/{row['paper']}.md)"
    status = row["status"].replace("-", " ")
    if row["required"] is None:
        status, said = ("not judged" if row["status"] == "fails" else status), row["note"]
    else:
        said = f"{row['quantity']}: {number(row['measured'])}, required {row['direction']} {number(row['required'])}"
    cells = (claim, texts.cell(", ".join(row["statement"])), status, texts.cell(said))
    return f"| {' | '.join(cells)} |"


def table(head: str, rows: Sequence[str]) -> list[str]:
    return [f"| {head} |", "| " + " | ".join(["---"] * (head.count("|") + 1)) + " |", *rows]
