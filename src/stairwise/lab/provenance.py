"""What a result was made with: versions, machine, and a hash of the code that it depends on."""

import hashlib
import importlib.util
import os
import platform
import re
from functools import cache
from importlib.machinery import PathFinder
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("stairwise", "jax", "jaxlib", "numpy", "equinox", "optax")
SHOWN = ("figures", "presets", "microscope", "answers", "weights")
ROOMS = ("stairwise.nn", "stairwise.tasks", "stairwise.train", "stairwise.measure")


@cache
def versions() -> dict[str, str | None]:
    """The versions of Python and of the packages that results depend on; None for one that is not installed."""
    return {"python": platform.python_version(), **{package: _version(package) for package in PACKAGES}}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def machine() -> dict[str, Any]:
    """The cores this process may use, the platform and the processor; nothing that names the machine or its user."""
    return {"cores": _cores(), "platform": platform.platform(), "processor": _processor()}


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def _processor() -> str:
    try:
        model = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        model = None
    return model[1] if model else platform.processor()


@cache
def source_hash(module: str, claims: bool = False) -> str:
    """The sha256 of the code behind a paper's trials, or with `claims` of that behind its verdicts.

    That is the shared rooms and the paper's own files, without what only shows (figures, microscope, answers), names
    (presets) or, for trials, judges (claims). `module` is the paper's package, a plug-in's too. Nothing is imported.
    """
    digest = hashlib.sha256()
    for name in (*ROOMS, module):
        for label, path in _sources(name):
            if label.split("/")[0].removesuffix(".py") in (SHOWN if claims else (*SHOWN, "claims")):
                continue
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            digest.update(f"{name} {label} {content}\n".encode())
    return digest.hexdigest()


def _sources(module: str) -> list[tuple[str, Path]]:
    """The Python files of a package, or the one of a plain module, by their place in it."""
    place = locate(module)
    if place.is_file():
        return [(place.name, place)]
    files = {path.relative_to(place).as_posix(): path for path in place.rglob("*.py")}
    return sorted(files.items())


def locate(module: str) -> Path:
    """The folder of a package, or the file of a module, found without importing it or its parents.

    >>> locate("email.mime").name, locate("email.mime.text").name
    ('mime', 'text.py')
    """
    top, *below = module.split(".")
    spec = importlib.util.find_spec(top)
    name = top
    for part in below:
        name = f"{name}.{part}"
        inside = spec.submodule_search_locations if spec else None
        spec = PathFinder.find_spec(name, list(inside)) if inside else None
    if spec is None:
        raise ValueError(f"module={module} cannot be found")
    if spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations)))
    return Path(spec.origin or "")
