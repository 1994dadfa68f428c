"""Compiling is counted: once for each static part of a sweep, once for all lengths, and never again on a machine."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from stairwise import compiler
from stairwise.lab.sweep import sweep
from stairwise.papers.lego.decoder import Decoder
from stairwise.papers.lego.rollout import roll_out
from stairwise.papers.lego.task import lego

COMPILED = "/jax/core/compile/backend_compile_duration"
SMALL = {"task.length": "6", "encoding.width": "8", "encoding.scheme": "none", "test_lengths": "8", "steps": "3"}
SMALL |= {"test_sparsities": "3", "test_examples": "4", "measure_every": "3", "encoding.pool": "0"}


@contextmanager
def counted() -> Iterator[Counter]:
    """How often each function is compiled."""
    found = Counter()

    def listen(event: str, seconds: float, **facts) -> None:
        if event == COMPILED:
            found[str(facts.get("fun_name", "")).removeprefix("jit(").removesuffix(")")] += 1

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield found
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


@pytest.mark.parametrize("together", [False, True], ids=["as they are called", "side by side"])
@pytest.mark.parametrize("width", [1, 2])
def test_a_sweep_over_seeds_and_learning_rates_compiles_once_for_each_static_part(
    tmp_path, monkeypatch, width, together
):
    monkeypatch.setattr(compiler, "waits_for_one_core", lambda: together)
    grid = {"learning_rate": [0.1, 1.0], "batch": [2, 4]}
    with counted() as found:
        result = sweep("selection/online", grid, seeds=2, changes=SMALL, store=str(tmp_path / "store"), group=width)
    assert sum(result.statuses.values()) == 8
    functions = ("_begin", "_advance", "_measure", "_finish")
    assert {name: found[name] for name in functions} == dict.fromkeys(functions, 2)


def test_a_roll_out_is_compiled_once_for_all_lengths():
    task = lego("C5", 9, 8)
    model = Decoder(vocabulary=task.vocabulary, width=8, heads=2, key=jax.random.key(0))
    chain = task.sample(jax.random.key(1))
    prompt = task.predicates(chain), task.answers(chain)[0]
    program = jax.jit(roll_out)
    with counted() as found:
        made = [program(model, *prompt, jnp.int32(length)) for length in (1, 3, 5, 8)]
    assert found["roll_out"] == 1
    assert [int((answers.sum(axis=1) > 0).sum()) for answers in made] == [1, 3, 5, 8]


PROCESS = """
import sys
import jax
from stairwise.cli import main
hits = []
jax.monitoring.register_event_listener(lambda event, **facts: hits.append(event.endswith("/cache_hits")))
status = main(sys.argv[1:])
print(sum(hits))
sys.exit(status)
"""


@pytest.mark.slow
def test_a_second_process_takes_from_the_users_cache_all_that_the_first_one_left_there(tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}
    environment |= {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    fields = [word for name, value in SMALL.items() for word in (f"--{name}", value)]

    def hits(name: str) -> int:
        words = ["run", "selection/online", "--seeds", "1", "--store", str(tmp_path / name), *fields]
        said = subprocess.check_output([sys.executable, "-c", PROCESS, *words], env=environment, text=True)
        return int(said.splitlines()[-1])

    def kept() -> set[Path]:
        return set((tmp_path / "cache" / "stairwise" / "xla").glob("*-cache"))

    assert hits("first") == 0
    left = kept()
    assert any("_advance" in path.name for path in left)
    assert hits("second") == len(left)
