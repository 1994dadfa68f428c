"""An experiment with a model of the user's own: what it is called, what makes its trials these and no others.

A model that can be imported again is known by its import path and the hash of its source: its trials are stored, under
the name EXPERIMENT+PATH, and are never taken for those of the experiment. What cannot (a lambda, a function of a
notebook) is run as well, and not stored.
"""

import dataclasses
import functools
import importlib
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

from stairwise.config import ConfigError, one_line
from stairwise.lab.contract.experiment import Experiment, Preset
from stairwise.lab.store import provenance

UNNAMED = "unnamed"


def imported(text: str) -> Callable[..., Any]:
    """The function that "package.module:name" means; modules of the working folder are found too."""
    module, _, name = text.partition(":")
    if not module or not name:
        raise ConfigError(f"model={text} must be written as MODULE:NAME, for example my_package:make_model")
    sys.path.append(os.getcwd())
    try:
        found: Any = importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(f"model={text}: {error}") from None
    except (Exception, SystemExit) as error:  # whatever a stranger's code may raise
        said = one_line(str(error).partition("\n")[0])[:200]
        raise ConfigError(f"model={text}: importing {module} raises {type(error).__name__}: {said}") from error
    finally:
        sys.path.pop()
    for part in name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise ConfigError(f"model={text}: {module} has no function {name}")
    return found


def import_path(make_model: Any) -> str | None:
    """Where a function can be imported from, as MODULE:NAME; None where it cannot."""
    module, name = getattr(make_model, "__module__", None), getattr(make_model, "__qualname__", None)
    if not module or not name or module == "__main__":
        return None
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return f"{module}:{name}" if found is make_model and getattr(sys.modules[module], "__file__", None) else None


def with_model(experiment: Experiment, make_model: Any, changes: Iterable[str]) -> Experiment:
    """The experiment on a model of the user's own; `changes` are the fields that are set beside it."""
    if experiment.own is None:
        raise ConfigError(f"model: {experiment.name} takes no model of your own")
    for path in changes:
        if path.startswith("model."):
            raise ConfigError(f"{path} must not be set beside a model of your own: it is about the experiment's model")
    make_model = imported(make_model) if isinstance(make_model, str) else make_model
    if not callable(make_model):
        raise ConfigError(f"model={make_model!r} must be a function of (sizes, key), or MODULE:NAME")
    path = import_path(make_model)
    identity = {"path": UNNAMED} if path is None else {"path": path, "source": source_of(path)}
    return dataclasses.replace(
        experiment,
        id=f"{experiment.id}+{identity['path'].replace(':', '.')}"[:100],
        program=functools.partial(experiment.own, make_model),
        presets={name: _without_shapes(preset) for name, preset in experiment.presets.items()},
        code=(*experiment.code, *([] if path is None else [path])),
        model=None,
        microscope=None,
        made_with=identity,
    )


def source_of(path: str) -> str:
    """The hash of the module of "module:name", and of what it imports from its own package."""
    return provenance.source_hash(path.partition(":")[0])


def is_named(experiment: Experiment) -> bool:
    """Whether its trials can be found again."""
    return experiment.made_with is None or experiment.made_with["path"] != UNNAMED


def _without_shapes(preset: Preset) -> Preset:
    """The preset without what its arms say about the experiment's own model; of arms that are then equal, the first."""
    arms: dict[str, Any] = {}
    for arm, fields in preset.arms.items():
        kept = {path: value for path, value in fields.items() if not path.startswith("model.")}
        if kept not in arms.values():
            arms[arm] = kept
    return dataclasses.replace(preset, arms=arms)
