"""Closed forms of the population gradients against the dense network, by enumeration and autodiff."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stairwise.papers.composition.theory import population, values
from tests.helpers import assert_close
from tests.reference import composition as dense


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def hidden_with_identity(blocks, alphabet, seed=0):
    rng = np.random.default_rng([seed, blocks, alphabet])
    hidden = np.array([rng.permutation(alphabet) for _ in range(blocks)])
    hidden[0] = np.arange(alphabet)
    return hidden


SIZES = [(2, 3, 1), (2, 3, 2), (4, 2, 2), (4, 2, 3), (2, 4, 1), (4, 3, 3)]


@pytest.mark.parametrize(("blocks", "alphabet", "layer"), SIZES)
def test_the_key_query_gradient_equals_the_dense_enumeration(blocks, alphabet, layer):
    hidden, beta0 = hidden_with_identity(blocks, alphabet), 0.7
    found = dense.blocks_of(dense.key_query_gradient(hidden, layer, beta0), blocks * alphabet)
    formula = np.zeros_like(found)
    formula[: layer + 1, : layer + 1] = population.key_query_gradient(hidden, layer, beta0)
    assert_close(formula, found, 1e-12)


@pytest.mark.parametrize(("blocks", "alphabet", "head"), SIZES)
def test_the_readout_gradient_equals_the_dense_enumeration(blocks, alphabet, head):
    hidden, beta0 = hidden_with_identity(blocks, alphabet), 0.7
    found = dense.readout_gradient(hidden, head, beta0).reshape(-1, blocks * alphabet, alphabet)
    formula = np.zeros_like(found)
    formula[: head + 2] = population.readout_gradient(hidden, head, beta0)
    assert_close(formula, found, 1e-12)
    printed = np.zeros_like(found)
    printed[: head + 2] = population.readout_gradient_printed(hidden, head, beta0)
    assert (np.abs(printed - found).max() > 0.3 * np.abs(found).max()) == (head == 1)


def test_the_dense_construction_computes_every_hop():
    hidden = hidden_with_identity(4, 3)
    sequences, labels = dense.population(hidden, 3)
    readout = dense.first_readout(4, 3, 3, 1.0)
    output = np.asarray(readout.T @ dense.streams(dense.constructed(hidden, 60.0), sequences[77])[-1])
    assert_close(output, np.eye(3)[np.asarray(labels[77])].T, 1e-12)


def test_an_untrained_head_is_uniform_on_every_sequence():
    hidden = hidden_with_identity(2, 3)
    sequences, labels = dense.population(hidden, 1)
    readout = dense.first_readout(2, 3, 1, 1.0)
    each = jax.vmap(lambda s, y: dense.losses(dense.no_key_queries(2, 3), readout, s, y))(sequences, labels)
    assert_close(each, np.full(each.shape, np.log(3)), 1e-14)


@pytest.mark.parametrize("fixed", [0, 1, 2, 3, 4, 6])
@pytest.mark.parametrize("layer", [1, 2, 3])
def test_the_margin_is_the_least_over_all_queries_and_keys(fixed, layer):
    """Scores from g_l itself, for six letters and four blocks."""
    k, N = 4, 6
    row = np.concatenate([np.arange(fixed), np.roll(np.arange(fixed, N), -1)])
    hidden, rng = np.tile(row, (k, 1)), np.random.default_rng(fixed)
    sequence = np.array([rng.permutation(N) for _ in range(k)])
    g = population.key_query_signal(hidden, layer)
    stream = [np.arange(k * N), (np.arange(k)[:, None] * N + sequence).reshape(-1)]
    for hops in (1, 2):
        hop = np.array(dense.hops_of(hidden, sequence, hops)).reshape(k, N)
        stream.append((((np.arange(k) + hops - 1) % k)[:, None] * N + hop).reshape(-1))
    if layer == 1:
        keys = (np.arange(k)[:, None] * N + hidden).reshape(-1)
    else:
        keys = (stream[layer] + N) % (k * N)
    margins = []
    for query in range(k * N):
        scores = [
            sum(g[a, b, stream[a][key], stream[b][query]] for a in range(layer + 1) for b in range(layer + 1))
            for key in range(k * N)
        ]
        right = scores.pop(keys[query])
        margins.append((right - max(scores)) * k * N**2)
    assert min(margins) == pytest.approx(population.population_margin(N, fixed, layer), abs=1e-10)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_no_hidden_tuple_has_a_margin_below_one(seed):
    hidden = np.array([np.random.default_rng([seed, i]).permutation(5) for i in range(4)])
    for layer in (1, 2, 3):
        margins = [population.population_margin(5, int(fixed), layer) for fixed in population.fixed_points(hidden)]
        assert min(margins) >= 1


def test_the_identity_value_block_leaves_the_signal_alone():
    assert_close(values.signal_factors(np.eye(12), 4, 3), np.ones(4), 1e-14)


def test_the_plateau_is_the_loss_of_a_right_answer_at_scale_beta0():
    for alphabet, beta0 in ((5, 1.0), (4, 0.3)):
        right = beta0 - np.log(np.exp(beta0) + alphabet - 1)
        assert population.plateau(alphabet, beta0) == pytest.approx(-right, rel=1e-14)
