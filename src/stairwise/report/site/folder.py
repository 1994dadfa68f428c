"""The folder that a site is written to: files that are whole or absent, and a memory of what made them.

`site.json` keeps, for every step of the build, the digest of its inputs, the files it wrote and what it found out. A
step whose inputs are the same and whose files are untouched is not done again; a file whose content is the same is not
written again; a file that an earlier build wrote and this one did not is removed. Nothing else there is touched, and a
folder with a first page that is not a site's is refused. A `site.json` that is damaged is as none: all is built anew.
What is alike on all sites is taken from where an earlier build of any of them has kept it, see `shared`.
"""

import errno
import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from stairwise.config import ConfigError
from stairwise.lab.store.files import (
    StoreError,
    explained,
    read_file,
    read_sealed,
    replace_file,
    replacing,
    seal,
    sweep,
)
from stairwise.report.site.shared import Shared

FIRST, MEMORY = "index.html", "site.json"
MARK = b"assets/stairwise.css"  # every page of a site asks for it
FORMAT = 2
PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}")


class Folder:
    """A site being built in `root`; `shared` has what is alike on all sites."""

    def __init__(self, root: Path, shared: Shared | None = None):
        check_free(root)
        sweep(root)
        self.root, self.shared = root, shared or Shared()
        self.before = _remembered(root / MEMORY)
        self.steps: dict[str, Any] = {}
        self.files: dict[str, str] = {}
        self.written: list[str] = []
        self.redone: list[str] = []

    def step(
        self, name: str, inputs: Any, make: Callable[[], tuple[Mapping[str, bytes], Any]], *, alike: bool = False
    ) -> Any:
        """What `make` finds out, and its files in place; from memory where the inputs are those of the last build.

        `alike`: the inputs say all that it depends on, and nothing of it is the user's own.
        """
        digest = digest_of(inputs)
        if self.remembers(name, inputs, alike=alike):
            last = self.before["steps"][name]
            self.steps[name] = last
            self.files |= last["files"]
            return last["result"]
        files, result = make()
        self.redone.append(name)
        hashes = {path: self.put(path, data) for path, data in files.items()}
        # as it will be read back: the first build and the next show the same
        self.steps[name] = json.loads(json.dumps({"inputs": digest, "files": hashes, "result": result}))
        if alike and not (isinstance(result, dict) and result.get("problem")):  # which is tried again elsewhere
            self.shared.keep(name, digest, files, self.steps[name]["result"])
        return self.steps[name]["result"]

    def remembers(self, name: str, inputs: Any, *, alike: bool = False) -> bool:
        """Whether the last build did this step from the same inputs, and what it wrote is still there.

        Of what is `alike` on all sites: or whether the build of another one did, whose files are put in place then.
        """
        digest, last = digest_of(inputs), self.before["steps"].get(name, {})
        if last.get("inputs") == digest and all(self._intact(*item) for item in last["files"].items()):
            return True
        made = self.shared.take(name, digest) if alike else None
        if made is None:
            return False
        files, result = made
        hashes = {path: self.put(path, data) for path, data in files.items()}
        self.before["steps"][name] = {"inputs": digest, "files": hashes, "result": result}
        return True

    def put(self, name: str, data: bytes) -> str:
        """Puts a file in its place, unless it is there; returns its hash."""
        path, digest = self.root / name, hashlib.sha256(data).hexdigest()
        self.files[name] = digest
        if not self._intact(name, digest):
            with explained(f"write the report to {self.root}"):
                path.parent.mkdir(parents=True, exist_ok=True)
                with replacing(path, self.root) as temporary:
                    temporary.write_bytes(data)
            self.written.append(name)
        return digest

    def whole(self, inputs: str) -> Any:
        """What `close` was told about a site of these inputs, where that site is still there as it was written."""
        last = self.before.get("whole") or {}
        if not inputs or last.get("inputs") != inputs:
            return None
        return last["result"] if all(self._intact(*item) for item in self.before["files"].items()) else None

    def close(self, inputs: str = "", result: Any = None) -> None:
        """Removes what earlier builds left and this one did not write, and remembers this one.

        `inputs` stand for all that it was made from, and `result` is what `whole` gives back.
        """
        for name in self.before["files"]:
            if name not in self.files and _inside(self.root, name):
                with suppress(OSError):
                    (self.root / name).unlink()
                    os.removedirs((self.root / name).parent)  # as far as they are empty
        memory = {"format": FORMAT, "steps": self.steps, "files": self.files}
        memory["whole"] = {"inputs": inputs, "result": result}
        with explained(f"write the report to {self.root}"):
            replace_file(self.root / MEMORY, seal(memory), self.root)
        self.shared.tidy()

    def _intact(self, name: str, digest: str) -> bool:
        with suppress(StoreError):
            return hashlib.sha256(read_file(self.root / name)).hexdigest() == digest
        return False


def digest_of(inputs: Any) -> str:
    return hashlib.sha256(json.dumps(inputs, sort_keys=True, default=str).encode()).hexdigest()


def slug(text: str) -> str:
    """A file's name for any text: the text itself where that is safe.

    >>> slug("thm3.1"), slug("../up")
    ('thm3.1', '___up-8c722b8a')
    """
    if PLAIN_NAME.fullmatch(text):
        return text
    clean = re.sub(r"[^A-Za-z0-9_+-]", "_", text)[:60]
    return f"{clean}-{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:8]}"


def check_free(root: Path) -> None:
    """ConfigError where the folder holds a first page that no build has written, StoreError where nothing can be."""
    first = root / FIRST
    with explained(f"write the report to {root}"):
        root.mkdir(parents=True, exist_ok=True)
        if not os.access(root, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        if os.path.lexists(first) and not (os.path.isfile(first) and _is_page(first.read_bytes())):
            raise ConfigError(f"out={root} must be a new folder or one of a report: its {FIRST} is something else")


def _is_page(content: bytes) -> bool:
    return MARK in content or not content  # a loss of power may leave a file empty


def _remembered(path: Path) -> dict[str, Any]:
    """The last build's memory; an empty one where there is none, or a damaged one."""
    with suppress(StoreError, OSError):
        memory = read_sealed(path)
        if memory["format"] == FORMAT:
            return {"steps": memory["steps"], "files": memory["files"], "whole": memory.get("whole")}
    return {"steps": {}, "files": {}}


def _inside(root: Path, name: str) -> bool:
    return (root / name).resolve().is_relative_to(root.resolve())
