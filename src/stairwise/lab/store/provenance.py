"""What a result was made with: versions, machine, and a hash of the code that it depends on."""

import ast
import hashlib
import importlib.util
import os
import platform
import re
import sys
import threading
from collections.abc import Mapping
from functools import cache
from importlib.machinery import PathFinder
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from stairwise.compiler import flag

PACKAGES = ("stairwise", "jax", "jaxlib", "numpy", "equinox", "optax")
ROOMS = ("stairwise.nn", "stairwise.tasks", "stairwise.train", "stairwise.measure")
PAPERS = "stairwise.papers"
FACADE = "stairwise.paper"  # what is imported from it counts as imported from where it is written
PATH = re.compile(r"[/\\~]")
BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
PARSING = threading.Lock()  # Python 3.11 fails where two threads parse at once (cpython issue 106905)
BY_NAME = re.compile(r"""\b(?:lazy|import_module|resolve)\(\s*["']([\w.]+)""")  # modules that are named by a text


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


def compiler_flags(options: Mapping[str, Any] | None = None) -> str:
    """`XLA_FLAGS`, with which programs are compiled, the package's own among them; without paths, which name a user.

    A flag that is written twice counts once, with its last value, as it does for XLA. `options` are those of the
    training loop alone, and come last.
    """
    flags: dict[str, str] = {}
    own = [flag(name, value) for name, value in (options or {}).items()]
    for word in [*os.environ.get("XLA_FLAGS", "").split(), *own]:
        name, is_set, value = word.partition("=")
        flags.pop(name, None)
        flags[name] = f"{name}{is_set}{'...' if PATH.search(value) else value}"
    return " ".join(flags.values())


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


# --- the code behind a result -----------------------------------------------------------------------------------------


@cache
def source_hash(*modules: str) -> str:
    """The sha256 of the code that these modules run: their own files and those of all that they import, see `closure`.

    Nothing is imported. ValueError where one of the modules cannot be found.
    """
    digest = hashlib.sha256()
    for name, path in sorted(closure(*modules).items()):
        digest.update(f"{name} {_facts(path)[0]}\n".encode())
    return digest.hexdigest()


def closure(*modules: str) -> dict[str, Path]:
    """The files of these modules and of what they import, directly or not, by module.

    Only code of papers is followed: the shared rooms, the papers of this package, and the packages that the modules
    themselves lie in. A package's `__init__` counts where something is imported from it, not where it merely leads
    to a module.
    """
    roots = {*ROOMS, PAPERS, *(_root(module) for module in modules)}
    found: dict[str, Path] = {}
    waiting = list(dict.fromkeys(modules))
    for module in waiting:
        if _file(module) is None:
            raise ValueError(f"module={module} cannot be found")
    while waiting:
        module = waiting.pop()
        path = _file(module)
        if module in found or path is None:
            continue
        found[module] = path
        for package, name in _facts(path)[1]:
            target = _home(_absolute(package, module, path), name)
            inside = f"{target}.{name}" if name else target
            chosen = inside if _file(inside) is not None else target
            if any(f"{chosen}.".startswith(f"{root}.") for root in roots):
                waiting.append(chosen)
    return found


def _root(module: str) -> str:
    """The package whose modules count as the same code: the outermost one, but within stairwise the nearest."""
    top, _, rest = module.partition(".")
    return module.rpartition(".")[0] if top == "stairwise" and rest else top


def _home(package: str, name: str) -> str:
    """The package that a name comes from, behind the facade."""
    facade = _file(FACADE)
    if package != FACADE or facade is None:
        return package
    return next((home for home, known in _facts(facade)[1] if known == name), package)


def _absolute(package: str, module: str, path: Path) -> str:
    """The package that a relative import ("..nn") means in a module."""
    level = len(package) - len(package.lstrip("."))
    if not level:
        return package
    parts = module.split(".")
    parts = parts[: len(parts) - level + (path.name == "__init__.py")]
    return ".".join([*parts, *filter(None, [package[level:]])])


@cache
def _facts(path: Path) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The sha256 of a file, and its imports wherever they stand, each as (package, name); no name: the module."""
    content = path.read_bytes()
    text = content.decode("utf-8", "replace")
    found = [(module, "") for module in BY_NAME.findall(text)]
    try:
        with PARSING:
            waiting: list[ast.AST] = [ast.parse(text)]
    except SyntaxError:  # it says so itself when it is imported
        waiting = []
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            found += [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            package = "." * node.level + (node.module or "")
            found += [(package, alias.name) for alias in node.names]
        else:  # only statements hold imports
            for block in BLOCKS:
                waiting += getattr(node, block, ())
    return hashlib.sha256(content).hexdigest(), tuple(dict.fromkeys(found))


@cache
def _file(module: str) -> Path | None:
    """The file of a module, of a package its `__init__`; None where there is none. Nothing is imported."""
    if module == "__main__":
        place = getattr(sys.modules[module], "__file__", None)
        return Path(place) if place else None
    package, _, name = module.rpartition(".")
    if not package:
        try:
            spec = importlib.util.find_spec(name) if name else None
        except (ImportError, ValueError):
            return None
        return Path(spec.origin) if spec and spec.has_location and spec.origin else None
    for folder in _folders(package):
        for path in (folder / name / "__init__.py", folder / f"{name}.py"):
            if path.is_file():
                return path
    return None


@cache
def _folders(package: str) -> tuple[Path, ...]:
    """The folders in which a package's modules lie."""
    above, _, name = package.rpartition(".")
    if above:
        return tuple(folder / name for folder in _folders(above) if (folder / name).is_dir())
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return ()
    return tuple(map(Path, spec.submodule_search_locations or ())) if spec else ()


def forget() -> None:
    """Reads the code anew when it is next asked for."""
    for remembered in (source_hash, _facts, _file, _folders):
        remembered.cache_clear()


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
