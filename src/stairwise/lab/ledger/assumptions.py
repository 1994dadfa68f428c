"""What breaks without each assumption, and where: searches of the claims, kept as data, and the page made from them.

`python -m stairwise.lab.ledger.assumptions` writes the page from the files `falsified.json` beside the papers' code;
`... --seconds 12 PAPER[/CLAIM] ...` first searches these claims for so long, and writes down what it finds.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from stairwise.lab.contract.manifest import PAPERS, Manifest, built_in, read
from stairwise.lab.ledger.errata import cell, table
from stairwise.lab.ledger.falsify import OUTCOMES

FILE = "falsified.json"
PAGE = PAPERS.parents[2] / "docs" / "assumptions.md"  # in a checkout
HEAD = """# What breaks without an assumption

Each theorem of the papers has hypotheses. This page says which of them we saw to be needed: with one hypothesis
dropped and the others met, is there a point at which the conclusion is false? It is generated from stored searches
(`python -m stairwise.lab.ledger.assumptions`) of a few seconds each; `falsified.json` beside the code of a paper has
them, with commit and command.
[Search for a counterexample](how-to/falsify.md) says which points are looked at, and how to search for longer.

- **false at**: the conclusion is false there, and the sizes are as small as bisection makes them. `stairwise verify`
  with these fields shows it.
- **not seen to be needed**: the conclusion was true at every point that was judged; the nearest one is shown.
  The hypothesis may still be needed by the proof, at other sizes, or for a stronger constant.
- A pair of statement and hypothesis was **not judged** where no point that was looked at breaks this hypothesis and
  meets the others, in the time that there was.
- A statement that **should hold, and does not everywhere** is false at a point that meets the hypotheses as its claim
  has them. That is a defect of the claim until shown otherwise: a hypothesis such as "for large d" that it does not
  state, or a check that stops too early.
"""


def page(manifests: Iterable[Manifest]) -> str:
    """The whole page, in Markdown."""
    parts = [HEAD]
    for manifest in manifests:
        claims, searched = {claim["id"]: claim for claim in manifest["claims"]}, stored(manifest["id"])
        dropped, again, open_ = [], [], []
        for id, each in searched.items():
            if id not in claims:
                continue
            name = f"{', '.join(claims[id]['statement'])} (`{id}`)"
            dropped += [(name, finding) for finding in each["findings"] if finding["dropped"]]
            inside = [(name, finding) for finding in each["findings"] if not finding["dropped"]]
            again += inside if each["expected"] else []
            open_ += [] if each["expected"] else [row for row in inside if row[1]["outcome"] == "counterexample"]
        parts += [f"## {manifest['title']}\n"] if dropped or again else []
        if open_:
            rows = [(name, _outcome(finding, "")) for name, finding in open_]
            parts.append(table("Should hold, and does not everywhere", ("statement", "counterexample"), rows))
        if dropped:
            rows = [
                (name, cell(finding["dropped"]), _outcome(finding, "not seen to be needed"), str(finding["judged"]))
                for name, finding in sorted(dropped, key=lambda row: OUTCOMES.index(row[1]["outcome"]))
                if finding["judged"]
            ]
            parts.append(table("Assumptions", ("statement", "without", "what happens", "points judged"), rows))
            parts.append(
                f"Of {len(dropped)} pairs of statement and hypothesis, {len(dropped) - len(rows)} were not judged.\n"
            )
        if again:
            rows = [
                (name, _outcome(finding, "not found"), str(finding["looked_at"]), _seconds(finding["found_after"]))
                for name, finding in again
            ]
            columns = ("statement", "counterexample", "points looked at", "found after")
            parts.append(table("Known to be false, and found again", columns, rows))
    return "\n".join(parts)


def _outcome(finding: Mapping[str, Any], otherwise: str) -> str:
    if finding["outcome"] == "nothing to look at":
        return "not judged"
    measured = f"{cell(finding['quantity'])} {finding['measured']:.3g}, required {finding['required']:.3g}"
    if finding["outcome"] != "counterexample":
        return f"{otherwise}; nearest: {measured}"
    sizes = ", ".join(f"`{path}={value}`" for path, value in finding["sizes"].items())
    return f"**false at** {sizes}: {measured}"


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.1f} s"


def stored(paper: str) -> dict[str, Any]:
    """What was found about the claims of a paper."""
    file = PAPERS / paper / FILE
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}


def search(targets: list[str], seconds: float) -> None:
    """Search claims, those known to be false only inside their hypotheses, and keep what is found beside the paper."""
    from stairwise.config import ConfigError
    from stairwise.lab import registry
    from stairwise.lab.ledger import falsify

    asked = ["git", "-C", str(PAPERS), "rev-parse", "--short=12", "HEAD"]
    commit = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    for claim, named in registry.claims(targets):
        if claim.check is None or (claim.tier != "instant" and not named):
            continue
        drop = "" if falsify.expected(claim) else None
        if drop is None and claim.hypotheses is None:
            continue
        try:
            result = falsify.falsify(claim, minutes=seconds / 60, drop=drop, limit=min(seconds / 2, falsify.LIMIT))
        except ConfigError as error:
            print(f"{claim.name}: {error}", flush=True)
            continue
        command = f"stairwise falsify {claim.name} --minutes {seconds / 60:g}" + (" --drop ''" if drop == "" else "")
        made = {"commit": commit, "command": command}
        known = stored(claim.paper) | {claim.id: {**made, **result.as_dict()}}
        ordered = {each.id: known[each.id] for each in registry.paper(claim.paper).claims if each.id in known}
        text = json.dumps(ordered, indent=1, ensure_ascii=False)
        (PAPERS / claim.paper / FILE).write_text(f"{text}\n", encoding="utf-8")
        for finding in result.findings:
            where = f"without {finding.dropped}" if finding.dropped else "inside"
            said = f"{finding.outcome}, {finding.judged} of {finding.looked_at} points, {finding.seconds:.1f} s"
            print(f"{claim.name} {where}: {said} {finding.command}", flush=True)


def main(words: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m stairwise.lab.ledger.assumptions", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("targets", nargs="*", metavar="PAPER[/CLAIM]", help="search these first")
    parser.add_argument("--seconds", type=float, default=12.0, help="for the searches of one claim (default: 12)")
    options = parser.parse_args(words)
    if options.targets:
        search(options.targets, options.seconds)
    PAGE.write_text(page([read(id) for id in built_in()]), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
