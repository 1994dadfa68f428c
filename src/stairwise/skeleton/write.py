"""`stairwise new-paper`: the skeleton under another name, as a project of its own; whole or not at all.

The skeleton is a package that works where it lies, so a new paper is a copy of its files with three texts replaced:
the module, the id (which is also the name of the distribution) and the title.
"""

import importlib.util
import json
import keyword
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from stairwise.lab import registry
from stairwise.config import ConfigError
from stairwise.lab.store.files import explained, replacing

HERE = Path(__file__).parent
MODULE, ID, TITLE = "stairwise.skeleton.paper", "marked-token", "Attention finds the marked token"
LONGEST_NAME, LONGEST_TITLE = 40, 200


def new_paper(name: str, into: str | None = None, title: str | None = None) -> Path:
    """Write the project of a paper whose package is `name`, into a folder that is new or empty (default: ./name)."""
    _check_name(name)
    title = _check_title(TITLE if title is None else title)
    folder = _check_folder(Path(into or name))
    files = dict(_files(name, title))
    with explained(f"write {folder}"):
        _fill(folder, files) if os.path.isdir(folder) else _create(folder, files)
    return folder


def _create(folder: Path, files: Mapping[str, str]) -> None:
    """Write beside it and rename: it is there when it is complete."""
    with replacing(folder.absolute()) as temporary:
        _write(temporary, files)


def _fill(folder: Path, files: Mapping[str, str]) -> None:
    """Write into a folder that is empty, and may be a working directory; it is empty again where that fails."""
    try:
        _write(folder, files)
    except BaseException:
        for path in folder.iterdir():
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
        raise


def _write(folder: Path, files: Mapping[str, str]) -> None:
    for place, text in files.items():
        path = folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def id_of(name: str) -> str:
    """The id of the paper whose package is `name`, and the name of its distribution.

    >>> id_of("in_context_regression")
    'in-context-regression'
    """
    return name.replace("_", "-")


def _files(name: str, title: str) -> Iterator[tuple[str, str]]:
    """Every file of the project: where it goes, and its text."""
    places = {HERE / "pyproject.template": "pyproject.toml", HERE / "tests.py": f"tests/test_{name}.py"}
    for path in sorted((HERE / "paper").iterdir()):
        if path.suffix in (".py", ".md"):
            places[path] = f"src/{name}/{path.name}"
    quoted = json.dumps(title, ensure_ascii=False)  # a string of Python and of TOML alike
    for path, place in places.items():
        text = path.read_text(encoding="utf-8").replace(MODULE, name).replace(ID, id_of(name))
        yield place, text.replace(f'"{TITLE}"', quoted).replace(TITLE, title)


def _check_name(name: str) -> None:
    shown = "".join(letter if letter.isprintable() else "?" for letter in name)[:60]
    if keyword.iskeyword(name):
        raise ConfigError(f"name={name} must not be a keyword of Python; {name}_paper, for example, is none")
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name) or len(name) > LONGEST_NAME:
        rule = f"an identifier of at most {LONGEST_NAME} lower-case letters, digits and single underscores"
        raise ConfigError(f"name={shown} must be {rule}, such as {_suggestion(name)}")
    taken = registry.modules()
    if id_of(name) in taken or name in taken:
        known = id_of(name) if id_of(name) in taken else name
        raise ConfigError(f"name={name} must not be that of an installed paper: {known} ({taken[known]})")
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.origin is not None:  # a folder that merely lies here has no origin
        raise ConfigError(f"name={name} must not be that of an installed module ({spec.origin})")


def _suggestion(name: str) -> str:
    near = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_0123456789")[:LONGEST_NAME].strip("_")
    return "my_paper" if not near or keyword.iskeyword(near) else near


def _check_title(title: str) -> str:
    title = title.strip()
    if not title.isprintable() or not 1 <= len(title) <= LONGEST_TITLE:
        raise ConfigError(f"title must be one printable line of 1..{LONGEST_TITLE} characters")
    return title


def _check_folder(folder: Path) -> Path:
    if not os.path.isdir(folder.absolute().parent):
        raise ConfigError(f"into={folder} must lie in a folder that exists")
    if os.path.islink(folder) or (os.path.lexists(folder) and not os.path.isdir(folder)):
        raise ConfigError(f"into={folder} must be a folder")
    with explained(f"read {folder}"):
        if os.path.isdir(folder) and os.listdir(folder):
            raise ConfigError(f"into={folder} must be new or empty")
    return folder
