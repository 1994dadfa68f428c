"""Encodings: near-orthogonal within their threshold, prefixes of each other, and the least-squares code of a set."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stairwise.nn.encodings import (
    coherence,
    distinct_signs,
    near_orthogonal,
    one_hot,
    random_signs,
    solve_positive,
    subset_encoding,
)
from tests.helpers import assert_close


@pytest.mark.parametrize("scheme", ["offenders", "vector", "matrix"])
def test_every_scheme_keeps_inner_products_within_the_threshold(scheme):
    threshold = 0.36
    draw = jax.jit(lambda key: near_orthogonal(key, 24, 64, threshold, scheme))
    rounds = []
    for seed in range(8):
        encodings, took, above = draw(jax.random.key(seed))
        assert float(coherence(encodings)) <= threshold + 1e-6
        np.testing.assert_allclose(jnp.sum(encodings**2, axis=1), 1, rtol=1e-6)
        assert not above
        rounds.append(int(took))
    assert max(rounds) > 1  # the threshold bites, so the loop was exercised


@pytest.mark.parametrize("scheme", ["offenders", "vector", "none"])
def test_encodings_of_a_shorter_sequence_are_a_prefix_of_a_longer_one(scheme):
    draw = jax.jit(lambda key, count: near_orthogonal(key, count, 64, 0.36, scheme)[0], static_argnums=1)
    for seed in range(5):
        short, long = draw(jax.random.key(seed), 20), draw(jax.random.key(seed), 33)
        np.testing.assert_array_equal(short, long[:20])


def test_an_impossible_threshold_stops_at_the_cap_and_says_so():
    for scheme in ("offenders", "vector", "matrix"):
        draw = jax.jit(lambda key, scheme=scheme: near_orthogonal(key, 40, 8, 0.01, scheme, max_rounds=25))
        _, rounds, above = draw(jax.random.key(0))
        assert int(rounds) == 25
        assert above


@pytest.mark.parametrize("scheme", ["offenders", "vector", "matrix", "none"])
def test_no_two_encodings_are_equal_up_to_sign_whatever_the_threshold(scheme):
    draw = jax.jit(jax.vmap(lambda key: near_orthogonal(key, 6, 7, 1.0, scheme)))
    sets, _, above = draw(jax.random.split(jax.random.key(0), 200))
    assert float(jax.vmap(coherence)(sets).max()) < 0.9
    assert not above.any()


def test_sets_of_plain_signs_without_repeats_are_left_as_they_are():
    keys = jax.random.split(jax.random.key(1), 200)
    plain = jax.jit(jax.vmap(lambda key: random_signs(key, 6, 7)))(keys)
    drawn = jax.jit(jax.vmap(lambda key: distinct_signs(key, 6, 7)))(keys)
    repeats = np.asarray(jax.vmap(coherence)(plain)) > 6.5
    assert 20 < repeats.sum() < 80  # 15 pairs, each equal with chance 1/64
    changed = np.asarray((plain != drawn).any(axis=2))
    np.testing.assert_array_equal(changed.any(axis=1), repeats)
    assert changed.sum() < 1.3 * repeats.sum()  # only the later of two equal rows is drawn again


def test_signs_are_fair_and_independent_of_how_many_are_drawn():
    signs = np.asarray(random_signs(jax.random.key(3), 500, 70))
    assert set(np.unique(signs)) == {-1.0, 1.0}
    assert abs(signs.mean()) < 4 / np.sqrt(signs.size)
    np.testing.assert_array_equal(signs[:7], random_signs(jax.random.key(3), 7, 70))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 2, 3, 5]))
def test_a_subset_encoding_has_inner_product_one_with_each_member(seed, size):
    with jax.enable_x64(True):
        rng = np.random.default_rng(seed)
        encodings = jnp.asarray(rng.normal(size=(9, 16)))
        subset = jnp.asarray(rng.choice(9, size, replace=False))
        code = jax.jit(subset_encoding)(encodings, subset)
        rows = np.asarray(encodings)[subset]
        assert_close(rows @ code, np.ones(size), 1e-9)
        assert_close(code, np.linalg.pinv(rows) @ np.ones(size), 1e-9)  # the least-norm such vector


def test_padding_of_a_subset_counts_for_nothing():
    encodings, *_ = jax.jit(lambda: near_orthogonal(jax.random.key(0), 12, 32, 1.0, "none"))()
    used = np.array([True, True, False, False, False])
    plain = jax.jit(subset_encoding)(encodings, np.array([3, 5]))
    padded = jax.jit(subset_encoding)(encodings, np.array([3, 5, 0, 0, 0]), used)
    assert_close(padded, plain, 1e-6)


def test_the_code_of_a_subset_under_one_hot_encodings_is_the_sum():
    np.testing.assert_array_equal(subset_encoding(one_hot(5), jnp.array([1, 4])), jnp.array([0.0, 1, 0, 0, 1]))


@pytest.mark.parametrize("n", [1, 2, 3, 4, 8])
def test_small_solves_equal_numpy(n):
    with jax.enable_x64(True):
        root = np.random.default_rng(n).normal(size=(n, n + 2))
        A, b = root @ root.T, np.arange(1.0, n + 1)
        assert_close(solve_positive(jnp.asarray(A), jnp.asarray(b)), np.linalg.solve(A, b), 1e-11)


def test_an_unknown_scheme_is_refused():
    with pytest.raises(ValueError, match="scheme=luck must be one of offenders, vector, matrix, none"):
        near_orthogonal(jax.random.key(0), 3, 4, 1.0, "luck")
