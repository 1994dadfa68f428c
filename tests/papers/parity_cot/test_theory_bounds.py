"""Theorem 1's weights, Lemma 5 in log space, Theorem 2's calculator, few bits: facts about the theory's functions."""

import math

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stairwise.papers.parity_cot import construction
from stairwise.papers.parity_cot.theory import bounds, hyperparameters, memory, precision
from tests.helpers import assert_close
from tests.reference import parity_cot as reference


def embedding(n, width, seed):
    return np.random.default_rng(seed).choice([-1.0, 1.0], (2 * (n + 1), width)) / math.sqrt(width)


# --- Theorem 1 --------------------------------------------------------------------------------------------------------


@given(st.integers(1, 60).flatmap(lambda k: st.tuples(st.just(k), st.integers(0, k))))
@settings(max_examples=60, deadline=None)
def test_the_readout_of_theorem_1_is_exact(sizes):
    size, ones = sizes
    assert construction.zigzag(size, ones) == (-1) ** (ones + 1)


def test_theorem_1_in_coefficients_is_the_dense_construction():
    E, secret = embedding(6, 40, 0), np.array([1, 4])
    A, W, h = reference.theorem1(E, secret, 6)
    with jax.enable_x64(True):
        found = construction.theorem1(E @ E.T, secret)
        parts = [np.asarray(part) for part in (found.first, found.second, found.attention)]
    assert_close(np.concatenate([parts[0] @ E, parts[1] @ E], axis=1), W, 1e-12)
    assert_close(E.T @ parts[2] @ E, A, 1e-12)
    assert np.array_equal(construction.output_signs(2), h)


@given(seed=st.integers(0, 10**6), width=st.sampled_from([8, 16, 40, 120]))
@settings(max_examples=25, deadline=None)
def test_the_certificate_bounds_the_error_on_every_input(seed, width):
    n, secret = 5, np.array([0, 3])
    E = embedding(n, width, seed)
    gram = E @ E.T
    rows = construction.secret_atoms(secret)
    if np.linalg.eigvalsh(gram[np.ix_(rows, rows)])[0] < 1e-6:
        return
    certified = construction.certificate(construction.dual(gram[:, rows], secret), secret)
    A, W, h = reference.theorem1(E, secret, n)
    for bits in reference.all_inputs(n):
        tokens = [*bits, 0]
        X = np.stack([E[2 * p + bit] for p, bit in enumerate(tokens)], axis=1)
        P = reference.attention(E, A, tokens)[:, -1]
        output = h @ np.maximum(W @ np.concatenate([X[:, -1], X @ P]), 0)
        target = -((-1) ** sum(bits[j] for j in secret))
        assert abs(output - target) <= certified.error * (1 + 1e-9) + 1e-9


def test_dependent_embeddings_are_one_line():
    columns = np.ones((6, 2))
    with pytest.raises(ValueError, match="linearly dependent"):
        construction.dual(columns, np.array([0]))


# --- Lemma 5 ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "power", "digits"),
    [("k>=2", 5, 6.5), ("k>=2", 4, 4.8), ("B<nk", 5, 61.0), ("B<nk", 4, 58.4), ("5.4", 5, 43.4), ("5.8", 4, 37.8)],
)
def test_the_conditions_of_lemma_5_hold_from_the_sizes_of_the_table(name, power, digits):
    assert hyperparameters.holds_from(name, power, 0.1, 1.0) / math.log(10) == pytest.approx(digits, abs=0.1)


def test_the_width_of_assumption_2_needs_an_exponential_of_1e49():
    assert hyperparameters.holds_from("5.2", 5, 0.1, 1.0) == pytest.approx(1.07e49, rel=0.01)


@pytest.mark.parametrize("name", list(hyperparameters.CONDITIONS))
@pytest.mark.parametrize("power", [4.0, 4.7])
def test_conditions_in_log_space_are_those_of_the_plain_formulas(name, power):
    n, failure, eps = 5000, 0.1, 0.7
    sizes = hyperparameters.literal(n, power, failure, eps)
    k, d, m, B, eta0, eta2 = sizes
    log, L = math.log(300 * m * n * B / failure), math.log(n / failure)
    sides = {  # (smaller, larger) where the condition holds
        "k>=2": (2, k),
        "memory": (d**2 + d * m, n * k / math.log(n)),
        "B<nk": (B, n * k),
        "d<n": (d, n),
        "5.2": (math.sqrt(4 * k / d * math.log(100 * B * m / failure)), 0.01),
        "5.3a": (k * log / B, 1 / 160_000),
        "5.3b": (math.sqrt(2 * k * math.log(400 * m * n / failure) / d), 0.01),
        "5.3c": (math.sqrt(2 * n * k / (B * d)) * log, 1 / 400),
        "5.4a": (eta0, 3 * m * eps * math.sqrt(B) / (80 * math.sqrt(math.log(300 * n * B / failure)))),
        "5.4": (eta0, m * n * eps / 120),
        "5.5": (log**2 * n * math.sqrt(n * k) / (d * math.sqrt(B * d)), 1 / 320_000),
        "5.6": (40 * math.log(n), eta0**2 / (256 * m * n**2)),
        "5.7": (eta2, eta0),
        "5.8": (2 * eta0, 5 * n * eta2),
        "5.8 for Lemma 25": (2 * eta0, (n + 1) * eta2 / 50),
    }
    smaller, larger = sides[name]
    assert hyperparameters.gap(name, math.log(n), power, failure, eps) == pytest.approx(math.log(larger / smaller))
    assert d == pytest.approx(k * L**1.1)


def test_the_order_of_5_5_is_the_exponent_of_its_logarithm():
    at = [hyperparameters.sizes(x, 5, 0.1, 1.0) for x in (1e20, 1e30)]
    slope = sum(sign * (s.log_k + 1.65 * s.lnL + 0.5 * s.log_B) for sign, s in zip((1, -1), at, strict=True))
    assert slope / (at[1].lnL - at[0].lnL) == pytest.approx(hyperparameters.exponent_of_5_5(5))
    assert hyperparameters.exponent_of_5_5(5) == pytest.approx(-6.65)


# --- Theorem 2, and small things --------------------------------------------------------------------------------------


def test_the_memory_bound_is_vacuous_at_the_sizes_that_the_paper_trains():
    assert memory.memory(30, 3, 720, 1440).ratio == pytest.approx(5.9e4, rel=0.01)
    assert not memory.memory(100, 20, 720, 1536).applies
    assert memory.memory(10**5, 10, 200, 22).applies


def test_full_rank_takes_1_6067_samples_more_than_there_are_bits():
    mean, variance = memory.samples_to_full_rank(200)
    assert mean - 200 == pytest.approx(1.6066951524152917)
    assert memory.samples_to_full_rank(1) == (pytest.approx(2.0), pytest.approx(2.0))
    assert variance > 0


@given(st.floats(0.1, 60), st.integers(1, 10_000))
@settings(max_examples=50, deadline=None)
def test_one_hot_attention_errs_by_less_than_the_number_of_keys_times_the_gap(gap, others):
    error = bounds.one_hot_error(others, gap)
    assert error <= others * math.exp(-gap) * (1 + 1e-12)
    assert error == pytest.approx(others / (others + math.exp(gap)))


def test_rounding_with_many_bits_is_the_dense_network():
    E, secret = embedding(5, 64, 3), np.array([2, 4])
    A, W, h = reference.theorem1(E, secret, 5)
    model = precision.Dense(E, A, W[:, :64], W[:, 64:], h)
    tokens = np.array([[*bits, 0] for bits in reference.all_inputs(5)])
    found = precision.rounded_outputs(precision.few_bits(model, 48), tokens, 5, 48)[:, 0]
    parity = tokens[:, secret].sum(axis=1) % 2
    assert_close(found, 2.0 * parity - 1, 1e-8)
    assert not np.array_equal(found, precision.rounded_outputs(precision.few_bits(model, 6), tokens, 5, 6)[:, 0])
