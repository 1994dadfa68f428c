"""Switches on run-time shape and type checks (jaxtyping + beartype) for package and benchmarks while tests run.

Quick tests compile hundreds of programs that run for milliseconds, so these are compiled with few optimisations; slow
tests, and those marked `optimised` because they compare bits with recorded ones, run what users run. Tests of `ROOMS`
are compiled with the options of `stairwise.compiler.sooner` too; other rooms compare bits of two programs, or were not
tried.
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
from jax._src import compiler as jax_compiler  # noqa: E402  the only place where options of all programs can be set

import stairwise  # noqa: E402, F401  before JAX runs: see stairwise/compiler.py
from stairwise import compiler  # noqa: E402

ROOMS = ("tests/nn", "tests/papers/composition", "tests/papers/lego", "tests/papers/parity_cot")
SOONER = compiler.sooner(compiler.installed())
options_of = jax_compiler.get_compile_options
now: dict[str, bool] = {"sooner": False}


def options_of_a_program(*args, **named):
    """As JAX makes them, and those of a test that says so are compiled sooner."""
    options = options_of(*args, **named)
    if now["sooner"]:
        options.env_option_overrides = [*options.env_option_overrides, *SOONER.items()]
    return options


jax_compiler.get_compile_options = options_of_a_program


def pytest_runtest_setup(item):
    """Before every test and its fixtures, and for the processes that it starts."""
    few = item.get_closest_marker("slow") is None and item.get_closest_marker("optimised") is None
    os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = str(int(few))
    jax.config.update("jax_disable_most_optimizations", few)
    now["sooner"] = few and item.nodeid.startswith(ROOMS)
