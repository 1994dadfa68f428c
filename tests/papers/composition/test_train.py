"""Algorithms 1 and 2: what each step does to losses and weights."""

import math
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stairwise.papers.composition import rules, train
from stairwise.papers.composition.config import Descent, Task
from stairwise.papers.composition.model import untrained
from stairwise.papers.composition.task import Composition, draw_hidden
from tests.helpers import assert_close
from tests.trials import run

pytestmark = pytest.mark.slow  # trainings: seconds of compiling each

SMALL = Descent(task=Task(4, 4), samples=8192, block=1024, learning_rate=3e4, test_examples=20, guard_sequences=16)


def outcome(config, seed=0):
    return run(train.descent, config, seed)


def series(outcome, name):
    return [value for found, value in zip(outcome.name, outcome.value, strict=True) if found == name]


@pytest.fixture(scope="module")
def by_autodiff():
    return outcome(SMALL)


def test_algorithm_1_takes_every_head_to_the_plateau_and_then_to_zero(by_autodiff):
    start, plateau = math.log(4), math.log1p(3 * math.exp(-1))
    for head, hops in enumerate(("1 hop", "2 hops", "4 hops")):
        expected = [start] * (2 * head + 1) + [plateau] + [0.0] * (5 - 2 * head)
        assert np.abs(np.array(series(by_autodiff, f"loss {hops}")) - expected).max() < 1e-3
        assert by_autodiff.last(f"exact match {hops}") == 1
        assert by_autodiff.last(f"sup error {hops}") < 1e-3


def test_layers_that_are_trained_hardly_move_again_and_layers_above_not_at_all(by_autodiff):
    moved = np.array([series(by_autodiff, f"update layer {layer}")[1::2] for layer in (1, 2, 3)])
    assert (np.diag(moved) > 50).all()
    assert np.tril(moved, -1).max() == 0
    assert np.triu(moved, 1).max() < 1e-5


def test_algorithm_2_moves_one_layer_a_step_and_ends_at_zero():
    found = outcome(replace(SMALL, algorithm="mixture"))
    start, plateau = math.log(4), math.log1p(3 * math.exp(-1))
    for head, hops in enumerate(("1 hop", "2 hops", "4 hops")):
        expected = [start] * (head + 1) + [plateau] * (3 - head) + [0.0]
        assert np.abs(np.array(series(found, f"loss {hops}")) - expected).max() < 5e-3
    moved = np.array([series(found, f"update layer {layer}")[1:4] for layer in (1, 2, 3)])
    assert (np.diag(moved) > 50).all()
    assert (moved - np.diag(np.diag(moved))).max() < 1e-3


def test_a_block_in_pieces_adds_up_to_the_block():
    hidden = draw_hidden(jax.random.key(0), 4, 4)
    task, key = Composition(hidden), jax.random.key(1)
    sequences, queries = train.draw_samples(task, key, 0, 12)
    model = untrained(SMALL.task.plan, 4, 4, 1.0)
    way = rules.soft(SMALL)
    add = partial(way.key_query[0], task, model)
    whole = jax.jit(add)(way.zero(model), sequences, queries)
    pieces = jax.jit(partial(rules.in_pieces, 4, add))(way.zero(model), sequences, queries)
    assert_close(pieces.key_query[0], whole.key_query[0], 1e-5)
    assert float(jnp.abs(whole.key_query[0]).max()) > 0


def test_algorithm_1_learns_three_blocks_with_an_accumulating_layer():
    found = outcome(
        Descent(
            task=Task(3, 5, any_blocks=True),
            path="integer",
            samples=32_768,
            block=4096,
            learning_rate=1e5,
            test_examples=20,
        )
    )
    assert [found.last(f"exact match {hops}") for hops in ("1 hop", "2 hops", "3 hops")] == [1, 1, 1]
