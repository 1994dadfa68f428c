"""A folder of files that is whole or absent, with `stairwise.json`: what it is, and the digests of the other files."""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stairwise.config import ConfigError, short
from stairwise.lab.store.files import (
    Damaged,
    explained,
    read_file,
    read_sealed,
    replacing,
    seal,
    sync_folder,
    write_file,
)

FORMAT = 1
DESCRIPTION = "stairwise.json"


def check_free(folder: Path) -> None:
    """ConfigError unless a folder can be made there: nothing is ever written over."""
    if not folder.absolute().parent.is_dir():
        raise ConfigError(f"out={folder} must lie in a folder that exists")
    if os.path.lexists(folder) and not (folder.is_dir() and not any(folder.iterdir())):
        raise ConfigError(f"out={folder} must not exist yet, or be an empty folder")


def write_described(folder: Path, files: Mapping[str, bytes], description: Mapping[str, Any]) -> None:
    """Writes files and their description into a new folder: all of it, or nothing."""
    digests = {name: {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)} for name, data in files.items()}
    sealed = seal({**description, "format": FORMAT, "files": digests})
    check_free(folder)
    with explained(f"write {folder}"):
        with replacing(folder.absolute()) as temporary:
            temporary.mkdir()
            for name, data in {**files, DESCRIPTION: sealed}.items():
                write_file(temporary / name, data)
            sync_folder(temporary)
        sync_folder(folder.absolute().parent)


def read_described(folder: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The description and the files it describes; Damaged, naming the file, where one is not as it was written."""
    description = read_sealed(folder / DESCRIPTION)
    if description.get("format") != FORMAT:
        raise Damaged(folder, f"{DESCRIPTION}: format {description.get('format')} is not the known one, {FORMAT}")
    files = {}
    for name, facts in field(folder, description, "files", dict).items():
        if os.path.basename(name) != name or not isinstance(facts, dict):
            raise Damaged(folder, f"{DESCRIPTION}: files must be names with digests, not {short(name)}")
        files[name] = read_file(folder / name)
        if hashlib.sha256(files[name]).hexdigest() != facts.get("sha256"):
            raise Damaged(folder, f"{name}: digest differs")
    return description, files


def field(folder: Path, description: Mapping[str, Any], name: str, kind: type) -> Any:
    """A field of a description; Damaged where it is missing or of another type, as in one that was written by hand."""
    found = description.get(name)
    if type(found) is not kind:
        there = f"is a {type(found).__name__}" if name in description else "is missing"
        raise Damaged(folder, f"{DESCRIPTION}: {name} {there} and must be a {kind.__name__}")
    return found
