"""Stairwise: results on how transformers learn step-by-step reasoning, executable.

>>> import stairwise as sw
>>> sw.verify("selection/def-sts").verdict.status  # doctest: +SKIP
'holds'
"""

# ruff: noqa: E402
import _signal  # type: ignore[import-not-found]  # the part of `signal` that need not be imported first
import itertools
import os
import sys


def _is_command() -> bool:
    """Whether this process is the command `stairwise`, and not one that it has started, or another program."""
    name, words = (*getattr(sys, "argv", ()), "")[0], sys.orig_argv
    if name == "-m":
        return ("-m", "stairwise") in itertools.pairwise(words)
    return os.path.basename(name) == "stairwise" and name in words


if _is_command() and _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)  # it ends quietly on Ctrl-C until `__main__` answers

from typing import TYPE_CHECKING, Any

from stairwise import compiler

__version__ = "0.1.0"
compiler.guard()

if TYPE_CHECKING:
    from stairwise import interop
    from stairwise.interop.weights import export
    from stairwise.lab.api import check, falsify, load, load_model, run, verify
    from stairwise.lab.data.evaluate import evaluate, score
    from stairwise.lab.data.request import data, task
    from stairwise.lab.fitting import fit
    from stairwise.lab.sweep import sweep
    from stairwise.live.watch import watch
    from stairwise.measure.queries import sq
    from stairwise.nn.taps import edit, tap, trace
    from stairwise.record.published import published
    from stairwise.train.schemes import curriculum, finite, mixture, online, self_training
    from stairwise.train.stage import Stage

_NAMES = {
    "stairwise.interop.weights": ("export",),
    "stairwise.lab.api": ("run", "verify", "check", "falsify", "load", "load_model"),
    "stairwise.lab.data.evaluate": ("evaluate", "score"),
    "stairwise.lab.data.request": ("data", "task"),
    "stairwise.lab.fitting": ("fit",),
    "stairwise.lab.sweep": ("sweep",),
    "stairwise.live.watch": ("watch",),
    "stairwise.nn.taps": ("trace", "edit", "tap"),
    "stairwise.measure.queries": ("sq",),
    "stairwise.record.published": ("published",),
    "stairwise.train.schemes": ("online", "finite", "mixture", "curriculum", "self_training"),
    "stairwise.train.stage": ("Stage",),
}
_HOMES: dict[str, str] = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [
    "Stage",
    "check",
    "curriculum",
    "data",
    "edit",
    "evaluate",
    "export",
    "falsify",
    "finite",
    "fit",
    "interop",
    "load",
    "load_model",
    "mixture",
    "online",
    "published",
    "run",
    "score",
    "self_training",
    "sq",
    "sweep",
    "tap",
    "task",
    "trace",
    "verify",
    "watch",
]


def __getattr__(name: str) -> Any:
    """Names are imported when first used: `import stairwise` alone costs nothing."""
    import importlib

    if name == "interop":
        return importlib.import_module("stairwise.interop")
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'stairwise' has no attribute {name!r}")


def __dir__() -> list[str]:
    """What completion offers: the names to use, not what this module needs for itself."""
    return [*__all__, "__version__"]
