"""Averages over encodings: the exact enumeration of 384 sets, the scalar dynamics, and Lemmas E.2 to E.15."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stairwise.papers.selection.claims.laws import Exact
from stairwise.papers.selection.config import Task
from stairwise.papers.selection.theory import encodings, onehot, population, stochastic
from tests.helpers import assert_close
from tests.reference import selection as dense

TASK = Task(4, 2, 1)


@pytest.fixture(autouse=True)
def _double_precision():
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module")
def law():
    return encodings.every(4, 3, 0.99, 2)


@pytest.fixture(scope="module")
def overlaps(law):
    return encodings.overlaps(law, np.array(dense.all_subsets(4, 2))).reshape(-1, 2)


def test_the_enumerated_losses_and_gradients_have_the_known_values(law, overlaps):
    alpha, C = 0.8, 1.7
    assert len(law) == 384
    assert stochastic.output_averaged_loss(TASK, overlaps, alpha, C) == pytest.approx(0.045087, abs=5e-7)
    assert stochastic.loss_averaged_loss(TASK, overlaps, alpha, C) == pytest.approx(0.055520, abs=5e-7)
    inside = stochastic.output_averaged_slopes(TASK, 3, overlaps, alpha, C)
    outside = stochastic.loss_averaged_slopes(TASK, 3, overlaps, alpha, C)
    np.testing.assert_allclose(inside, (1.267514e-1, 5.794592e-3), rtol=2e-7)
    np.testing.assert_allclose(outside, (1.006673e-1, 4.269234e-3), rtol=6e-7)
    S = stochastic.attention(TASK, overlaps, C)
    assert stochastic.value_slope_printed(TASK, alpha, S.named.mean(), S.leak.mean()) == pytest.approx(
        0.16868, abs=1e-5
    )


def test_the_scalar_forms_equal_autodiff_of_the_model_and_nothing_leaves_the_family(law, overlaps):
    exact = Exact(TASK, law, 0.6)
    model = population.stochastic_model(TASK, 3, 0.8, 1.7)
    direction = population.stochastic_model(TASK, 3, 1.0, 1.0)
    for loss, value, slopes in (
        (exact.output_averaged, stochastic.output_averaged_loss, stochastic.output_averaged_slopes),
        (exact.loss_averaged, stochastic.loss_averaged_loss, stochastic.loss_averaged_slopes),
    ):
        assert_close(exact.loss(model, loss), value(TASK, overlaps, 0.8, 1.7), 1e-12)
        of_V, of_W = slopes(TASK, 3, overlaps, 0.8, 1.7)
        W, V = exact.gradient(model, loss)
        assert_close(W, -of_W * np.asarray(direction.W), 1e-12)
        assert_close(V, -of_V * np.asarray(direction.V), 1e-12)


def test_the_averaged_loss_equals_the_dense_one_averaged_over_encodings():
    law = encodings.draw(3, 3, 3, 6, 0.9)
    task = Task(3, 1, 2)
    rng = np.random.default_rng(0)
    W, V = dense.block(2, rng.standard_normal((6, 6))), rng.standard_normal((2, 8))
    total = 0.0
    for X, weight in dense.token_grid(3, 2):
        for subset in dense.all_subsets(3, 1):
            outputs = []
            for E in law:
                query = np.concatenate([[0.2, 0.2], dense.subset_encoding(E.T, subset)])
                Z = np.vstack([X, E.T])
                S = np.exp(Z.T @ W @ query)
                outputs.append(V @ Z @ (S / S.sum()))
            total += weight / 3 * np.sum((dense.answer(X, subset) - np.mean(outputs, axis=0)) ** 2) / 2
    model = population.position_model(W[2:, 2:], V)
    assert_close(Exact(task, law, 0.2).loss(model), total, 1e-12)


@given(alpha=st.floats(-2, 3), C=st.floats(0, 6))
def test_averaging_outputs_never_costs_more(alpha, C):
    overlaps = encodings.overlaps(encodings.draw(0, 20, 10, 16, 0.8), np.array([[0, 3], [2, 7]])).reshape(-1, 8)
    task = Task(10, 2, 3)
    inside = stochastic.output_averaged_loss(task, overlaps, alpha, C)
    assert inside <= stochastic.loss_averaged_loss(task, overlaps, alpha, C) * (1 + 1e-12)


def test_orthonormal_encodings_give_the_one_hot_forms():
    task, overlaps = Task(12, 3, 2), np.zeros((5, 9))
    for alpha, C in ((0.4, 0.0), (1.3, 2.5)):
        value, attention = stochastic.output_averaged_slopes(task, 12, overlaps, alpha, C)
        of_V, of_W = onehot.slopes(task, alpha, C)
        assert value == pytest.approx(of_V, rel=1e-12)
        # the position block is C I instead of C (I - 11^T/T), whose trace is T-1
        assert attention * 12 == pytest.approx(of_W * 11, rel=1e-12)
        assert stochastic.output_averaged_loss(task, overlaps, alpha, C) == pytest.approx(onehot.loss(task, alpha, C))


def test_the_scalar_flow_at_paper_sizes_has_the_known_values():
    task = Task(200, 3, 5)
    law = encodings.draw(0, 25, 200, 170, 0.35)
    overlaps = encodings.overlaps(law, encodings.draw_subsets(0, 6, 200, 3)).reshape(-1, 197)
    for slopes, loss, known in (
        (
            stochastic.output_averaged_slopes,
            stochastic.output_averaged_loss,
            [(3.50, 3.23, 0.093), (1.51, 5.07, 0.0034)],
        ),
        (stochastic.loss_averaged_slopes, stochastic.loss_averaged_loss, [(3.48, 3.19, 0.115), (1.44, 5.24, 0.0044)]),
    ):
        path = stochastic.flow(task, 170, overlaps, np.array([5e3, 2e4]), slopes)
        for k, (alpha, C, value) in enumerate(known):
            assert path.alpha[k] == pytest.approx(alpha, rel=0.05)
            assert path.C[k] == pytest.approx(C, rel=0.05)
            assert loss(task, overlaps, path.alpha[k], path.C[k]) == pytest.approx(value, rel=0.2)


def test_descent_tends_to_the_flow():
    task = Task(12, 2, 2)
    overlaps = encodings.overlaps(encodings.draw(1, 6, 12, 48, 0.5), np.array([[0, 5]])).reshape(-1, 10)
    end = stochastic.flow(task, 48, overlaps, np.array([200.0]))
    errors = [
        abs(stochastic.descend(task, 48, overlaps, eta, round(200 / eta)).C[-1] - end.C[-1]) for eta in (0.4, 0.2)
    ]
    assert errors[0] / errors[1] == pytest.approx(2, rel=0.05)


def test_a_far_too_large_learning_rate_is_reported_as_divergence():
    path = stochastic.descend(Task(3, 2, 1), 96, np.zeros((1, 1)), 1e5, 50)
    assert np.isnan(path.C[-1])


@given(C=st.floats(0, 20), seed=st.integers(0, 5))
def test_attention_lies_in_the_sandwich_of_the_largest_overlap(C, seed):
    task = Task(10, 2, 1)
    g = encodings.overlaps(encodings.draw(seed, 4, 10, 24, 0.8), np.array([[1, 4]])).reshape(-1, 8)
    for row in g:
        low, high = stochastic.sandwich(task, C, float(np.abs(row).max()))
        s = stochastic.attention(task, row[None], C).named[0]
        assert low * (1 - 1e-12) <= s <= high * (1 + 1e-12)


def test_the_printed_average_is_not_one_number_unless_v_reads_tokens_only(law):
    rng = np.random.default_rng(0)
    W, V, X = rng.standard_normal((4, 4)), rng.standard_normal((1, 4)), rng.standard_normal((1, 4))
    encoded = encodings.subset_encodings(law, np.array([[0, 2]]))[:, 0]
    queries = np.concatenate([np.full((384, 1), 0.6), encoded], axis=1)
    printed = stochastic.printed_outputs(W, V, X, law, queries)
    assert printed.max() - printed.min() > 0.3
    V[:, 1:] = 0
    tokens_only = stochastic.printed_outputs(W, V, X, law, queries)
    assert_close(tokens_only, np.broadcast_to(stochastic.mean_output(W, V, X, law, queries), (384, 1)), 1e-12)


def test_the_averaged_lemma_e2_is_the_gradient_of_the_dense_loss(law):
    rng = np.random.default_rng(1)
    W, V, X = rng.standard_normal((4, 4)), rng.standard_normal((1, 4)), rng.standard_normal((1, 4))
    few = law[:7]
    encoded = encodings.subset_encodings(few, np.array([[0, 2]]))[:, 0]
    queries = np.concatenate([np.full((7, 1), 0.6), encoded], axis=1)

    def loss(W, V):
        outputs = [dense.output(W, V, X, E.T, query) for E, query in zip(few, queries, strict=True)]
        return jnp.sum((dense.answer(X, (0, 2)) - sum(outputs) / 7) ** 2) / 2

    expected = jax.grad(loss, argnums=(0, 1))(jnp.asarray(W), jnp.asarray(V))
    found = stochastic.mean_gradients(W, V, X, np.array([1.0, 0.0, 1.0, 0.0]), few, queries)
    assert_close(found[0], expected[0], 1e-12)
    assert_close(found[1], expected[1], 1e-12)


def test_the_forms_are_finite_where_every_position_is_named():
    task, none = Task(3, 3, 1), np.zeros((4, 0))
    assert stochastic.output_averaged_slopes(task, 4, none, 0.7, 1.3) == pytest.approx(onehot.slopes(task, 0.7, 1.3))
    assert stochastic.value_slope(task, 0.7, 1 / 3, 0.0) == stochastic.value_slope_printed(task, 0.7, 1 / 3, 0.0)
    assert stochastic.attention_slope_bounds(task, 4, none, 0.7, 1.3, 0.5) == (0.0, 0.0)
