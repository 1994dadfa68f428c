"""Enumerated loss, gradient and noise against closed forms, Monte Carlo and each other."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stairwise.measure.population import (
    Enumeration,
    expectation,
    gauss_hermite,
    population_gradient,
    population_loss,
    product,
    signal_to_noise,
    subsets,
    uniform,
)
from tests.helpers import assert_close

TARGET = np.array([1.0, -2.0, 0.5])


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def regression_loss(w, x):
    return (x @ (w - TARGET)) ** 2 / 2


def sample_points(seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    weights = random.uniform(0.1, 1.0, n)
    return random.standard_normal((n, 3)), weights / weights.sum()


def test_regression_loss_and_gradient_equal_the_closed_form():
    points, weights = sample_points(0, 23)
    space = Enumeration(jnp.asarray(points), jnp.asarray(weights))
    w = np.array([0.3, 0.1, -0.7])
    second_moment = (points * weights[:, None]).T @ points
    loss = (w - TARGET) @ second_moment @ (w - TARGET) / 2
    assert_close(population_loss(regression_loss, jnp.asarray(w), space), loss, 1e-12)
    gradient = population_gradient(regression_loss, jnp.asarray(w), space)
    assert_close(gradient, second_moment @ (w - TARGET), 1e-12)


@pytest.mark.parametrize("chunk", [1, 5, 23, 1000])
def test_chunks_change_nothing_even_where_they_do_not_divide_the_space(chunk):
    points, weights = sample_points(1, 23)
    space = Enumeration({"x": jnp.asarray(points)}, jnp.asarray(weights))
    assert_close(expectation(lambda example: example["x"] ** 3, space, chunk), weights @ points**3, 1e-13)


def test_the_gradient_is_that_of_the_loss():
    space = Enumeration(*map(jnp.asarray, sample_points(2, 10)))

    def loss(w, x):
        return jnp.log1p(jnp.exp(x @ w))

    w = jnp.asarray(TARGET)
    through_the_sum = jax.grad(lambda w: population_loss(loss, w, space, chunk=4))(w)
    assert_close(population_gradient(loss, w, space, chunk=4), through_the_sum, 1e-13)


def test_models_are_vmapped_and_one_loss_is_traced_once():
    space = Enumeration(*map(jnp.asarray, sample_points(5, 10)))
    traces = []

    def loss(w, x):
        traces.append(1)
        return regression_loss(w, x)

    models = jnp.asarray(np.random.default_rng(6).standard_normal((4, 3)))
    together = jax.vmap(lambda w: population_loss(loss, w, space))(models)
    first = population_loss(loss, models[0], space)
    before = len(traces)
    alone = [population_loss(loss, w, space) for w in models[1:]]
    assert len(traces) == before
    assert_close(together, [first, *alone], 1e-13)


def test_leaves_that_are_not_floating_point_have_no_gradient():
    class Model(eqx.Module):
        w: jax.Array
        offset: jax.Array
        power: int

    model = Model(jnp.float64(3.0), jnp.int32(1), 2)
    space = uniform(jnp.array([1.0, 2.0], dtype=jnp.float64))
    gradient = population_gradient(lambda m, x: (m.w * x + m.offset) ** m.power / 2, model, space)
    assert_close(gradient.w, (4 * 1 + 7 * 2) / 2, 1e-13)
    assert gradient.offset is None
    assert gradient.power is None


@pytest.mark.parametrize("points", [1, 2, 3, 5])
def test_gauss_hermite_is_exact_up_to_its_degree_and_not_beyond(points):
    space = gauss_hermite(2, points)
    x = np.asarray(space.examples)

    def moment(i: int, j: int) -> float:
        return float(space.weights @ (x[:, 0] ** i * x[:, 1] ** j))

    def gaussian(i: int) -> int:
        return 0 if i % 2 else math.prod(range(1, i, 2))

    exact = range(2 * points)
    measured = np.array([[moment(i, j) for i in exact] for j in exact])
    assert_close(measured, [[gaussian(i) * gaussian(j) for i in exact] for j in exact], 1e-13)
    # the error of the next moment is the squared norm of the Hermite polynomial that vanishes at the nodes
    assert_close(gaussian(2 * points) - moment(2 * points, 0), math.factorial(points), 1e-12)


def test_a_product_space_has_independent_factors():
    coin = Enumeration(jnp.array([0.0, 1.0], dtype=jnp.float64), jnp.array([0.25, 0.75], dtype=jnp.float64))
    space = product(coin, gauss_hermite(1), uniform(subsets(4, 2)))
    assert space.weights.shape == (2 * 3 * 6,)
    assert_close(jnp.sum(space.weights), 1.0, 1e-14)

    def moments(example):
        bit, x, subset = example
        return {"bit": bit, "both": bit * x[0] ** 2 * subset[1], "odd": bit * x[0]}

    found = expectation(moments, space)
    assert_close(found["bit"], 0.75, 1e-14)
    assert_close(found["both"], 0.75 * 1 * (1 + 2 + 3 + 2 + 3 + 3) / 6, 1e-14)
    assert abs(found["odd"]) < 1e-15


def test_subsets_are_all_there_once_and_sorted():
    rows = subsets(6, 3).tolist()
    assert len(rows) == len({tuple(row) for row in rows}) == math.comb(6, 3)
    assert all(row == sorted(set(row)) for row in rows)
    assert subsets(3, 0).shape == (1, 0)


def test_weights_are_in_double_precision_when_it_is_on():
    assert uniform(jnp.zeros(3, dtype=jnp.float32)).weights.dtype == jnp.float64
    with jax.enable_x64(False):
        assert uniform(jnp.zeros(3, dtype=jnp.float32)).weights.dtype == jnp.float32


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**16))
def test_noise_of_regression_equals_its_closed_form(seed):
    points, weights = sample_points(seed, 8)
    space = Enumeration(jnp.asarray(points), jnp.asarray(weights))
    w = np.zeros(3)
    gradients = points * (points @ (w - TARGET))[:, None]
    mean = weights @ gradients
    noise = signal_to_noise(regression_loss, jnp.asarray(w), space, batch=16)
    assert_close(noise.signal, mean @ mean, 1e-12)
    assert_close(noise.trace, weights @ np.sum((gradients - mean) ** 2, axis=1), 1e-12)
    assert_close(noise.ratio, 16 * (mean @ mean) / np.asarray(noise.trace), 1e-12)


def test_noise_of_a_batch_agrees_with_monte_carlo():
    points, weights = sample_points(3, 30)
    space = Enumeration(jnp.asarray(points), jnp.asarray(weights))
    batch, repeats = 5, 4000
    gradients = points * (points @ -TARGET)[:, None]
    drawn = np.random.default_rng(4).choice(30, size=(repeats, batch), p=weights)
    deviations = np.sum((gradients[drawn].mean(axis=1) - weights @ gradients) ** 2, axis=1)
    noise = signal_to_noise(regression_loss, jnp.zeros(3, dtype=jnp.float64), space, batch)
    standard_error = deviations.std(ddof=1) / math.sqrt(repeats)
    assert abs(deviations.mean() - float(noise.signal / noise.ratio)) < 3 * standard_error


def test_a_leaf_without_signal_has_ratio_zero_and_one_without_noise_has_infinite_ratio():
    space = uniform(jnp.array([-1.0, 1.0], dtype=jnp.float64))
    model = {"signless": jnp.float64(0), "sure": jnp.float64(0), "unused": jnp.float64(0)}
    noise = signal_to_noise(lambda m, x: m["signless"] * x + m["sure"], model, space)
    assert {name: float(ratio) for name, ratio in noise.ratio.items()} == {
        "signless": 0.0,
        "sure": math.inf,
        "unused": 0.0,
    }
    assert float(noise.trace["signless"]) == 1.0


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: gauss_hermite(0), "dimensions=0"),
        (lambda: gauss_hermite(40), "points\\*\\*dimensions"),
        (lambda: subsets(3, 4), "size=4 must lie in 0..length=3"),
        (lambda: uniform((jnp.zeros(2, dtype=jnp.float32), jnp.zeros(3, dtype=jnp.float32))), "leading axes"),
    ],
)
def test_bad_sizes_are_named(build, message):
    with pytest.raises(ValueError, match=message):
        build()
