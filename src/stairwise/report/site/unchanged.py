"""Whether a site would become what it already is: one digest of everything that it is made from.

It is taken only of stores whose trials are all in the index. A smaller store is built in the usual way, which is quick.
"""

import hashlib
import json
import secrets
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from stairwise.lab import registry
from stairwise.lab.store import provenance
from stairwise.lab.store.entries import below
from stairwise.lab.store.files import StoreError, read_file
from stairwise.lab.store.store import Store

DRAWN_BY = ("matplotlib", "jinja2", "pygments")


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
            _installed(),
            sorted(plug_ins.broken.items()),
        ]
    except (OSError, ValueError, StoreError):  # something that is missing or unreadable: the build will say so
        return ""
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def installed() -> str:
    """The digest of all installed code, with what comes with it, and of the versions of the libraries.

    Where some of it cannot be read, one that never comes again: what depends on it is made anew.
    """
    try:
        return _installed()
    except (OSError, ValueError):
        return secrets.token_hex(32)


def _installed() -> str:
    modules = ("stairwise", *registry.plug_ins().modules.values())
    facts = [[_code(module) for module in modules], provenance.versions(), [_version(each) for each in DRAWN_BY]]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _digest(path: Path) -> str:
    return hashlib.sha256(read_file(path)).hexdigest()


@cache
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
