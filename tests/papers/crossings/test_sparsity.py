"""Entropy against accuracy: what half-way means, and what the five settings let one see."""

from dataclasses import replace
from functools import partial

import jax
import numpy as np
import pytest

from stairwise.config import ConfigError, update
from stairwise.papers.crossings import sparsity
from stairwise.papers.crossings.sparsity import Watched, runs, train
from stairwise.papers.crossings.sparsity.config import TASKS, Model
from tests.helpers import assert_close
from tests.papers.records import HandMade
from tests.trials import run, running

pytestmark = pytest.mark.slow  # most of them compile a network

SIZES = {
    "composition": {"length": 3, "parts": 2},
    "lego": {"length": 3, "parts": 2},
    "parity_cot": {"length": 5, "parts": 3},
    "parity_onestep": {"length": 5, "parts": 3},
    "selection": {"length": 6, "parts": 2},
}


def small(task: str) -> Watched:
    return Watched(task=task, model=Model(width=8), batch=4, test_examples=4, measure_every=1, looks=2, **SIZES[task])


@pytest.mark.parametrize("task", TASKS)
def test_rows_are_distributions_over_the_keys_that_they_may_see(task):
    setting, trial = train.SETTINGS[task](small(task)), running(small(task), seed=1)
    start = setting.init(trial, jax.random.key(0))
    seen = jax.jit(setting.see)(trial, start, jax.random.key(1))
    weights = np.asarray(seen.weights)
    mask = np.broadcast_to(np.asarray(seen.mask), weights.shape[-2:])
    assert_close(weights.sum(axis=-1), np.ones(weights.shape[:-1]), 1e-5)
    assert not weights[..., ~mask].any()
    assert float(seen.right) <= 1


@pytest.mark.parametrize("task", ["parity_onestep", "selection"])
def test_models_that_start_at_zero_start_with_uniform_attention(task):
    config = small(task)
    setting, trial = train.SETTINGS[task](config), running(config, seed=1)
    found = jax.jit(partial(train.look, config, setting))(trial, setting.init(trial, jax.random.key(0)))
    assert_close(found["entropy"], 1.0, 1e-5)
    assert_close(found["sparsest head"], 1.0, 1e-5)


def test_half_way_is_interpolated_and_infinite_where_nothing_moves():
    steps = np.array([0, 10, 20, 30])
    assert runs.halfway(steps, np.array([0.2, 0.2, 0.4, 0.6])) == pytest.approx(20)
    assert runs.halfway(steps, np.array([0.0, 1.0, 0.2, 0.1])) == pytest.approx(5)  # the first time counts
    assert runs.halfway(steps, np.array([0.5, 0.5, 0.4, 0.3])) == np.inf


def record(task: str, sooner: str, seed: int = 0, rise: float = 0.5) -> HandMade:
    early, late = np.array([0.0, 1.0, 1.0, 1.0]), np.array([0.0, 0.0, 0.0, 1.0])
    accuracy, entropy = (early, late) if sooner == "accuracy" else (late, early)
    series = {"accuracy": (range(4), 0.5 + rise * accuracy), "entropy": (range(4), 0.9 - 0.6 * entropy)}
    return HandMade(replace(small(task), measure_every=7), measured=series, seed=seed)


def test_the_verdict_counts_seeds_that_learn_and_can_fall():
    claims = {claim.id: claim.judged for claim in sparsity.LEDGER.claims}
    records = [record("lego", "entropy", seed) for seed in range(3)] + [record("lego", "accuracy", 3)]
    assert claims["sparsity-lego"](records).status == "holds"
    assert claims["sparsity-lego"]([*records, record("lego", "accuracy", 4)]).status == "not-reproduced"
    assert claims["sparsity-lego"]([*records, record("lego", "accuracy", 4, rise=0.1)]).status == "holds"
    assert claims["sparsity-selection"](records).status == "not-reproduced"
    found = runs.halves(records[0])
    assert (found.entropy, found.accuracy) == (pytest.approx(3.5), pytest.approx(17.5))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"parts": 20}, "parts=20 must be at most 12"),
        ({"model.width": 6}, "width=6 must be a multiple of 4"),
        ({"task": "lego", "model.layers": 2}, "layers=2 must be 1"),
    ],
)
def test_bad_sizes_are_one_line(changes, words):
    with pytest.raises(ConfigError, match=words):
        update(Watched(), changes)


def test_one_step_parity_is_learnt_before_its_attention_is_half_sparse():
    config = Watched(task="parity_onestep", length=8, parts=4, learning_rate=0.05, measure_every=5, looks=30)
    made = HandMade.of(config, run(train.training, config))
    halves = runs.halves(made)
    assert made.final("accuracy") == 1
    assert halves.learnt
    assert not halves.sparse_first
