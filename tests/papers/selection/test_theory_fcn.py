"""Fully connected nets, the attention construction, and other lengths: closed forms against explicit matrices."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stairwise.papers.selection.config import Task
from stairwise.papers.selection.theory import (
    construction,
    encodings,
    fcn,
    generalisation,
    onehot,
    population,
    stochastic,
)
from tests.helpers import assert_close
from tests.reference import selection as dense


def moment(task):
    return fcn.second_moment(task, np.array(dense.all_subsets(task.length, task.sparsity)))


@pytest.mark.parametrize("sizes", [(6, 2, 1), (5, 1, 2), (5, 3, 2), (4, 4, 2)])
def test_the_best_head_leaves_what_the_selection_matrices_say(sizes):
    task, rng = Task(*sizes), np.random.default_rng(0)
    inputs = task.length * task.width
    for m in range(0, inputs + 2, 2):
        layer = rng.standard_normal((m, inputs))
        found = fcn.best_head_risk(layer, moment(task), task.width)
        assert abs(found - dense.best_head_risk(layer, *sizes)) <= 1e-12


@pytest.mark.parametrize("sizes", [(6, 2, 1), (5, 2, 3), (7, 3, 2), (4, 1, 4)])
def test_the_optimal_layer_attains_the_infimum_and_no_random_one_gets_below(sizes):
    task, rng = Task(*sizes), np.random.default_rng(1)
    inputs = task.length * task.width
    for m in range(inputs + 1):
        optimal = fcn.optimal_risk(*sizes, m)
        assert abs(fcn.best_head_risk(fcn.optimal_first_layer(task, m), moment(task), task.width) - optimal) <= 1e-12
        assert fcn.best_head_risk(rng.standard_normal((m, inputs)), moment(task), task.width) >= optimal - 1e-12
    assert fcn.optimal_risk(*sizes, inputs - 1) == pytest.approx(fcn.lower_bound(task), rel=1e-12)


def test_the_infimum_has_the_known_values():
    assert [round(fcn.optimal_risk(6, 2, 1, m), 4) for m in (2, 4, 5, 6)] == [0.2667, 0.1333, 0.0667, 0.0]


def test_the_infimum_is_approached_as_the_shift_by_the_query_grows():
    risks = [fcn.shifted_risk(shift) for shift in (0.0, 1.0, 3.0, 6.0, 10.0)]
    assert risks[0] == pytest.approx(0.5, abs=1e-9)  # the query is lost: the mean of the tokens is the best guess
    assert all(later < earlier for earlier, later in itertools.pairwise(risks))
    assert risks[-1] < 1e-9


@pytest.mark.parametrize("sizes", [(6, 2, 1), (8, 2, 2), (7, 1, 2), (9, 4, 3)])
def test_the_pair_looks_the_same_and_its_targets_are_one_over_q_apart(sizes):
    task = Task(*sizes)
    layer = np.random.default_rng(2).standard_normal((fcn.widest_fooled(task), task.length * task.width))
    pair = fcn.indistinguishable_pair(layer, task)
    assert np.abs(layer @ (pair.tokens - pair.other).reshape(-1)).max() <= 1e-12
    gap = dense.answer(pair.tokens.T, pair.subset) - dense.answer(pair.other.T, pair.subset)
    assert np.linalg.norm(gap) == pytest.approx(1 / task.sparsity, rel=1e-12)
    assert pair.gap == pytest.approx(1 / task.sparsity, rel=1e-12)


def test_the_construction_is_the_model_with_identity_weights():
    task = Task(9, 2, 3)
    E = encodings.draw(0, 1, 9, 24, 0.6)
    e_y = encodings.subset_encodings(E, np.array([[1, 5]]))[0, 0]
    tokens = np.random.default_rng(0).standard_normal((9, 3))
    with jax.enable_x64(True):
        model = population.stochastic_model(task, 24, 1.0, 4.0)
        output = model(jnp.asarray(tokens), jnp.asarray(E[0]), jnp.asarray(np.concatenate([np.zeros(3), e_y])))
    assert_close(construction.attend(tokens, E[0], e_y, 4.0), output, 1e-12)


@settings(deadline=None)
@given(scale=st.floats(0.0, 20.0), seed=st.integers(0, 20))
def test_the_worst_error_is_attained_by_aligned_tokens_and_respects_its_bound(scale, seed):
    T, q = 10, 2
    E = encodings.draw(seed, 1, T, 40, 0.7)
    subset = np.array([[0, 4]])
    overlaps = encodings.overlaps(E, subset)[0]
    worst = construction.worst_error(overlaps, q, scale)
    e_y = encodings.subset_encodings(E, subset)[0, 0]
    tokens = np.where(np.isin(np.arange(T), subset), 1.0, -1.0)[:, None]
    error = dense.answer(tokens.T, subset[0]) - construction.attend(tokens, E[0], e_y, scale)
    assert abs(error[0]) == pytest.approx(worst, rel=1e-9, abs=1e-12)
    gamma = float(overlaps.max())
    assert worst <= construction.error_bound(T, q, scale, gamma) * (1 + 1e-12)


def test_both_scales_of_the_construction_suffice_below_an_overlap_of_one_half():
    for T in (20, 200, 2000):
        for epsilon in (1.0, 0.5, 0.1):
            for scale in (construction.scale_printed(T, epsilon), construction.scale_sufficient(T, epsilon)):
                assert construction.worst_error(np.full((1, T - 3), 0.5), 3, scale) <= epsilon


def test_the_loss_ratio_tends_to_the_known_limits():
    trained = Task(200, 3, 5)
    lengths = [generalisation.loss_ratio_limit(trained, Task(T, 3, 5)) for T in (250, 300, 400, 800)]
    np.testing.assert_allclose(lengths, [5.48, 18.43, 69.7, 613], rtol=1e-3)
    sparsities = [generalisation.loss_ratio_limit(trained, Task(200, q, 5)) for q in (5, 6, 7, 8)]
    np.testing.assert_allclose(sparsities, [6.85, 8.71, 9.65, 10.05], rtol=1e-3)
    assert generalisation.loss_ratio_at_one(trained, Task(400, 3, 5)) == pytest.approx(4.03, abs=5e-3)
    path = onehot.flow(trained, np.array([1e4, 1e5, 1e6, 1e7]))
    ratios = onehot.loss(Task(400, 3, 5), path.alpha, path.C) / onehot.loss(trained, path.alpha, path.C)
    np.testing.assert_allclose(ratios, [9.5, 35.7, 55.2, 64.6], rtol=2e-3)


@given(T1=st.integers(9, 300), more=st.integers(0, 500), q=st.integers(2, 5), u=st.floats(1e-9, 1e-7))
def test_the_limit_is_the_ratio_at_a_tiny_leak(T1, more, q, u):
    trained, tested = Task(T1, q, 2), Task(T1 + more, q, 2)
    C = np.log((T1 - q) / q / u)
    alpha = onehot.alpha_star(trained, onehot.named_attention(trained, C))
    ratio = onehot.loss(tested, alpha, C) / onehot.loss(trained, alpha, C)
    assert ratio == pytest.approx(generalisation.loss_ratio_limit(trained, tested), rel=1e-3)


@pytest.mark.parametrize(
    ("trained", "tested", "known"),
    [
        (Task(200, 3, 5), Task(400, 3, 5), 0.425),
        (Task(200, 3, 5), Task(250, 3, 5), 0.492),
        (Task(200, 3, 5), Task(400, 8, 5), 0.031),
        (Task(20, 2, 5), Task(40, 2, 5), 0.436),
    ],
)
def test_the_formal_corollary_has_the_known_ratios(trained, tested, known):
    epsilon = onehot.largest_epsilon(trained) / 2
    C = onehot.attention_threshold(trained, epsilon)
    worst = max(onehot.loss(tested, alpha, C) for alpha in stochastic.alpha_interval(trained, epsilon))
    assert worst / generalisation.order_bound(trained, tested, epsilon) == pytest.approx(known, abs=6e-4)
    assert worst <= generalisation.explicit_bound(trained, tested, epsilon)


def test_the_corrected_display_is_what_substitution_gives():
    sizes = Task(200, 3, 5), Task(400, 5, 5), 0.004
    assert generalisation.leading_term(*sizes) == pytest.approx(1.7324e-3, rel=1e-4)
    assert generalisation.leading_term_by_substitution(*sizes) == pytest.approx(generalisation.leading_term(*sizes))
    assert generalisation.leading_term_printed(*sizes[:2]) * 0.004 == pytest.approx(8.66e-3, rel=1e-3)
