"""What the sites of all stores show alike, made once: pictures and curves of published trials, stories, source code.

It lies in the user's cache folder and may be deleted at any time. What a step of a build wrote and found out is one
file, named by the digest of all that it was made from and of all installed code. The file begins with the digest of
the rest, so that one that is not as it was written counts as none. Where all of them take too much room, those that
were not used for longest go.
"""

import hashlib
import json
import os
import zlib
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from stairwise.lab.run.execute import cache_folder
from stairwise.lab.store.files import StoreError, entries, read_file, replacing
from stairwise.report.site import unchanged

MOST_BYTES = 200_000_000  # of all files
DIGEST_BYTES = 32

Made = tuple[dict[str, bytes], Any]


def default_folder() -> Path:
    return cache_folder() / "report"


class Shared:
    """What builds on this machine have made of what is not the user's own."""

    def __init__(self, folder: Path | None = None):
        self.folder = folder or default_folder()
        self.changed = False

    @cached_property
    def installed(self) -> str:
        return unchanged.installed()

    def _place(self, name: str, inputs: str) -> Path:
        return self.folder / hashlib.sha256(json.dumps([name, inputs, self.installed]).encode()).hexdigest()

    def take(self, name: str, inputs: str) -> Made | None:
        """The files and the result of a step; None where nobody has made it of the same inputs."""
        path = self._place(name, inputs)
        try:
            data = read_file(path)
            if hashlib.sha256(data[DIGEST_BYTES:]).digest() != data[:DIGEST_BYTES]:
                return None
            head, _, body = zlib.decompress(data[DIGEST_BYTES:]).partition(b"\n")
            with suppress(OSError):
                os.utime(path)  # used now
        except (StoreError, zlib.error):
            return None
        about, files, begin = json.loads(head), {}, 0
        for file, size in about["files"]:
            files[file] = body[begin : begin + size]
            begin += size
        return files, about["result"]

    def keep(self, name: str, inputs: str, files: Mapping[str, bytes], result: Any) -> None:
        """For the next build; nothing is kept where that cannot be written."""
        about = {"files": [[file, len(data)] for file, data in files.items()], "result": result}
        packed = zlib.compress(json.dumps(about).encode() + b"\n" + b"".join(files.values()), 1)
        with suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            with replacing(self._place(name, inputs), self.folder) as temporary:
                temporary.write_bytes(hashlib.sha256(packed).digest() + packed)
            self.changed = True

    def tidy(self) -> None:
        """Removes what was not used for longest, where there is too much."""
        if not self.changed:
            return
        found = []
        for path in entries(self.folder):
            with suppress(OSError):  # another build has removed it
                facts = path.stat()
                found.append((facts.st_mtime_ns, facts.st_size, path))
        room = MOST_BYTES
        for _, size, path in sorted(found, reverse=True):
            room -= size
            if room < 0:
                with suppress(OSError):
                    path.unlink()
