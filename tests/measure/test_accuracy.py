"""Exact match, accuracy of each step, and Wilson's interval."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from stairwise.measure.accuracy import exact_match, exact_match_accuracy, share, step_accuracy, wilson
from tests.helpers import assert_close

LABELS = jnp.array([[1, 2, 3], [4, 5, 6], [7, 8, 9], [1, 1, 1]], dtype=jnp.int32)
PREDICTED = jnp.array([[1, 2, 3], [4, 0, 6], [7, 8, 0], [1, 1, 1]], dtype=jnp.int32)


def test_exact_match_needs_every_step():
    assert exact_match(PREDICTED, LABELS).tolist() == [True, False, False, True]
    assert_close(exact_match_accuracy(PREDICTED, LABELS).value, 0.5, 1e-7)
    assert_close(step_accuracy(PREDICTED, LABELS).value, [1.0, 0.75, 0.75], 1e-7)


def test_padding_steps_neither_help_nor_hurt():
    lengths = jnp.array([3, 1, 2, 3], dtype=jnp.int32)
    counted = jnp.arange(3, dtype=jnp.int32) < lengths[:, None]
    assert exact_match(PREDICTED, LABELS, counted).tolist() == [True, True, True, True]
    rates = step_accuracy(PREDICTED, LABELS, counted & jnp.array([True, True, False]))
    assert rates.value[:2].tolist() == [1.0, 1.0]
    assert bool(jnp.isnan(rates.value[2]))
    assert (float(rates.low[2]), float(rates.high[2])) == (0.0, 1.0)
    # 3 counted examples leave more doubt than 4
    assert float(rates.low[1]) < float(rates.low[0])


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 5000), st.floats(0, 1), st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_wilson_equals_scipy(trials, fraction, confidence):
    successes = round(fraction * trials)
    expected = stats.binomtest(successes, trials).proportion_ci(confidence, method="wilson")
    with jax.enable_x64(True):
        found = wilson(successes, trials, confidence)
        assert_close(jnp.stack([found.low, found.high]), [expected.low, expected.high], 1e-12)


def test_wilson_covers_the_truth_about_as_often_as_it_says():
    trials, rate = 40, 0.1
    counts = jnp.arange(trials + 1, dtype=jnp.int32)
    interval = wilson(counts, jnp.full(trials + 1, trials, dtype=jnp.int32))
    covers = np.asarray((interval.low <= rate) & (rate <= interval.high))
    coverage = stats.binom.pmf(np.asarray(counts), trials, rate)[covers].sum()
    assert 0.92 < coverage < 0.98


def test_a_confidence_outside_the_unit_interval_is_named():
    with pytest.raises(ValueError, match="confidence=2"):
        wilson(1, 2, 2.0)


def test_a_share_is_exactly_1_where_all_are_right_and_a_mean_elsewhere():
    flags = np.random.default_rng(0).random((3, 255)) < 0.3
    np.testing.assert_allclose(share(jnp.asarray(flags), axis=1), flags.mean(axis=1), rtol=1e-6)
    for count in (1, 3, 255, 500, 3000):
        assert float(share(jnp.ones(count, dtype=bool))) == 1
        assert float(share(jnp.zeros(count, dtype=bool))) == 0
    almost = jnp.full(255, 1, dtype=jnp.float32).at[0].set(0.5)
    assert float(share(almost)) < 1  # shares of shares too
    assert float(share(jnp.asarray([True, False]), where=jnp.asarray([True, False]))) == 1
    assert bool(jnp.isnan(share(jnp.ones(3, dtype=bool), where=jnp.zeros(3, dtype=bool))))
