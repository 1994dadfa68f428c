"""What a paper offers, as plain data in a file beside its code: listing and checking names import neither it nor JAX.

`python -m stairwise.lab.manifest` writes the file of every paper of this package; a test compares it with the code.
A plug-in without such a file is imported instead.
"""

import difflib
import importlib.metadata
import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from stairwise.lab.config import ConfigError

FILE = "manifest.json"
PAPERS = Path(__file__).parent.parent / "papers"
GROUP = "stairwise.papers"  # entry points of plug-ins
Manifest = dict[str, Any]
# of claims
KINDS = (
    "definition",
    "construction",
    "identity",
    "bound",
    "convergence",
    "empirical",
    "algorithm",
    "illustration",
    "asymptotic",
)
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


def manifests(id: str | None = None) -> list[Manifest]:
    """What every paper offers, or the one named; plug-ins are imported for it, papers of this package are not."""
    if id in built_in():
        return [read(id)]
    found = [read(name) for name in built_in()]
    if plug_ins():
        from stairwise.lab import registry

        found += [describe(paper) for paper in registry.papers() if paper.id not in built_in()]
    if id is None:
        return found
    chosen = [manifest for manifest in found if manifest["id"] == id]
    if not chosen:
        raise ConfigError(unknown_paper(id, [manifest["id"] for manifest in found]))
    return chosen


def describe(paper: Any) -> Manifest:
    """The manifest of a `Paper`."""
    from stairwise.lab.execute import code_of

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
    if id not in names:
        raise ConfigError(unknown(f"{kinds[0].removesuffix('s')} of {owner}", id, names))


def unknown_paper(id: str, known: Iterable[str]) -> str:
    return unknown("paper", id, known)


def unknown(what: str, id: str, known: Iterable[str]) -> str:
    """One line for a name that nothing has, with the nearest ones."""
    names = list(dict.fromkeys(known))
    near = [name for name in names if id and name.startswith(id)][:3] or difflib.get_close_matches(id, names, n=3)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    return f"unknown {what}: {id}{hint} (known: {', '.join(names)})"


def write(folder: Path, paper: Any) -> None:
    text = json.dumps(describe(paper), indent=1, ensure_ascii=False)
    (folder / FILE).write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    import importlib

    for package in sorted(path.parent.name for path in PAPERS.glob("*/__init__.py")):
        write(PAPERS / package, importlib.import_module(f"stairwise.papers.{package}").PAPER)
