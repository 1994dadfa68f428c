"""Whether a site would become what it already is: one digest of everything that it is made from.

It is taken only of stores whose trials are all in the index. A smaller store is built in the usual way, which is quick.
"""

import hashlib
import json
from pathlib import Path

from stairwise.lab import registry
from stairwise.lab.store import provenance
from stairwise.lab.store.entries import below
from stairwise.lab.store.files import StoreError, read_file
from stairwise.lab.store.store import Store


def made_from(store: Store, docs: str) -> str:
    """The digest of trials, runs, verdicts and code, and of what the caller asks for; empty where none can be given."""
    index = store.index()
    index.refresh()
    if not index.segments or index.missing():
        return ""
    plug_ins = registry.plug_ins()
    try:
        facts = [
            docs,
            sorted(index.beginnings.items()),
            [[str(path), _digest(path)] for path in below(store.root / "runs", 1)],
            [[str(path), _digest(path)] for path in below(store.root / "verdicts", 3)],
            [str(path) for path in below(store.root / "damaged", 1)],
            [_code(module) for module in ("stairwise", *plug_ins.modules.values())],
            sorted(plug_ins.broken.items()),
            provenance.versions(),
        ]
    except (OSError, ValueError, StoreError):  # something that is missing or unreadable: the build will say so
        return ""
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def _digest(path: Path) -> str:
    return hashlib.sha256(read_file(path)).hexdigest()


def _code(module: str) -> str:
    """Of every file of a package: templates, records and manifests are shown too."""
    place = provenance.locate(module)
    paths = sorted(place.rglob("*")) if place.is_dir() else [place]
    found = [
        [path.relative_to(place).as_posix(), hashlib.sha256(path.read_bytes()).hexdigest()]
        for path in paths
        if path.is_file() and "__pycache__" not in path.parts
    ]
    return hashlib.sha256(json.dumps(found).encode()).hexdigest()
