"""Training: what a seed fixes, what changes no draw, sample complexity and its censoring, the optimiser's options."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

from stairwise.config import structure
from stairwise.papers.parity_cot import train
from stairwise.papers.parity_cot.config.task import PaddedTask
from stairwise.papers.parity_cot.config.training import Decoder, Training
from stairwise.train.loop import Member, Program
from tests.helpers import assert_close

SMALL = Training(
    task=PaddedTask(6, 2, padding=2),
    model=Decoder(16, 1, 2, std=0.25),
    learning_rate=3e-3,
    batch=64,
    look=512,
    test_examples=32,
    budget=20_480,
    attention=8,
    watch=True,
)


def program(config):
    return Program(train.training(structure(config)))


def outcome(compiled, config, seed=0):
    return compiled.run([Member(seed, config)])[0]


def series(found, name):
    return [value for own, value in zip(found.name, found.value, strict=True) if own == name]


@pytest.fixture(scope="module")
def compiled():
    return program(SMALL)


def test_a_small_chain_is_learnt_and_its_complexity_is_the_first_evaluation_that_is_all_right(compiled):
    found = outcome(compiled, SMALL)
    assert found.status == "reached"
    assert found.last("exact match") == 1
    hit = found.last("hit")
    assert hit == 512 * found.step[-1]
    assert all(value < 1 for value in series(found, "exact match")[:-1])
    assert series(found, "hit")[:-1] == [-1] * (len(series(found, "hit")) - 1)


def test_attention_that_is_watched_is_kept_at_every_point_and_its_rows_are_averages_of_attention(compiled):
    found = outcome(compiled, SMALL)
    kept = {name: array for name, array in found.arrays.items() if name.startswith("train/attention@")}
    assert {int(name.rpartition("@")[2]) for name in kept} == {*train.doublings(40, 8)} & {*range(found.step[-1])}
    for weights in kept.values():
        assert_close(np.asarray(weights).sum(axis=-1), np.ones((1, 2, 2)), 1e-5)


def test_going_on_past_the_threshold_changes_no_complexity_and_a_run_that_fails_is_censored(compiled):
    first = outcome(compiled, SMALL)
    longer = outcome(compiled, replace(SMALL, past=5))
    assert longer.last("hit") == first.last("hit")
    assert longer.step[-1] == first.step[-1] + 5
    stuck = outcome(compiled, replace(SMALL, learning_rate=1e-7))
    assert stuck.status == "censored"
    assert stuck.last("hit") == -1


def test_a_trial_is_a_function_of_its_seed(compiled):
    a, b = (outcome(compiled, SMALL, seed=5) for _ in range(2))
    assert a.value == b.value
    other = outcome(compiled, SMALL, seed=6)
    assert other.value != a.value


def test_attention_is_measured_per_head_and_stays_within_its_range(compiled):
    found = outcome(compiled, SMALL)
    for name in ("entropy", "mean entropy", "step entropy", "unsunk entropy", "mass", "agreement"):
        for head in ("1.1", "1.2"):
            values = np.array(series(found, f"{name} {head}"))
            assert ((values >= -1e-6) & (values <= 1 + 1e-6)).all()
    assert found.arrays["train/attention"].shape == (1, 2, 2, 8)
    assert_close(found.arrays["train/attention"].sum(axis=-1), np.ones((1, 2, 2)), 1e-5)
    assert len(set(found.arrays["train/secret"].tolist())) == 2


def test_measuring_points_double():
    points = train.doublings(1000, 8)
    assert points[0] == 0
    assert points[-1] == 1000
    ratios = np.diff(np.log2(points[30:]))
    assert ratios.max() < 0.16


def test_long_gradients_are_clipped_and_a_clip_of_zero_lets_all_pass():
    gradient = {"a": jnp.array([3.0, 4.0], dtype=jnp.float32)}
    for clip, length in ((1.0, 1.0), (10.0, 5.0), (0.0, 5.0)):
        optimizer = train.optimizer(replace(SMALL, clip=clip))
        _, (_, adam, _) = optimizer.update(gradient, optimizer.init(gradient))
        assert_close(jnp.linalg.norm(adam.mu["a"]), 0.1 * length, 1e-6)
