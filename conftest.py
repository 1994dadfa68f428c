"""Switches on run-time shape and type checks (jaxtyping + beartype) for package and benchmarks while tests run."""

import importlib.util
import os

import tests.helpers  # noqa: F401  the hook looks its checker up as an attribute
from jaxtyping import install_import_hook

collect_ignore_glob = ["src/stairwise/papers/*/certificates/*"]  # scripts of their own, which a test runs
if importlib.util.find_spec("torch") is None:  # without it there is nothing to compare with
    collect_ignore_glob += ["benchmarks/*"]
os.environ.setdefault("JAX_PLATFORMS", "cpu")
install_import_hook(["stairwise", "benchmarks"], "tests.helpers.typecheck")
import stairwise  # noqa: E402, F401  before JAX runs: see stairwise/compiler.py
