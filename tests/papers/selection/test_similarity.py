"""The cosine in the Frobenius geometry."""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stairwise.papers.selection.similarity import cosine
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


def test_zero_has_cosine_zero_with_everything_and_finite_gradients():
    zero, a = jnp.zeros((3, 4), dtype=jnp.float32), matrix(0)
    assert float(cosine(zero, a)) == float(cosine(a, zero)) == float(cosine(zero, zero)) == 0.0
    for left, right in [(zero, a), (a, zero), (zero, zero), (a, a)]:
        gradients = jax.grad(cosine, argnums=(0, 1))(left, right)
        assert all(bool(jnp.all(jnp.isfinite(gradient))) for gradient in gradients)


def test_the_gradient_of_the_cosine_is_orthogonal_to_the_array_and_equals_the_closed_form():
    with jax.enable_x64(True):
        a, b = matrix(1).astype(jnp.float64), matrix(2).astype(jnp.float64)
        norm_a, norm_b = jnp.linalg.norm(a), jnp.linalg.norm(b)
        gradient = jax.grad(cosine)(a, b)
        assert abs(float(jnp.sum(gradient * a))) < 1e-14
        assert_close(gradient, b / (norm_a * norm_b) - cosine(a, b) * a / norm_a**2, 1e-13)
