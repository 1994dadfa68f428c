"""The features of the value token: gradient parts, the conserved sum, the curriculum, the tensor power method."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stairwise.papers.lego import ffn
from stairwise.papers.lego.groups import named
from stairwise.papers.lego.model import feature_ratio, feature_scale
from stairwise.papers.lego.theory import features, phases, tensor_power
from stairwise.train.keys import role_key
from tests.helpers import assert_close


def token_of(name: str, clip: float = 16.0, bias: float = 0.1) -> ffn.ValueToken:
    action = named(name)
    table = jnp.asarray(action.table, dtype=jnp.int32)
    return ffn.ValueToken(table, clip, bias, 0.8, 256.0 - action.values, 4)


def drawn(token: ffn.ValueToken, scale: float = 0.7) -> ffn.Features:
    return token.start(role_key(3, "test"), 4, scale, jnp.float64)


def ideal_features(name: str, height: float) -> ffn.Features:
    """alpha on the fiber and -beta off it; beta at the value and -alpha elsewhere; neuron y for value y."""
    action = named(name)
    alpha, beta = features.magnitudes(action, height)
    hit = action.fibers.transpose(0, 1, 2)  # (j, y, g)
    value = np.broadcast_to(np.where(np.eye(action.values, dtype=bool), beta, -alpha), (*hit.shape[:2], action.values))
    return ffn.Features(jnp.asarray(np.where(hit, alpha, -beta)), jnp.asarray(value))


def test_pushes_less_pulls_are_the_gradient_also_where_the_clip_is_active():
    with jax.enable_x64(True):
        token = token_of("S3", clip=0.3)
        start = drawn(token)
        found = jax.jit(lambda f: (jax.grad(token.loss)(f), phases.gamma(token, f), token.logits(f)))(start)
        gradient, parts, outputs = found
        assert bool((outputs >= token.clip).any())
        assert_close(-np.asarray(gradient.value), (np.asarray(parts.push) - np.sum(parts.pull, axis=2)) / 2, 1e-12)
        assert_close(np.sum(gradient.action, axis=-1), np.sum(gradient.value, axis=-1), 1e-12)


@eqx.filter_jit
def _stepped(token: ffn.ValueToken, start: ffn.Features, rate) -> ffn.Features:
    return token.descended(start, rate, "relative")


@settings(max_examples=8, deadline=None)
@given(st.floats(1e-3, 100.0))
def test_every_step_conserves_the_sum_over_actions_less_the_sum_over_values(rate):
    with jax.enable_x64(True):
        token = token_of("D4")
        start = drawn(token)
        assert_close(_stepped(token, start, jnp.asarray(rate)).conserved(), start.conserved(), 1e-9)


def test_ideal_features_answer_every_pair_at_the_floor_and_have_the_ratio_of_the_theorem():
    with jax.enable_x64(True):
        for name in ("C4", "S4"):
            action = named(name)
            token = token_of(name, bias=0.0)
            ideal = ideal_features(name, float(feature_scale(16.0, 0.8, 4)))
            shape, accuracy, loss = jax.jit(lambda f, t=token: (ffn.shape(t, f), t.accuracy(f), t.loss(f)))(ideal)
            assert float(accuracy) == 1
            assert float(token.accuracy(jax.tree.map(lambda v: -jnp.ones_like(v), ideal))) == 0  # all logits tie at 0
            assert_close(loss, token.floor(), 1e-9)
            assert_close(
                np.mean(shape.action) / np.mean(shape.value), feature_ratio(action.actions, action.values), 1e-12
            )
            assert float(shape.cancellation.max()) < 1e-12
            assert int(shape.distinct()) == action.values**2
            assert float(jnp.abs(ideal.conserved()).max()) < 1e-9


def test_ideal_features_stand_still():
    with jax.enable_x64(True):
        token, ideal = token_of("S3", bias=0.0), ideal_features("S3", float(feature_scale(16.0, 0.8, 4)))
        gradient = jax.jit(jax.grad(token.loss))(ideal)
        assert max(float(jnp.abs(leaf).max()) for leaf in gradient) == 0


def test_the_curriculum_gives_each_neuron_one_combination_and_takes_the_largest_first():
    start = np.random.default_rng(0).normal(size=(3, 5, 3))
    won = phases.curriculum(start)
    for j in range(3):
        assert len(set(won[j])) == 3
        r, y = np.unravel_index(start[j].argmax(), start[j].shape)
        assert won[j, y] == r


def test_the_fiber_mean_of_a_free_action_is_the_value_of_its_one_action():
    with jax.enable_x64(True):
        token = token_of("C3")
        start = drawn(token)
        found = np.asarray(jax.jit(ffn.emergence)(start, token.fibers))
        action, value = (np.asarray(leaf) for leaf in start)
        for j, y in np.ndindex(3, 3):
            g = (j - y) % 3
            assert_close(found[j, :, y], (action[j, :, g] + value[j, :, y]) / 2, 1e-12)


@pytest.mark.parametrize("name", ["C3", "S3", "A4", "D4"])
def test_the_lift_is_what_steps_on_single_pairs_add_up_to(name):
    action, draws = named(name), np.random.default_rng(0)
    shape = (action.values, action.values)
    push, off, on, found = (np.zeros(shape) for _ in range(4))
    for j, y in np.ndindex(*shape):
        of_action, of_value = np.zeros(action.actions), np.zeros(action.values)
        fiber = [g for g in range(action.actions) if action.table[g, y] == j]
        others = [g for g in range(action.actions) if g not in fiber]
        elsewhere = [z for z in range(action.values) if z != y]
        for _ in range(200):
            g, z, step = draws.integers(action.actions), draws.integers(action.values), draws.normal()
            if g not in fiber and z != y:
                continue  # a pair that shares nothing stands still
            of_action[g] += step / 2
            of_value[z] += step / 2
            push[j, y] += step if g in fiber and z == y else 0.0
        off[j, y] = sum(of_action[g] + of_value[y] for g in others)
        on[j, y] = sum(of_action[g] + of_value[z] for g in fiber for z in elsewhere)
        found[j, y] = np.mean([(of_action[g] + of_value[y]) / 2 for g in fiber])
    assert_close(features.lift(action, push, off, on), found, 1e-12)


def test_printed_magnitudes_add_up_to_more_than_the_clip_allows():
    for values in (3, 5):
        assert_close(sum(features.magnitudes_printed(values, 1.0)), 2 * (1 + 1 / values), 1e-12)
        assert_close(sum(features.magnitudes(named(f"S{values}"), 1.0)), 2.0, 1e-12)


# --- the tensor power method ------------------------------------------------------------------------------------------


@settings(max_examples=10, deadline=None)
@given(st.floats(0.05, 0.3), st.sampled_from([3, 4, 6]))
def test_the_hitting_time_approaches_its_limit_as_steps_shrink(start, q):
    limit = tensor_power.hitting_time(start, 1.0, q)
    rate = 0.01 * start ** (2 - q) * start
    errors = []
    for size in (rate, rate / 4):
        walk = tensor_power.recursion(start, 1.0, min(size, 0.05), q)
        errors.append(abs(min(size, 0.05) * (len(walk) - 1) / limit - 1))
    assert errors[1] < 0.1


def test_the_loser_of_a_race_grows_by_the_closed_form():
    steps = len(tensor_power.recursion(0.05, 1.0, 1e-3, 4)) - 1
    for lead, growth in ((1.2, 1.8040), (2.0, 1.1542)):
        measured = tensor_power.followed(0.05 / lead, steps, 1e-3, 4) / (0.05 / lead)
        assert_close(measured, tensor_power.loser_growth(lead, 0.05, 1.0, 4), 1e-3)
        assert_close(measured, growth, 1e-3)
    assert tensor_power.loser_growth(1.0, 0.05, 1.0, 4, speed=1.5) == math.inf


@given(st.floats(0.01, 3.0), st.floats(0.0, 2.0), st.sampled_from([3, 5]))
def test_moments_of_a_noisy_power_are_those_of_gauss_hermite_quadrature(value, noise, power):
    points, weights = np.polynomial.hermite_e.hermegauss(12)
    expected = weights @ (value + noise * points) ** power / weights.sum()
    assert tensor_power.noisy_power(value, noise, power) == pytest.approx(expected, rel=1e-9)
