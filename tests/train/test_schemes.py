"""Schemes: curricula, mixtures, finite data, self-labelling, accumulated steps and trainable masks do what they say."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from stairwise.train.loop import Member, Program
from stairwise.train.schemes import curriculum, finite, mixture, online, self_training
from tests.helpers import assert_close

TRUTH = jnp.array([1.0, -2.0, 0.5], dtype=jnp.float32)
WIDTH = 3


def inputs(key):
    return jax.random.normal(key, (WIDTH,), dtype=jnp.float32)


def sample(key):
    x = inputs(key)
    return x, x @ TRUTH


def loss(w, example):
    x, y = example
    return 0.5 * (w @ x - y) ** 2


COMMON = {
    "init": lambda key: jnp.zeros(WIDTH, dtype=jnp.float32),
    "loss": loss,
    "optimizer": optax.sgd(0.1),
    "batch": 16,
}


class Rated(NamedTuple):
    rate: float


def fit(stages, seed=0, config=None):
    return Program(stages).run([Member(seed, config)])[0]


def test_micro_batches_accumulate_the_gradient_of_the_large_batch():
    whole = fit([online(sample=finite(sample, 1), steps=5, **COMMON)])
    parts = fit([online(sample=finite(sample, 1), steps=5, micro_batches=4, **{**COMMON, "batch": 4})])
    assert_close(parts.arrays["train/model"], whole.arrays["train/model"], 1e-6)
    assert np.any(whole.arrays["train/model"] != 0)


def test_a_traced_learning_rate_equals_a_constant_one():
    traced = {**COMMON, "optimizer": lambda config: optax.sgd(config.rate)}
    a = fit([online(sample=sample, steps=20, **traced)], config=Rated(0.1))
    b = fit([online(sample=sample, steps=20, **COMMON)])
    assert_close(a.arrays["train/model"], b.arrays["train/model"], 1e-6)


def test_what_is_not_trainable_keeps_its_value():
    stage = online(sample=sample, steps=50, train_only=lambda w: jnp.array([True, False, True]), **COMMON)
    weights = fit([stage]).arrays["train/model"]
    assert weights[1] == 0
    assert abs(weights[0]) > 0.1


def test_a_curriculum_hands_the_model_on():
    stages = curriculum({"easy": sample, "hard": sample}, steps=40, **COMMON)
    both = fit(stages)
    assert both.stage.count("easy") > 0
    assert both.stage.count("hard") > 0
    first = np.linalg.norm(both.arrays["easy/model"] - np.asarray(TRUTH))
    assert np.linalg.norm(both.arrays["hard/model"] - np.asarray(TRUTH)) < 0.5 * first


def test_a_finite_set_repeats_its_examples():
    draw = jax.jit(finite(sample, 4))
    seen = {tuple(np.asarray(draw(jax.random.key(k))[0]).tolist()) for k in range(60)}
    assert len(seen) == 4


def test_a_mixture_draws_with_its_weights():
    draw = jax.jit(jax.vmap(mixture([lambda key: jnp.float32(0), lambda key: jnp.float32(1)], [1, 3])))
    share = float(jnp.mean(draw(jax.random.split(jax.random.key(0), 4000))))
    assert abs(share - 0.75) < 4 * np.sqrt(0.75 * 0.25 / 4000)


def test_self_training_learns_the_frozen_annotator_and_not_the_truth():
    half = TRUTH / 2
    stages = self_training({"self": inputs}, lambda w, x: (x, 0.5 * (w @ x)), steps=300, **COMMON)
    start = {**COMMON, "init": lambda key: TRUTH}
    learnt = fit(self_training({"self": inputs}, lambda w, x: (x, 0.5 * (w @ x)), steps=300, **start))
    assert_close(learnt.arrays["self/model"], half, 1e-3)
    assert_close(fit(stages).arrays["self/model"] + 1, np.ones(WIDTH), 1e-6)


def test_training_stops_when_its_condition_holds():
    stage = online(sample=sample, steps=500, measure_every=100, until=lambda trial, state: state.loss < 1e-4, **COMMON)
    outcome = fit([stage])
    assert outcome.status == "reached"
    assert outcome.last("loss") < 1e-4
    assert outcome.step[-1] < 500


def test_an_empty_data_set_is_refused():
    with pytest.raises(ValueError, match="samples=0 must be at least 1"):
        finite(sample, 0)
