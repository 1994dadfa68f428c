"""What a run or a sweep was asked for, as TOML: written into its record, and read back by `--config FILE`.

experiment = "selection/online"
preset = "quick"
seeds = [3, 5, 8]                # or how many
model = "my_models:make_model"   # where there is one

[fields]
task.length = 30

[grid]                           # of a sweep
learning_rate = [0.1, 0.3]
"""

import json
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from stairwise.config import Config, ConfigError, as_text, checked, find_leaf, leaves, short, unknown_field
from stairwise.lab import registry
from stairwise.lab.store.files import explained

KEYS = {"experiment": str, "preset": str, "seeds": (int, list), "model": str, "fields": dict, "grid": dict}
MOST = 2**20  # bytes of a file
SCALARS = (str, int, float)


def as_toml(
    experiment: str,
    preset: str,
    seeds: Sequence[int],
    config: Config,
    changes: Mapping[str, Any],
    *,
    model: Any = None,
    grid: Mapping[str, Sequence[Any]] | None = None,
) -> str:
    """The settings of a run; texts of the command line become the values that they mean for `config`."""
    count = len(seeds) if list(seeds[:MOST]) == list(range(len(seeds))) else list(seeds)
    head = {"experiment": experiment, "preset": preset, "seeds": count}
    if isinstance(model, str):
        head["model"] = model
    fields = {path: _typed(config, path, value) for path, value in changes.items()}
    lines = [f"{name} = {_value(value)}" for name, value in head.items()]
    for name, table in (("fields", fields), ("grid", grid or {})):
        if table:
            lines += ["", f"[{name}]", *(f"{path} = {_value(value)}" for path, value in table.items())]
    return "\n".join(lines) + "\n"


def _typed(config: Config, path: str, value: Any) -> Any:
    field = find_leaf(config, path)
    return value if field is None else checked(field, value)


def _value(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def words_of(path: Path) -> list[str]:
    """The words of a command line that mean the same as a file; ConfigError names the file and what is wrong in it."""
    try:
        return list(_words(_read(path)))
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def _read(path: Path) -> dict[str, Any]:
    if os.path.exists(path) and not os.path.isfile(path):  # a pipe would block its reader for ever
        raise ConfigError("it must be a file")
    with explained(f"read {path}"), open(path, "rb") as file:
        data = file.read(MOST)
    try:
        found = tomllib.loads(data.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"it must be TOML ({error})") from None
    for name, value in found.items():
        if name not in KEYS:
            raise ConfigError(f"unknown key {short(name)} (keys: {', '.join(KEYS)})")
        if not isinstance(value, KEYS[name]) or isinstance(value, bool):
            kind = {str: "text", dict: "a table"}.get(KEYS[name], "a whole number, or a list of them")
            raise ConfigError(f"{name}={short(value)} must be {kind}")
    if "experiment" not in found:
        raise ConfigError("experiment must be named, as PAPER/EXPERIMENT")
    return found


def _words(found: Mapping[str, Any]) -> Iterator[str]:
    config = registry.experiment(found["experiment"]).preset(found.get("preset", "quick")).config
    yield found["experiment"]
    for name in ("preset", "model"):
        if name in found:
            yield f"--{name}={found[name]}"
    seeds = found.get("seeds")
    if isinstance(seeds, list):
        if not seeds or not all(type(seed) is int for seed in seeds):
            raise ConfigError(f"seeds={short(seeds)} must be whole numbers")
        yield f"--seeds={','.join(map(str, seeds))},"
    elif seeds is not None:
        yield f"--seeds={seeds}"
    for path, value in _flat(found.get("fields", {})):
        field = _known(config, path)
        checked(field, tuple(value) if isinstance(value, list) else value)
        yield f"--{path}={as_text(value)}"
    for path, value in _flat(found.get("grid", {})):
        _known(config, path)
        yield f"--grid={path}={_axis(path, value)}"


def _known(config: Config, path: str) -> Any:
    field = find_leaf(config, path)
    if field is None:
        raise ConfigError(unknown_field(path, sorted(leaf.path for leaf in leaves(config))))
    return field


def _axis(path: str, value: Any) -> str:
    """The values of a field of a grid as the command line takes them: texts, numbers, or lists of numbers."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list) or not value:
        raise ConfigError(f"grid {path}={short(value)} must be a list of values, or text such as 0.1:1:log4")
    if all(isinstance(each, list) for each in value):
        return ";".join(map(as_text, value))
    return as_text(value)


def _flat(table: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """The values of nested tables by dotted path."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        elif isinstance(value, (*SCALARS, list)):
            yield before + name, value
        else:
            raise ConfigError(f"{before}{name}={short(value)} must be a number, text, true, false, or a list of those")
