"""The compiler that these tests run with is one that computes rightly."""

import os
import subprocess
import sys
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stairwise import compiler
from stairwise.train.loop import Member, Program
from stairwise.train.stage import Stage

pytestmark = pytest.mark.optimised  # what is to be right is what users run


def test_jit_agrees_with_plain_arithmetic_on_the_known_wrong_program():
    assert compiler.right()


def test_a_softmax_of_constants_is_never_nan():
    """One program in twenty was, with jaxlib 0.10.2."""
    rng = np.random.default_rng(0)
    keys, weights = rng.normal(size=(576, 32, 8)), 800 * np.eye(32)
    with jax.enable_x64(True):
        X, W = jnp.asarray(keys), jnp.asarray(weights)
        for _ in range(20):

            def loss(readout):
                return jnp.mean(jax.vmap(lambda x: readout @ x @ jax.nn.softmax(x.T @ W @ x, axis=0))(X))

            assert np.isfinite(jax.jit(jax.grad(loss))(jnp.ones((4, 32)))).all()


@pytest.mark.parametrize(
    ("version", "wrong"),
    [("0.6.2", False), ("0.10.1", False), ("0.10.2", True), ("0.11.0", True), ("0.11.1.dev3", True), ("0.12.0", False)],
)
def test_the_guard_is_for_releases_that_compile_wrongly(version, wrong):
    assert compiler.needs_guard(version) == wrong


@pytest.mark.parametrize("set_by_user", ["", "--xla_cpu_enable_fast_math=false", compiler.OPTION + "DOT"])
def test_importing_the_package_adds_the_flag_once_and_leaves_the_users_alone(set_by_user):
    code = (
        "import importlib.metadata as m; m.version = lambda name: '0.10.2'\n"
        "import os, stairwise; from stairwise import compiler; compiler.guard(); print(os.environ['XLA_FLAGS'])"
    )
    environment = os.environ | {"XLA_FLAGS": set_by_user}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    flags = done.stdout.split()
    added = [] if compiler.OPTION in set_by_user else [compiler.OPTION + compiler.REST]
    assert flags == [*added, *set_by_user.split()]


def test_a_word_without_dashes_among_the_users_flags_does_not_hide_the_guards():
    code = "from stairwise import compiler; print(compiler.right())"
    environment = os.environ | {"XLA_FLAGS": "intra_op_parallelism_threads=1", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True"]


@pytest.mark.parametrize(("version", "known"), [("0.10.1", False), ("0.10.2", True), ("0.11.0", False), ("", False)])
def test_options_that_a_release_may_not_know_are_not_given(version, known):
    assert compiler.sooner(version) == (compiler.SOONER if known else {})


@pytest.mark.parametrize("set_by_user", [None, "", "--xla_cpu_use_fusion_emitters=true", compiler.OPTION + "DOT"])
def test_children_have_the_options_that_the_user_has_not_set_and_the_caller_none(monkeypatch, set_by_user):
    monkeypatch.setattr(compiler, "installed", lambda: "0.10.2")
    if set_by_user is None:
        monkeypatch.delenv("XLA_FLAGS", raising=False)
    else:
        monkeypatch.setenv("XLA_FLAGS", set_by_user)
    with compiler.children_compile_sooner():
        within = os.environ["XLA_FLAGS"].split()
    kept = (set_by_user or "").split()
    named = {flag.partition("=")[0] for flag in kept}
    added = [compiler.flag(*option) for option in compiler.SOONER.items() if f"--{option[0]}" not in named]
    assert added[0] == "--xla_cpu_use_fusion_emitters=false" or "emitters" in str(set_by_user)
    assert within == [*added, *kept]
    assert os.environ.get("XLA_FLAGS") == set_by_user


@pytest.mark.parametrize("set_by_user", [None, "3"])
def test_matrix_products_of_children_take_one_core_unless_the_user_has_said_how_many(monkeypatch, set_by_user):
    if set_by_user is None:
        monkeypatch.delenv(compiler.THREADS, raising=False)
    else:
        monkeypatch.setenv(compiler.THREADS, set_by_user)
    with compiler.children_compile_sooner():
        assert os.environ[compiler.THREADS] == (set_by_user or "1")
    assert os.environ.get(compiler.THREADS) == set_by_user


def test_a_child_that_compiles_sooner_computes_rightly():
    code = "from stairwise import compiler; import os; print(compiler.right(), os.environ.get('XLA_FLAGS', ''))"
    with compiler.children_compile_sooner():
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        right, *flags = done.stdout.split()
        assert (right, flags) == ("True", os.environ.get("XLA_FLAGS", "").split())


@pytest.mark.parametrize(("first", "said"), [("import jax", ""), ("import jax; jax.devices()", "has run already")])
def test_it_says_so_when_it_comes_too_late(first, said):
    code = f"import importlib.metadata as m; m.version = lambda name: '0.10.2'\n{first}\nimport stairwise"
    environment = os.environ | {"XLA_FLAGS": ""}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert said in done.stderr
    assert bool(done.stderr) == bool(said)


@pytest.mark.parametrize(
    ("kind", "version", "flags", "expected"),
    [
        ("NVIDIA H200", "0.11.2", "", compiler.GRAPHS),
        ("NVIDIA H200", "0.11.2", "--xla_some=1", compiler.GRAPHS),
        ("NVIDIA H200", "0.11.2", "--xla_gpu_enable_command_buffer=", {}),
        ("NVIDIA H200", "0.10.2", "", {}),
        ("NVIDIA H200", "0.12.0", "", {}),
        ("NVIDIA H200", "", "", {}),
        ("cpu", "0.11.2", "", {}),
        ("AMD Instinct MI300X", "0.11.2", "", {}),
    ],
)
def test_loops_are_graphs_where_that_was_tried_and_the_user_has_not_said_otherwise(
    monkeypatch, kind, version, flags, expected
):
    monkeypatch.setenv("XLA_FLAGS", flags)
    assert compiler.known_to(kind, version, compiler.GRAPHS) == expected


def test_options_that_the_compiler_does_not_take_are_left_out(monkeypatch):
    monkeypatch.setattr(compiler, "known_to", lambda kind, version, options: options)
    monkeypatch.setattr(compiler, "GRAPHS", {"xla_no_such_option": 1})
    compiler._taken.cache_clear()
    assert compiler.for_stage(graph=True) == {}
    compiler._taken.cache_clear()


@pytest.mark.parametrize("tuned", [True, False])
@pytest.mark.parametrize("graph", [True, False])
def test_the_loop_of_a_stage_is_compiled_with_the_options_that_the_stage_asks_for(monkeypatch, graph, tuned):
    """The compiler takes them on a CPU, too, where they mean nothing."""
    monkeypatch.setattr(compiler, "known_to", lambda kind, version, options: options)
    stage = Stage("s", lambda trial, carry, key: jnp.float32(0), lambda trial, state, key, t: state + 1, 3)
    program = Program([replace(stage, graph=graph, tuned=tuned)])
    assert program.options == (compiler.GRAPHS if graph else {}) | ({} if tuned else compiler.LIBRARY)
    assert program.run([Member(0)])[0].status == "finished"
