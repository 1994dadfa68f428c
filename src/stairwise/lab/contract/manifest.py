"""What a paper offers, as plain data in a file beside its code: listing and checking names import neither it nor JAX.

The file is made from the code (`python -m stairwise.lab.ledger`); a test compares the two. It also has the status of
every case of the instant claims, which `verify` expects from then on. A plug-in without such a file is imported.
"""

import difflib
import fnmatch
import importlib.metadata
import json
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from stairwise.config import ConfigError

FILE = "manifest.json"
PAPERS = Path(__file__).parents[2] / "papers"
GROUP = "stairwise.papers"  # entry points of plug-ins
Manifest = dict[str, Any]
KINDS = ("exact", "bound", "rate", "refuted", "misprint", "reported", "empirical")  # the forms of `lab.contract.claims`
TIERS = ("instant", "minutes", "gpu")


def built_in() -> list[str]:
    """The papers of this package, which are named as their folders are."""
    return sorted(path.parent.name for path in PAPERS.glob(f"*/{FILE}"))


@cache
def read(id: str) -> Manifest:
    return json.loads((PAPERS / id / FILE).read_text(encoding="utf-8"))


def plug_ins() -> list[Any]:
    """Their entry points, in the order of names, whatever order the file system has.

    Of the standard library's class, or of that of `importlib_metadata`, which takes its place once it is imported.
    """
    return sorted(importlib.metadata.entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value))


def describe(paper: Any) -> Manifest:
    """The manifest of a `Paper`."""
    from stairwise.lab.contract.claims import place_of
    from stairwise.lab.contract.code import code_of

    return {
        "id": paper.id,
        "title": paper.title,
        "authors": paper.authors,
        "year": paper.year,
        "venue": paper.venue,
        "arxiv": paper.arxiv,
        "summary": paper.summary,
        "experiments": [
            {
                "id": each.id,
                "says": each.says,
                "presets": {name: f"{len(preset.arms)}x{preset.seeds}" for name, preset in each.presets.items()},
                "figures": [figure.id for figure in each.figures],
                "code": list(code_of(each)),
            }
            for each in paper.experiments
        ],
        "figures": [
            {"id": each.id, "caption": each.caption, "experiment": each.experiment, "headline": each.headline}
            for each in paper.figures
        ],
        "claims": [
            {
                "id": each.id,
                "says": each.says,
                "kind": each.kind,
                "tier": each.tier,
                "experiment": each.experiment,
                "aliases": list(each.aliases),
                "statement": list(each.statement),
                "strength": each.strength,
                "check": each.source,
                "of": [place_of(function) for function in each.of],
                "corrected": each.corrected,
                "certificate": each.certificate,
                "corrects": list(each.corrects),
                "means": each.means,
                "argument": each.argument,
            }
            for each in paper.claims
        ],
        "constructions": [{"id": each.id, "says": each.says} for each in paper.constructions],
        "tasks": [{"id": each.id, "says": each.says} for each in paper.tasks],
    }


# --- names ------------------------------------------------------------------------------------------------------------


def check_name(target: str, *kinds: str) -> None:
    """Refuse "paper/name" where no experiment, figure, ... of the paper has that name; papers that have a file only."""
    owner, slash, id = target.partition("/")
    known = built_in()
    if owner not in known:
        if not plug_ins():
            raise ConfigError(unknown_paper(owner, known))
        return
    if not slash:
        return
    manifest = read(owner)
    names = [name for kind in kinds for each in manifest[kind] for name in (each["id"], *each.get("aliases", ()))]
    if kinds == ("claims",) and is_pattern(id):
        if not fnmatch.filter(names, id):
            raise ConfigError(f"no claim of {owner} matches {id}: stairwise list {owner} --claims names them")
        return
    if id not in names:
        said = unknown(f"{kinds[0].removesuffix('s')} of {owner}", id, names)
        listed = f"stairwise list {owner}{' --claims' if kinds[0] == 'claims' else ''} lists them"
        raise ConfigError(re.sub(r"\d+ are known\)$", f"{listed})", said))


def is_pattern(id: str) -> bool:
    """Whether it means all names like it ("thm4.1*") rather than one."""
    return any(mark in id for mark in "*?[")


def unknown_paper(id: str, known: Iterable[str]) -> str:
    return unknown("paper", id, known)


FEW = 20  # names that can be read in one line


def unknown(what: str, id: str, known: Iterable[str]) -> str:
    """One line for a name that nothing has: the nearest ones, and all where they are few or none is near."""
    names = list(dict.fromkeys(known))
    near = [name for name in names if id and name.startswith(id)][:3] or difflib.get_close_matches(id, names, n=3)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    if near and len(names) > FEW:
        return f"unknown {what}: {id}{hint} ({len(names)} are known)"
    return f"unknown {what}: {id}{hint} (known: {', '.join(names)})"


# --- statuses ---------------------------------------------------------------------------------------------------------


def expected(claim: str) -> dict[str, str]:
    """The statuses that a claim ("paper/id") is known to have, by case; empty where none has been written down."""
    paper, _, id = claim.partition("/")
    return read(paper).get("statuses", {}).get(id, {}) if paper in built_in() else {}
