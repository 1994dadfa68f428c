"""Write what is made from the claims: manifests, the maps in the papers' READMEs, counts, and five pages of docs.

    python -m stairwise.lab.ledger [--statuses [PAPER ...] | --laws [PAPER ...]]

With `--statuses` the instant claims are checked at seed 0, and the status of every case is written down as well. With
`--laws` the exponents of the rates are measured, and their curves are written down and drawn.
"""

import importlib
import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stairwise.lab.contract.manifest import FILE, PAPERS, describe, read
from stairwise.lab.ledger import assumptions, audited, errata, laws, statements
from stairwise.lab.ledger.verify import verify
from stairwise.lab.ledger.where import with_map

README = PAPERS.parents[2] / "README.md"  # in a checkout
OURS = "crossings"


def found_statuses(paper: str) -> dict[str, dict[str, str]]:
    """The statuses of every instant claim of a paper, by claim and case, at seed 0."""
    return {
        row.claim.id: {case["case"]: case["status"] for case in row.verdict.cases if case["seed"] == 0}
        for row in verify([paper])
        if row.claim.check is not None and row.verdict.status != "skipped"
    }


def write(folder: Path, paper: Any, statuses: Mapping[str, Mapping[str, str]]) -> None:
    """Write the file of a paper, and the map in its README; statuses of claims that it no longer has are left out."""
    ids = [claim.id for claim in paper.claims]
    known = {id: dict(statuses[id]) for id in ids if id in statuses}
    described = describe(paper)
    text = json.dumps({**described, "statuses": known}, indent=1, ensure_ascii=False)
    (folder / FILE).write_text(f"{text}\n", encoding="utf-8")
    page = folder / "README.md"
    page.write_text(with_map(page.read_text(encoding="utf-8"), described, folder), encoding="utf-8")


def with_counts(text: str, known: Sequence[Mapping[str, Any]]) -> str:
    """The README with as many claims as each paper has, and their sum over the papers without our own study."""
    counts = {paper["id"]: len(paper["claims"]) for paper in known}
    for id, count in counts.items():
        text = re.sub(rf"^(\| `{id}` \| [^|]+ \| )\d+( \|)", rf"\g<1>{count}\g<2>", text, flags=re.MULTILINE)
    total = sum(count for id, count in counts.items() if id != OURS)
    return re.sub(r"numerically by \d+ \[claims\]", f"numerically by {total} [claims]", text)


def main(words: list[str]) -> None:
    packages = sorted(path.parent.name for path in PAPERS.glob("*/__init__.py"))
    chosen = words[1:] or packages
    checked, measured = (chosen if words[:1] == [option] else [] for option in ("--statuses", "--laws"))
    for package in packages:
        paper = importlib.import_module(f"stairwise.papers.{package}").PAPER
        statuses = read(package).get("statuses", {}) if (PAPERS / package / FILE).is_file() else {}
        if package in checked:
            statuses = found_statuses(package)
        write(PAPERS / package, paper, statuses)
        if package in measured:
            laws.keep(paper, PAPERS / package)
    known = [json.loads((PAPERS / package / FILE).read_text(encoding="utf-8")) for package in packages]
    pages = {errata.PAGE: errata.page, statements.PAGE: statements.page, assumptions.PAGE: assumptions.page}
    for file, page in pages.items():
        if file.is_file():
            file.write_text(page(known), encoding="utf-8")
    if README.is_file():
        README.write_text(with_counts(README.read_text(encoding="utf-8"), known), encoding="utf-8")
    audited.write_page()
    laws.write_page(known)
    for package, found in laws.kept_files().items():
        if package in measured and laws.PAGE.parent.is_dir():
            laws.draw(found, laws.PICTURES / f"{package}.svg")


if __name__ == "__main__":
    main(sys.argv[1:])
