"""Where the word problems of an experiment lie, and which they are: configs name data by content, never by place.

A config that is given a path keeps the digest of what lies there, so that a trial is the same trial on every machine,
shows nobody's folders, and cannot silently be another one after a file has changed. Where that content lies is looked
up when it is needed: a path that was named in this process, or the folder in the environment variable STAIRWISE_GSM8K.
"""

import hashlib
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from stairwise.config import ConfigError
from stairwise.papers.parity_cot.gsm8k import WordProblem, read_problems

VARIABLE = "STAIRWISE_GSM8K"
SPLITS = ("train.jsonl", "test.jsonl")
ADDRESS = re.compile(r"sha256:[0-9a-f]{64}")
# train.jsonl (7473 problems) and test.jsonl (1319) as published with GSM8K
PUBLISHED = "sha256:7b5069add2f6118345c71fda7d3c8eb01cef73451c1a76a7136d061f4caeb332"

_places: dict[str, Path] = {}


class Split(NamedTuple):
    """Problems to train on, and problems to look at."""

    train: list[WordProblem]
    held_out: list[WordProblem]


def address(data: str) -> str:
    """The name of what lies at a path: a folder with train.jsonl and test.jsonl, or one file. A name is its own."""
    if ADDRESS.fullmatch(data):
        return data
    path = Path(data).expanduser()
    files = [path] if path.is_file() else [path / split for split in SPLITS]
    missing = [file for file in files if not file.is_file()]
    if missing or not data:
        hint = f"must be a folder with {' and '.join(SPLITS)}, or a file of JSON lines, that exists"
        raise ConfigError(f"data={data or '(nothing)'} {hint}")
    digests = [hashlib.sha256(file.read_bytes()).digest() for file in files]
    name = f"sha256:{hashlib.sha256(b''.join(digests)).hexdigest()}"
    _places[name] = path
    return name


def place(name: str) -> Path:
    """Where the content of that name lies; looked at again, since a file may have changed."""
    for known in (_places.get(name), os.environ.get(VARIABLE)):
        with suppress(ConfigError):
            if address(str(known or "")) == name:
                return Path(str(known))
    what = "the published GSM8K" if name == PUBLISHED else f"data={name[:20]}..."
    raise ConfigError(
        f"{what} is not here: give --data FOLDER or set {VARIABLE} (a folder with {' and '.join(SPLITS)})"
    )


def read(name: str) -> Split:
    """The problems; of a single file every tenth is held out."""
    path = place(name)
    try:
        if path.is_dir():
            return Split(*(read_problems(path / split) for split in SPLITS))
        problems = read_problems(path)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    held_out = problems[9::10] or problems[-1:]
    return Split([one for k, one in enumerate(problems) if k % 10 != 9] or problems, held_out)
