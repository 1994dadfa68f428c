"""Cosine, coefficient and relative distance in the Frobenius geometry."""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stairwise.measure.similarity import coefficient, cosine, relative_distance
from tests.helpers import assert_close


def matrix(seed: int):
    return jnp.asarray(np.random.default_rng(seed).standard_normal((3, 4)), dtype=jnp.float32)


@settings(max_examples=30, deadline=None)
@given(st.floats(1e-25, 1e25), st.integers(0, 1000))
def test_cosine_sees_direction_and_not_size(scale, seed):
    a, b = matrix(seed), matrix(seed + 1)
    expected = np.sum(a * b) / (np.linalg.norm(a) * np.linalg.norm(b))
    assert abs(float(cosine(jnp.float32(scale) * a, b)) - expected) < 1e-6
    assert abs(float(cosine(a, -jnp.float32(scale) * a)) + 1) < 1e-6


def test_zero_has_cosine_and_coefficient_zero_with_everything_and_finite_gradients():
    zero, a = jnp.zeros((3, 4), dtype=jnp.float32), matrix(0)
    for function in (cosine, coefficient):
        assert float(function(zero, a)) == float(function(a, zero)) == float(function(zero, zero)) == 0.0
    for function in (cosine, coefficient, relative_distance):
        for left, right in [(zero, a), (a, zero), (zero, zero), (a, a)]:
            gradients = jax.grad(function, argnums=(0, 1))(left, right)
            assert all(bool(jnp.all(jnp.isfinite(gradient))) for gradient in gradients)


def test_the_gradient_of_the_cosine_is_orthogonal_to_the_array_and_equals_the_closed_form():
    with jax.enable_x64(True):
        a, b = matrix(1).astype(jnp.float64), matrix(2).astype(jnp.float64)
        norm_a, norm_b = jnp.linalg.norm(a), jnp.linalg.norm(b)
        gradient = jax.grad(cosine)(a, b)
        assert abs(float(jnp.sum(gradient * a))) < 1e-14
        assert_close(gradient, b / (norm_a * norm_b) - cosine(a, b) * a / norm_a**2, 1e-13)


def test_the_coefficient_is_the_best_multiple_of_the_pattern():
    a, pattern = matrix(3), matrix(4)
    best = coefficient(a, pattern)
    assert_close(coefficient(a - best * pattern + 2.5 * pattern, pattern), 2.5, 1e-5)
    assert abs(float(cosine(a - best * pattern, pattern))) < 1e-6


def test_relative_distance_is_the_sine_after_the_best_rescaling():
    a, b = matrix(5), matrix(6)
    projected = coefficient(b, a) * a
    assert_close(relative_distance(projected, b) ** 2 + cosine(a, b) ** 2, 1.0, 1e-6)
    assert float(relative_distance(a, jnp.zeros_like(a))) == float(jnp.sqrt(jnp.sum(a * a)))
