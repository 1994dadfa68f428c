"""Switches on run-time shape and type checks (jaxtyping + beartype) for package and benchmarks while tests run.

Quick tests compile hundreds of programs that run for milliseconds, so these are compiled with few optimisations; slow
tests, and those marked `optimised` because they compare bits with recorded ones, run what users run.
"""

import importlib.util
import os

import tests.helpers  # noqa: F401  the hook looks its checker up as an attribute
from jaxtyping import install_import_hook

collect_ignore_glob = ["src/stairwise/papers/*/certificates/*"]  # scripts of their own, which a test runs
if importlib.util.find_spec("torch") is None:  # without it there is nothing to compare with
    collect_ignore_glob += ["benchmarks/*"]
os.environ.setdefault("JAX_PLATFORMS", "cpu")
install_import_hook(["stairwise", "benchmarks"], "tests.helpers.typecheck")
import jax  # noqa: E402

import stairwise  # noqa: E402, F401  before JAX runs: see stairwise/compiler.py


def pytest_runtest_setup(item):
    """Before every test and its fixtures, and for the processes that it starts."""
    few = item.get_closest_marker("slow") is None and item.get_closest_marker("optimised") is None
    os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = str(int(few))
    jax.config.update("jax_disable_most_optimizations", few)
