"""Checkpoints of unfinished work: named arrays and a little JSON in a file, whole or absent, not believed when altered.

The file is an ordinary safetensors file. Its single metadata entry holds the sha256 of the whole file (taken with
zeros in the digest's own place) and the JSON, so that any altered byte shows.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stairwise.lab.store.files import (
    StoreError,
    decode_arrays,
    encode_arrays,
    explained,
    parse,
    read_file,
    regular,
    remove,
    render,
    replace_file,
)

ENTRY = "stairwise"
HEADER = 2**26  # bytes at most: an altered file may claim any number
BLANK = b"0" * 64  # where the digest goes: first thing in the entry, which is first in the file


@dataclass(frozen=True)
class Checkpoint:
    """The checkpoint at `path`, if there is one; `scratch` is where a new one is written before it takes its place."""

    path: Path
    scratch: Path

    def save(self, arrays: Mapping[str, Any], meta: Mapping[str, Any]) -> None:
        """Replaces the checkpoint in one step; a crash leaves the one before."""
        data = encode_arrays(arrays, {ENTRY: (BLANK + render(meta)).decode()})
        data = data.replace(BLANK, hashlib.sha256(data).hexdigest().encode(), 1)
        with explained(f"write checkpoint {self.path}"):
            replace_file(self.path, data, self.scratch)

    def load(self) -> tuple[dict[str, np.ndarray], dict[str, Any]] | None:
        """The arrays, bit for bit, and the JSON; None when there is no checkpoint. A damaged one is removed."""
        with explained(f"read checkpoint {self.path}"):
            try:
                with regular(self.path) as file:
                    data = file.read()
            except FileNotFoundError:
                return None
        try:
            return _decode(data)
        except (ValueError, KeyError, TypeError, RecursionError):  # whatever altered JSON can lead to
            self.remove()
            return None

    def peek(self) -> dict[str, Any] | None:
        """The JSON alone; None when there is no checkpoint, or a damaged one, which stays."""
        try:
            return _decode(read_file(self.path))[1]
        except (StoreError, ValueError, KeyError, TypeError, RecursionError):
            return None

    def glance(self) -> dict[str, Any]:
        """The JSON as it stands in the header, not compared with the digest; empty where it cannot be read."""
        try:
            with regular(self.path) as file:
                length = min(int.from_bytes(file.read(8), "little"), HEADER)
                found = parse(_entry(file.read(length))[64:])
        except (OSError, StoreError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    def remove(self) -> None:
        """Forgets the checkpoint."""
        remove(self.path)


def _decode(data: bytes) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    length = int.from_bytes(data[:8], "little")
    entry = _entry(data[8 : 8 + length])
    digest, meta = entry[:64], entry[64:]
    if hashlib.sha256(data.replace(digest, BLANK, 1)).hexdigest().encode() != digest:
        raise ValueError("digest differs")
    return decode_arrays(data), parse(meta)


def _entry(header: bytes) -> bytes:
    return json.loads(header.decode())["__metadata__"][ENTRY].encode()
