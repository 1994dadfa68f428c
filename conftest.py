"""Switches on run-time shape and type checks (jaxtyping + beartype) for package and benchmarks while tests run.

Quick tests compile hundreds of programs that run for milliseconds, so these are compiled with few optimisations, by
the compiler's quickest ways; slow tests, and those marked `optimised` because they compare bits with recorded ones,
run what users run.
"""

import importlib.util
import os
import threading

collect_ignore_glob = ["src/stairwise/papers/*/certificates/*"]  # scripts of their own, which a test runs
if importlib.util.find_spec("torch") is None:  # without it there is nothing to compare with
    collect_ignore_glob += ["benchmarks/*"]
os.environ.setdefault("JAX_PLATFORMS", "cpu")
for threads in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):  # of NumPy and PyTorch
    os.environ.setdefault(threads, "1")  # of small matrices they would only wait for one another
from tests import checking  # noqa: E402  which imports NumPy

checking.install(["stairwise", "benchmarks"])
import jax  # noqa: E402
from jax._src import compiler as jax_compiler  # noqa: E402  options of every program have no public place
from jax._src.interpreters import mlir  # noqa: E402  nor has the context in which it is written

import stairwise  # noqa: E402, F401  before JAX runs: see stairwise/compiler.py
from stairwise import compiler  # noqa: E402
from stairwise.lab.worker import collect_seldom  # noqa: E402

collect_seldom()  # while tests are collected
SOONER = {name: str(value) for name, value in compiler.sooner(compiler.installed()).items()}
PROGRAMS_PER_CONTEXT = 200  # a context keeps every type and constant of its programs
compile_options, make_context = jax_compiler.get_compile_options, mlir.make_ir_context
LOCATIONS = jax.config.jax_traceback_in_locations_limit
shared = threading.local()


def with_sooner(*args, env_options_overrides=None, **named):
    return compile_options(*args, env_options_overrides=SOONER | (env_options_overrides or {}), **named)


def shared_context():
    """To make a context takes as long as to write a small program in it."""
    if getattr(shared, "left", 0) == 0:
        shared.context, shared.left = make_context(), PROGRAMS_PER_CONTEXT
    shared.left -= 1
    return shared.context


def pytest_collection_finish(session):
    """Modules and tests are there to stay; to trace programs makes and drops objects by the million beside them."""
    collect_seldom()


def pytest_runtest_setup(item):
    """Before every test and its fixtures, and for the processes that it starts."""
    few = item.get_closest_marker("slow") is None and item.get_closest_marker("optimised") is None
    os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = str(int(few))
    if few != jax.config.read("jax_disable_most_optimizations"):
        jax.clear_caches()  # no test runs what was compiled for those of the other kind
        jax.config.update("jax_disable_most_optimizations", few)
        # where a line of a program was traced, which nobody asks of these
        jax.config.update("jax_traceback_in_locations_limit", 0 if few else LOCATIONS)
        mlir.make_ir_context = shared_context if few else make_context
        if SOONER:
            jax_compiler.get_compile_options = with_sooner if few else compile_options
