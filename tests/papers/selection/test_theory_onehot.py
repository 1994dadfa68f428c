"""One-hot closed forms against the dense model, the enumerated population, and the paper's printed formulas."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stairwise.papers.selection.config import Task
from stairwise.papers.selection.model import SelectionAttention
from stairwise.papers.selection.theory import encodings, onehot, population
from tests.helpers import assert_close
from tests.reference import selection as dense

SIZES = [(4, 2, 1), (6, 2, 1), (3, 1, 2)]
scalars = st.floats(-2.0, 3.0)


@pytest.fixture(autouse=True)
def _double_precision():
    with jax.enable_x64(True):
        yield


@cache
def dense_population(T, q, d, token):
    return dense.population_loss(T, q, d, np.eye(T), np.full(d, token))


@pytest.mark.parametrize(("T", "d", "d_e", "q"), [(7, 3, 7, 2), (9, 2, 20, 3)])
def test_the_structured_model_equals_the_dense_one(T, d, d_e, q):
    rng = np.random.default_rng(0)
    E = np.eye(T) if d_e == T else encodings.draw(0, 1, T, d_e, 0.9)[0]
    W, V = rng.standard_normal((d + d_e, d + d_e)), rng.standard_normal((d, d + d_e))
    X, token = rng.standard_normal((T, d)), rng.standard_normal(d)
    query = np.concatenate([token, dense.subset_encoding(E.T, range(q))])
    model = SelectionAttention(W=jnp.asarray(W), V=jnp.asarray(V))
    assert_close(model(jnp.asarray(X), jnp.asarray(E), jnp.asarray(query)), dense.output(W, V, X.T, E.T, query), 1e-12)
    assert_close(encodings.subset_encodings(E[None], np.arange(q)[None])[0, 0], query[d:], 1e-12)


@pytest.mark.parametrize("sizes", SIZES)
@settings(deadline=None, max_examples=8)
@given(alpha=scalars, C=scalars)
def test_closed_forms_equal_autodiff_of_the_dense_population_loss(sizes, alpha, C):
    T, q, d = sizes
    task, value = Task(T, q, d), dense_population(T, q, d, 0.0)
    W, V = jnp.asarray(dense.block(d, C * dense.centring(T))), jnp.asarray(alpha * np.eye(d, d + T))
    assert_close(onehot.loss(task, alpha, C), value(W, V), 1e-12)
    grad_W, grad_V = jax.grad(value, argnums=(0, 1))(W, V)
    of_V, of_W = onehot.slopes(task, alpha, C)
    scale = abs(alpha) + 1  # of the terms that cancel in a small gradient
    assert np.max(np.abs(grad_W + of_W * dense.block(d, dense.centring(T)))) <= 1e-13 * scale
    assert np.max(np.abs(grad_V + of_V * np.eye(d, d + T))) <= 1e-13 * scale


@pytest.mark.parametrize("token", [0.0, 0.8])
def test_dense_descent_follows_the_two_scalar_recursion_for_any_query_token(token):
    T, q, d, eta, steps = 4, 2, 1, 0.3, 120
    start = jnp.zeros((d + T, d + T)), jnp.zeros((d, d + T))
    W, V = dense.gradient_descent(dense_population(T, q, d, token), *start, eta, steps)
    path = onehot.descend(Task(T, q, d), eta, steps)
    assert_close(W, path.C[-1] * dense.block(d, dense.centring(T)), 1e-12)
    assert_close(V, path.alpha[-1] * np.eye(d, d + T), 1e-12)


@given(T=st.integers(3, 300), share=st.floats(0.01, 0.99), d=st.integers(1, 20), alpha=scalars, C=st.floats(-3, 12))
def test_the_cancellation_free_forms_equal_the_printed_ones(T, share, d, alpha, C):
    q = max(1, min(T - 1, round(share * T)))
    task, s = Task(T, q, d), dense.attention(T, q, C)
    assert_close(onehot.loss(task, alpha, C), dense.printed_loss(T, q, d, alpha, s), 1e-9)
    of_V, of_W = onehot.slopes(task, alpha, C)
    printed_V, printed_W = dense.printed_ode(T, q, d, alpha, s)
    assert abs(of_V - printed_V) <= 1e-12 * (1 + abs(alpha))
    assert abs(of_W - printed_W) <= 1e-11 * d * (1 + abs(alpha)) ** 2
    assert abs(of_W - dense.printed_w_gradient(T, q, d, alpha, s)) <= 1e-11 * d * (1 + abs(alpha)) ** 2


@given(alpha=scalars, C=scalars)
def test_slopes_are_the_derivatives_of_the_loss(alpha, C):
    task, h = Task(9, 2, 3), 1e-5
    of_V, of_W = onehot.slopes(task, alpha, C)
    by_alpha = (onehot.loss(task, alpha + h, C) - onehot.loss(task, alpha - h, C)) / (2 * h)
    by_C = (onehot.loss(task, alpha, C + h) - onehot.loss(task, alpha, C - h)) / (2 * h)
    assert abs(by_alpha + task.width * of_V) <= 1e-8
    assert abs(by_C + (task.length - 1) * of_W) <= 1e-8


@pytest.mark.parametrize("sizes", [(4, 2, 1), (3, 1, 2)])
def test_a_handful_of_nodes_equals_the_whole_grid(sizes):
    T, q, d = sizes
    task = Task(T, q, d)
    law, rng = population.one_hot_law(T), np.random.default_rng(1)
    block, V = rng.standard_normal((T, T)), rng.standard_normal((d, d + T))
    loss = population.output_averaged(population.token_nodes(task), law, np.full(d, 0.3))
    queries = population.queries(task, law)
    mean = lambda model: jnp.mean(jax.vmap(lambda query: loss(model, query))(queries))  # noqa: E731
    value, gradient = jax.jit(jax.value_and_grad(mean))(population.position_model(block, V))
    whole = dense_population(T, q, d, 0.3)
    at = jnp.asarray(dense.block(d, block)), jnp.asarray(V)
    assert_close(value, whole(*at), 1e-12)
    grad_W, grad_V = jax.grad(whole, argnums=(0, 1))(*at)
    assert_close(gradient.W, grad_W, 1e-12)
    assert_close(gradient.V, grad_V, 1e-12)


def test_descent_tends_to_the_flow_at_the_known_rate():
    task, times = Task(20, 2, 5), np.arange(1, 101) / 5
    limit = onehot.flow(task, times).alpha
    errors = []
    for eta in (2e-3, 1e-3, 5e-4):
        stride = round(0.2 / eta)
        errors.append(np.abs(onehot.descend(task, eta, 100 * stride).alpha[stride::stride] - limit).max())
    np.testing.assert_allclose(errors, [1.46e-5, 7.3e-6, 3.7e-6], rtol=0.02)


def test_steps_to_a_loss_is_the_first_step_at_which_descent_has_it():
    task, eta, epsilon = Task(10, 2, 1), 0.05, 0.01
    path = onehot.descend(task, eta, 30_000)
    first = int(np.argmax(onehot.loss(task, path.alpha, path.C) <= epsilon))
    assert onehot.steps_to_loss(task, eta, epsilon, 30_000) == first
    assert abs(onehot.time_to_loss(task, epsilon) / (eta * first) - 1) < 1e-2


@pytest.mark.parametrize(
    ("sizes", "over_bound", "over_sharp"),
    [((10, 2, 1), 2.71e-2, 1.20), ((20, 2, 5), 3.22e-3, 1.36), ((200, 3, 5), 4.84e-4, 1.95)],
)
def test_the_time_to_half_the_largest_epsilon_has_known_values(sizes, over_bound, over_sharp):
    task = Task(*sizes)
    epsilon = onehot.largest_epsilon(task) / 2
    time = onehot.time_to_loss(task, epsilon)
    assert time / onehot.convergence_time(task, epsilon) == pytest.approx(over_bound, rel=5e-3)
    assert time / onehot.sharp_time(task, epsilon) == pytest.approx(over_sharp, rel=5e-3)


@pytest.mark.parametrize("sizes", [(10, 2, 1), (50, 3, 5), (200, 3, 5)])
def test_the_inverse_loss_slope_is_four_over_t_minus_one_late(sizes):
    task = Task(*sizes)
    path = onehot.flow(task, np.array([1e9]))
    assert onehot.inverse_loss_slope(task, path.alpha, path.C)[0] * (task.length - 1) / 4 == pytest.approx(1, abs=1e-4)


def test_alpha_overshoots_below_the_maximum_of_alpha_star():
    task = Task(200, 3, 5)
    overshoot = onehot.flow(task, np.geomspace(1, 1e6, 3000)).alpha.max()
    assert overshoot == pytest.approx(4.480, abs=2e-3)
    assert onehot.alpha_star_maximum(task) == pytest.approx(4.582, abs=1e-3)


@given(s=st.floats(0.011, 0.33), alpha=st.floats(0.1, 3))
def test_the_ceiling_is_where_the_excess_reaches_its_share(s, alpha):
    task, share = Task(100, 3, 4), 0.6
    top = onehot.ceiling(task, s, share)
    assert onehot.excess(task, top, s) == pytest.approx(share, rel=1e-6, abs=1e-9)
    assert (alpha <= top) == (onehot.excess(task, alpha, s) <= share) or abs(alpha / top - 1) < 1e-9


def test_only_the_corrected_threshold_leaves_little_enough():
    task, epsilon = Task(50, 3, 3), 1e-3
    x = onehot.slack(task, epsilon)
    assert onehot.leak(task, onehot.attention_threshold(task, epsilon)) == pytest.approx(x / (1 + x), rel=1e-12)
    assert onehot.leak(task, onehot.attention_threshold_printed(task, epsilon)) > 10 * x


def test_the_forms_are_finite_where_every_position_is_named():
    task = Task(3, 3, 1)
    path = onehot.descend(task, 0.5, 100)
    assert np.all(path.C == 0)
    assert onehot.alpha_star(task, 0.2) == pytest.approx(1 / (3 * 0.2))
    assert path.alpha[-1] == pytest.approx(onehot.alpha_star(task, 1 / 3), abs=1e-7)
    first = int(np.argmax(onehot.loss(task, path.alpha, path.C) <= 1e-6))
    assert onehot.steps_to_loss(task, 0.5, 1e-6, 100) == first > 0


def test_descent_that_diverges_is_not_a_number():
    assert np.isnan(onehot.descend(Task(6, 2, 1), 100.0, 400).C[-1])
