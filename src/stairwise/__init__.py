"""Stairwise: results on how transformers learn step-by-step reasoning, executable.

>>> import stairwise as sw
>>> sw.verify("selection/def-sts").verdict.status  # doctest: +SKIP
'holds'
"""

from typing import TYPE_CHECKING, Any

from stairwise import compiler

__version__ = "0.1.0"
compiler.guard()

if TYPE_CHECKING:
    from stairwise import interop
    from stairwise.interop.weights import export
    from stairwise.lab.api import fit, load, load_model, run, verify
    from stairwise.lab.data.evaluate import evaluate
    from stairwise.lab.data.request import data
    from stairwise.lab.sweep import sweep
    from stairwise.train.schemes import curriculum, finite, mixture, online, self_training
    from stairwise.train.stage import Stage

_NAMES = {
    "stairwise.interop.weights": ("export",),
    "stairwise.lab.api": ("fit", "run", "verify", "load", "load_model"),
    "stairwise.lab.data.evaluate": ("evaluate",),
    "stairwise.lab.data.request": ("data",),
    "stairwise.lab.sweep": ("sweep",),
    "stairwise.train.schemes": ("online", "finite", "mixture", "curriculum", "self_training"),
    "stairwise.train.stage": ("Stage",),
}
_HOMES: dict[str, str] = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [
    "Stage",
    "curriculum",
    "data",
    "evaluate",
    "export",
    "finite",
    "fit",
    "interop",
    "load",
    "load_model",
    "mixture",
    "online",
    "run",
    "self_training",
    "sweep",
    "verify",
]


def __getattr__(name: str) -> Any:
    """Names are imported when first used: `import stairwise` alone costs nothing."""
    import importlib

    if name == "interop":
        return importlib.import_module("stairwise.interop")
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'stairwise' has no attribute {name!r}")
