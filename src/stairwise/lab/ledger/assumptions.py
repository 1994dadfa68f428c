"""What breaks without each assumption, and where: searches of the claims, kept as data, and the page made from them.

`python -m stairwise.lab.ledger.assumptions` writes the page from the files `falsified.json` beside the papers' code;
`... --search --jobs 14 --minutes 8 [PAPER[/CLAIM] ...]` first searches these claims, and writes down what it finds.
"""

import argparse
import json
import math
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from stairwise.lab.contract.claims import ABOUT_PRINT
from stairwise.lab.contract.manifest import PAPERS, Manifest, built_in, read
from stairwise.lab.ledger.errata import table

FILE = "falsified.json"
PAGE = PAPERS.parents[2] / "docs" / "assumptions.md"  # in a checkout
HEAD = """# What breaks without an assumption

Each theorem of the papers has hypotheses. This page says which of them we saw to be needed: with one hypothesis
dropped and the others met, is there a point at which the conclusion is false? It is generated from stored searches
(`python -m stairwise.lab.ledger.assumptions`); `falsified.json` beside the code of a paper has them, with commit,
command and seconds.
[Search for a counterexample](how-to/falsify.md) says which points are looked at, and how to search for longer.

- **Needed**: the conclusion is false at the point shown, whose sizes are as small as bisection makes them.
  `stairwise verify` with these fields shows it. The column *without* has the
  name of a hypothesis that `stairwise falsify --drop` takes.
- **Not seen to be needed**: the conclusion was true at every point that was judged; the nearest one is shown.
  The hypothesis may still be needed by the proof, at other sizes, or for a stronger constant.
- A pair of statement and hypothesis was **not judged** where no point was met that breaks this hypothesis and meets
  the others, or where the check says nothing there. One hypothesis may imply another; then it cannot be broken alone,
  and the table names the other one.
- A statement that **should hold, and does not everywhere** is false at a point that meets the hypotheses as its claim
  has them. That is a defect of the claim until shown otherwise: a hypothesis such as "for large d" that it does not
  state, or a check that stops too early.
"""


KNOWN = """## Known to be false

A search inside the hypotheses finds {found} of the {count} statements that are known to be false again, in a space that
was declared before looking, or that follows from the limits of the fields. The slowest was found after {slowest:.0f} s.
The others are false at a constructed point, and their certificate is a script that checks it without this package.
Three false theorems that are planted for this purpose are found by a test (`tests/lab/test_falsify.py`).
"""
NOTHING: dict[str, Any] = {"findings": ()}
BRIEF = "an earlier search of a few seconds, which judged nothing"


def page(manifests: Iterable[Manifest]) -> str:
    """The whole page, in Markdown."""
    manifests = list(manifests)
    parts = [HEAD, _searched(manifests)]
    for manifest in manifests:
        claims, searched = {claim["id"]: claim for claim in manifest["claims"]}, stored(manifest["id"])
        dropped, open_ = [], []
        for id, each in searched.items():
            if id not in claims:
                continue
            name = f"{', '.join(claims[id]['statement'])} (`{id}`)"
            dropped += [(name, finding) for finding in each["findings"] if finding["dropped"]]
            inside = [(name, finding) for finding in each["findings"] if not finding["dropped"]]
            open_ += [] if each["expected"] else [row for row in inside if row[1]["outcome"] == "counterexample"]
        parts += [f"## {manifest['title']}\n"] if dropped or open_ else []
        if open_:
            rows = [(name, _outcome(finding, "")) for name, finding in open_]
            parts.append(table("Should hold, and does not everywhere", ("statement", "counterexample"), rows))
        parts += _pairs(dropped)
    return "\n".join([*parts, *_known(manifests)])


def _searched(manifests: Sequence[Manifest]) -> str:
    """How many statements and pairs were searched, per paper."""
    rows = []
    for manifest in manifests:
        ids = {claim["id"] for claim in manifest["claims"]}
        each = [found for id, found in stored(manifest["id"]).items() if id in ids and not found["expected"]]
        pairs = [finding for found in each for finding in found["findings"] if finding["dropped"]]
        judged = [finding for finding in pairs if finding["judged"]]
        needed = [finding for finding in judged if finding["outcome"] == "counterexample"]
        if each:
            rows.append((f"`{manifest['id']}`", *map(str, (len(each), len(pairs), len(judged), len(needed)))))
    columns = ("paper", "statements searched", "pairs searched", "pairs judged", "needed")
    return table("How much was searched", columns, rows, level=2)


def _known(manifests: Sequence[Manifest]) -> Iterator[str]:
    """All statements that are known to be false: found again by a search, or constructed and certified."""
    rows, found_again, slowest = [], 0, 0.0
    for manifest in manifests:
        searched = stored(manifest["id"])
        for claim in manifest["claims"]:
            if claim["kind"] not in ABOUT_PRINT:
                continue
            inside = [each for each in searched.get(claim["id"], NOTHING)["findings"] if not each["dropped"]]
            found = next((each for each in inside if each["outcome"] == "counterexample"), None)
            name = f"{', '.join(claim['statement'])} (`{manifest['id']}/{claim['id']}`)"
            certificate = f"`{claim['certificate']}`" if claim["certificate"] else ""
            if found:
                found_again, slowest = found_again + 1, max(slowest, found["found_after"])
                points = str(found["looked_at"]), _seconds(found["found_after"])
                rows.append((name, _outcome(found, ""), *points, certificate))
            else:
                rows.append((name, "not found again", *[str(each["looked_at"]) for each in inside], "", certificate))
    if rows:
        columns = ("statement", "counterexample of the search", "points looked at", "found after", "certificate")
        yield KNOWN.format(count=len(rows), found=found_again, slowest=slowest)
        yield table("Counterexamples", columns, rows)


def _pairs(dropped: Sequence[tuple[str, Mapping[str, Any]]]) -> Iterator[str]:
    """What happens without each hypothesis, and why some pairs were not judged."""
    columns = ("statement", "without", "what happens", "points judged")
    for title, wanted in {"Needed": True, "Not seen to be needed": False}.items():
        rows = [
            (name, f"`{_barred(finding['dropped'])}`", _outcome(finding, "true there"), str(finding["judged"]))
            for name, finding in dropped
            if finding["judged"] and (finding["outcome"] == "counterexample") is wanted
        ]
        if rows:
            yield table(title, columns, rows)
    silent: dict[tuple[str, str], list[str]] = {}
    for name, finding in dropped:
        if not finding["judged"]:
            why = re.sub(r"\([\d,]+ tried\)|\b\d+ (?!s\b)", "", finding.get("note") or BRIEF).strip()
            silent.setdefault((f"`{_barred(finding['dropped'])}`", why), []).append(name.rpartition("(")[2].rstrip(")"))
    if silent:
        rows = [(hypothesis, ", ".join(names), _barred(why)) for (hypothesis, why), names in silent.items()]
        yield table("Not judged", ("without", "statements", "why"), rows)
    if dropped:
        needed = sum(finding["outcome"] == "counterexample" for _, finding in dropped)
        judged = sum(finding["judged"] > 0 for _, finding in dropped)
        yield (
            f"Of {len(dropped)} pairs of statement and hypothesis, {judged} were judged; in {needed} the conclusion is"
            " false without the hypothesis.\n"
        )


def _outcome(finding: Mapping[str, Any], otherwise: str) -> str:
    if finding["outcome"] == "nothing to look at":
        return "not judged"
    measured = f"{_barred(finding['quantity'])}: {finding['measured']:.3g}, required {finding['required']:.3g}"
    if finding["outcome"] != "counterexample":
        return f"{otherwise}; nearest: {measured}"
    sizes = ", ".join(f"`{path}={value}`" for path, value in finding["sizes"].items())
    return f"**false at** {sizes}; {measured}"


def _barred(text: str) -> str:
    """A name or a note for a cell of a table; it has no formulas in LaTeX, so a bar stays a bar."""
    return text.replace("|", r"\|")


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.1f} s"


def stored(paper: str) -> dict[str, Any]:
    """What was found about the claims of a paper."""
    file = PAPERS / paper / FILE
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}


def main(words: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m stairwise.lab.ledger.assumptions", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("targets", nargs="*", metavar="PAPER[/CLAIM]", help="what to search (default: all papers)")
    parser.add_argument("--search", action="store_true", help="search before the page is written")
    parser.add_argument("--left", action="store_true", help="search only what no search has judged yet")
    parser.add_argument("--jobs", type=int, default=1, help="claims at a time (default: 1)")
    parser.add_argument("--minutes", type=float, default=8.0, help="for all searches together (default: 8)")
    parser.add_argument("--limit", type=float, default=10.0, help="seconds that one point may take (default: 10)")
    parser.add_argument("--points", type=int, help="end each search after so many points, at the latest")
    parser.add_argument(
        "--out", type=Path, help="write PAPER/falsified.json here, and no page (default: beside the code)"
    )
    options = parser.parse_args(words)
    if options.search:
        from stairwise.lab.ledger.searching import together

        targets = options.targets or list(built_in())
        most = math.inf if options.points is None else options.points
        shares = options.jobs, 60 * options.minutes, options.limit
        together.search(targets, *shares, options.out or PAPERS, left=options.left, most=most)
    if options.out is None:
        PAGE.write_text(page([read(id) for id in built_in()]), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
