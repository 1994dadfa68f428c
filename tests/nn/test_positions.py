"""Facts about positional encodings."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stairwise.nn import positions as positions_module
from stairwise.nn.positions import (
    LearnedPositions,
    NoPositions,
    RotaryPositions,
    SinusoidalPositions,
    lookup,
    random_places,
    random_positions,
)
from stairwise.nn.relative import Alibi
from tests.helpers import assert_close
from tests.reference import transformer as dense

LENGTH, HEADS, WIDTH = 5, 2, 6


def vectors(seed, dtype=jnp.float32):
    return jax.random.normal(jax.random.key(seed), (LENGTH, HEADS, WIDTH), jnp.float32).astype(dtype)


def test_no_positions_change_nothing():
    x, positions = vectors(0), jnp.arange(LENGTH, dtype=jnp.int32)
    np.testing.assert_array_equal(NoPositions().rotate(x, positions), x)
    np.testing.assert_array_equal(NoPositions().add(x[:, 0], positions), x[:, 0])
    assert NoPositions().limit is None


def test_learned_positions_add_the_row_of_the_table():
    table = jnp.arange(8 * WIDTH, dtype=jnp.float32).reshape(8, WIDTH)
    positions = jnp.array([0, 3, 7, 2, 2], dtype=jnp.int32)
    x = vectors(1)[:, 0]
    added = LearnedPositions(table).add(x, positions)
    np.testing.assert_array_equal(added, x + table[positions])
    assert LearnedPositions(table).limit == 8


def test_a_position_outside_the_learned_table_is_nan_and_not_another_row():
    positions = jnp.array([0, 3, 4, -1, 9], dtype=jnp.int32)
    added = LearnedPositions(jnp.ones((4, WIDTH), dtype=jnp.float32)).add(vectors(1)[:, 0], positions)
    np.testing.assert_array_equal(np.isnan(added), np.repeat([[False], [False], [True], [True], [True]], WIDTH, axis=1))


@pytest.mark.parametrize("gpu", [False, True])
def test_lookup_equals_indexing_to_the_bit_and_so_does_its_gradient(monkeypatch, gpu):
    monkeypatch.setattr(positions_module, "on_gpu", lambda dtype: gpu)
    table = jax.random.normal(jax.random.key(6), (7, WIDTH), jnp.float32)
    indices = jnp.array([6, 0, 3, 3, 1], dtype=jnp.int32)
    np.testing.assert_array_equal(lookup(table, indices), table[indices])
    slopes = jax.random.normal(jax.random.key(7), (LENGTH, WIDTH), jnp.float32)
    gradient = jax.grad(lambda table: jnp.sum(slopes * lookup(table, indices)))(table)
    np.testing.assert_array_equal(gradient, jax.grad(lambda table: jnp.sum(slopes * table[indices]))(table))
    outside = jax.grad(lambda table: jnp.sum(jnp.nan_to_num(lookup(table, indices + 2))))(table)
    np.testing.assert_array_equal(outside.sum(axis=1), [0, 0, WIDTH, WIDTH, 0, 2 * WIDTH, 0])


@pytest.mark.parametrize("base", [10000.0, 50.0])
def test_rotary_equals_complex_rotation(base):
    positions = np.array([0, 1, 7, 300, 12])
    with jax.enable_x64(True):
        x = vectors(2, jnp.float64)
        turned = RotaryPositions(base).rotate(x, jnp.asarray(positions, dtype=jnp.int32))
        for head in range(HEADS):
            assert_close(turned[:, head], dense.rotate(np.asarray(x)[:, head], positions, base), 1e-12)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**31), st.integers(0, 1000), st.integers(0, 1000), st.integers(0, 1000))
def test_rotary_products_depend_only_on_the_relative_position(seed, query_position, key_position, shift):
    with jax.enable_x64(True):
        x = vectors(seed, jnp.float64)

        def product(s, t):
            q, k = (
                RotaryPositions().rotate(x[i : i + 1], jnp.array([p], dtype=jnp.int32)) for i, p in ((0, s), (1, t))
            )
            return np.asarray(jnp.sum(q * k, axis=-1))

        near, far = product(query_position, key_position), product(query_position + shift, key_position + shift)
        scale = np.linalg.norm(x[0], axis=-1) * np.linalg.norm(x[1], axis=-1)
        assert np.max(np.abs(near - far) / scale) < 1e-12


def test_rotary_preserves_norms_and_does_nothing_at_position_zero():
    with jax.enable_x64(True):
        x = vectors(3, jnp.float64)
        turned = RotaryPositions().rotate(x, jnp.arange(LENGTH, dtype=jnp.int32))
        assert_close(jnp.linalg.norm(turned, axis=-1), jnp.linalg.norm(x, axis=-1), 1e-14)
        np.testing.assert_array_equal(turned[0], x[0])


def test_rotary_angles_are_exact_in_bfloat16():
    """At position 1000 the only error left is the rounding of the vectors themselves (2^-8)."""
    positions = jnp.full((LENGTH,), 1000, dtype=jnp.int32)
    rough = RotaryPositions().rotate(vectors(4, jnp.bfloat16), positions)
    assert rough.dtype == jnp.bfloat16
    assert_close(rough, RotaryPositions().rotate(vectors(4), positions), 2**-7)


def test_rotary_refuses_an_odd_head_width():
    with pytest.raises(ValueError, match="head_width=5 must be even"):
        RotaryPositions().rotate(vectors(0)[..., :5], jnp.arange(LENGTH, dtype=jnp.int32))


def test_waves_refuse_an_odd_width():
    with pytest.raises(ValueError, match="width=5 must be even"):
        SinusoidalPositions().add(jnp.zeros((LENGTH, 5)), jnp.arange(LENGTH, dtype=jnp.int32))


@pytest.mark.parametrize("heads", [1, 3, 6])
def test_alibi_falls_at_the_slopes_of_its_definition_for_any_number_of_heads(heads):
    queries, keys = np.array([4, 0]), np.arange(5)
    slopes = 2.0 ** (-8 * np.arange(1, heads + 1) / heads)
    with jax.enable_x64(True):
        bias = Alibi(heads).bias(jnp.asarray(queries), jnp.asarray(keys))
    assert_close(bias, -slopes[:, None, None] * np.abs(queries[:, None] - keys), 1e-14)


def test_random_positions_are_increasing_and_within_the_limit():
    keys = jax.random.split(jax.random.key(0), 200)
    draws = np.asarray(jax.vmap(lambda key: random_positions(key, 5, 12))(keys))
    assert (np.diff(draws, axis=1) > 0).all()
    assert draws.min() == 0
    assert draws.max() == 11


def test_every_subset_of_positions_is_equally_likely():
    draws = jax.vmap(lambda key: random_positions(key, 2, 4))(jax.random.split(jax.random.key(1), 6000))
    _, counts = np.unique(np.asarray(draws), axis=0, return_counts=True)
    assert len(counts) == 6
    assert np.sum((counts - 1000) ** 2 / 1000) < 20.5  # chi-square with 5 degrees of freedom: p = 0.001


def test_random_positions_are_the_same_under_x64():
    draw = random_positions(jax.random.key(7), 6, 40)
    with jax.enable_x64(True):
        again = random_positions(jax.random.key(7), 6, 40)
    np.testing.assert_array_equal(draw, again)
    assert draw.dtype == again.dtype == jnp.int32


def test_random_places_are_random_positions_of_a_traced_number_and_then_padding():
    places = jax.jit(random_places, static_argnums=2)
    for count in (1, 5, 12):
        drawn = places(jax.random.key(3), jnp.int32(count), 12)
        np.testing.assert_array_equal(drawn[:count], random_positions(jax.random.key(3), count, 12))
        np.testing.assert_array_equal(drawn[count:], 11)


@pytest.mark.parametrize("length", [0, 5])
def test_random_positions_refuse_a_length_out_of_range(length):
    with pytest.raises(ValueError, match=rf"length={length} must lie in 1..limit=4"):
        random_positions(jax.random.key(0), length, 4)
