"""Normalised attention entropy and what attention falls on."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stairwise.measure.attention import (
    argmax_agreement,
    entropy,
    mass_on,
    mass_on_target,
    mean_row,
    row_entropy,
    sparsest_row,
    without_first,
)
from stairwise.nn.attention import attention_mask
from tests.helpers import assert_close

LENGTH = 6


def causal_weights(seed: int) -> tuple[jax.Array, jax.Array]:
    """Two heads of random causal attention, and their mask."""
    mask = attention_mask(LENGTH, causal=True)
    scores = 3 * np.random.default_rng(seed).standard_normal((2, LENGTH, LENGTH))
    scores = jnp.asarray(scores, dtype=jnp.float32)
    return jax.nn.softmax(jnp.where(mask, scores, -jnp.inf), axis=-1), mask


def by_hand(weights, row: int) -> float:
    """H(P_i) / ln i of one row, in plain Python."""
    return -sum(p * math.log(p) for p in np.asarray(weights[row], dtype=float).tolist() if p > 0) / math.log(row + 1)


def test_uniform_attention_has_entropy_one_and_one_hot_has_zero():
    mask = attention_mask(LENGTH, causal=True)
    uniform = mask / jnp.sum(mask, axis=1, keepdims=True)
    assert_close(row_entropy(uniform, mask)[1:], np.ones(LENGTH - 1), 1e-6)
    assert_close(sparsest_row(uniform, mask), 1.0, 1e-6)
    assert_close(mean_row(uniform, mask), 1.0, 1e-6)
    one_hot = jnp.eye(LENGTH, dtype=jnp.float32)
    assert float(jnp.max(jnp.abs(row_entropy(one_hot, mask)))) == 0.0
    assert float(sparsest_row(one_hot, mask)) == 0.0


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**16))
def test_equation_1_is_the_minimum_over_rows_from_the_second_on(seed):
    weights, mask = causal_weights(seed)
    rows = [[by_hand(head, i) for i in range(1, LENGTH)] for head in weights]
    assert_close(sparsest_row(weights, mask), np.min(rows, axis=1), 1e-5)
    assert_close(mean_row(weights, mask), np.mean(rows, axis=1), 1e-5)
    assert bool(jnp.all((sparsest_row(weights, mask) <= mean_row(weights, mask)) & (mean_row(weights, mask) <= 1)))


@settings(max_examples=25, deadline=None)
@given(st.permutations(range(LENGTH)), st.integers(0, 2**16))
def test_entropy_does_not_depend_on_the_order_of_keys(order, seed):
    weights, _ = causal_weights(seed)
    assert_close(entropy(weights[..., np.array(order)]), entropy(weights), 1e-6)


def test_only_the_chosen_rows_count():
    weights, mask = causal_weights(0)
    supervised = jnp.arange(LENGTH, dtype=jnp.int32) >= 4
    expected = [[by_hand(head, i) for i in (4, 5)] for head in weights]
    assert_close(sparsest_row(weights, mask, supervised), np.min(expected, axis=1), 1e-5)
    assert_close(mean_row(weights, mask, supervised), np.mean(expected, axis=1), 1e-5)


def test_without_a_row_of_two_keys_the_entropy_is_not_a_number():
    weights, mask = causal_weights(0)
    first_only = jnp.arange(LENGTH, dtype=jnp.int32) == 0
    assert bool(jnp.all(jnp.isnan(sparsest_row(weights, mask, first_only))))
    assert bool(jnp.all(jnp.isnan(mean_row(weights, mask, first_only))))


def test_padding_on_either_side_changes_no_entropy():
    weights, mask = causal_weights(1)
    for before, after in [(0, 3), (2, 0)]:
        padded = jnp.pad(weights, ((0, 0), (before, after), (before, after)))
        present = jnp.pad(jnp.ones(LENGTH, dtype=bool), (before, after))
        visible = attention_mask(len(present), causal=True, present=present)
        assert_close(sparsest_row(padded, visible, present), sparsest_row(weights, mask), 1e-6)
        assert_close(mean_row(padded, visible, present), mean_row(weights, mask), 1e-6)


def test_heads_of_all_layers_can_be_read_at_once():
    weights, mask = causal_weights(2)
    layers = jnp.stack([weights, weights[::-1], weights])
    assert_close(sparsest_row(layers, mask)[1], sparsest_row(weights, mask)[::-1], 1e-7)


def test_half_precision_weights_are_read_in_single_precision():
    uniform = jnp.full((1, 256), 1 / 256, dtype=jnp.bfloat16)
    assert row_entropy(uniform, None).dtype == jnp.float32
    assert_close(row_entropy(uniform, None), [1.0], 1e-6)


def test_without_the_sink_attention_is_renormalised_over_the_other_keys():
    weights = jnp.array([[0.9, 0.05, 0.05], [1.0, 0.0, 0.0]], dtype=jnp.float32)
    kept, mask = without_first(weights, None)
    assert_close(kept, [[0.0, 0.5, 0.5], [0.0, 0.0, 0.0]], 1e-6)
    assert_close(row_entropy(kept, mask), [1.0, 0.0], 1e-6)
    assert float(row_entropy(weights, None)[0]) < 0.4


def test_without_the_sink_a_query_that_sees_one_other_key_no_longer_counts():
    weights, mask = without_first(*causal_weights(3))
    expected = []
    for head in np.asarray(weights, dtype=float):
        rows = [head[i][1 : i + 1] for i in range(2, LENGTH)]
        expected.append(min(-np.sum(p * np.log(p)) / np.log(len(p)) for p in rows))
    assert_close(sparsest_row(weights, mask), expected, 1e-5)


def test_mass_on_a_set_sums_the_masses_on_its_members():
    weights, _ = causal_weights(4)
    members = jnp.isin(jnp.arange(LENGTH, dtype=jnp.int32), jnp.array([1, 3], dtype=jnp.int32))
    assert_close(mass_on(weights, members[None]), weights[..., 1] + weights[..., 3], 1e-6)
    assert_close(mass_on(weights, jnp.ones((1, LENGTH), dtype=bool)), np.ones((2, LENGTH)), 1e-6)
    own = jnp.eye(LENGTH, dtype=bool)
    assert_close(mass_on(weights, own), mass_on_target(weights, jnp.arange(LENGTH, dtype=jnp.int32)), 1e-7)


def test_argmax_agreement_is_the_fraction_of_rows_that_look_at_their_target():
    targets = jnp.array([0, 0, 1, 2], dtype=jnp.int32)
    weights = jnp.stack([jax.nn.one_hot(targets, 4, dtype=jnp.float32), jnp.eye(4, dtype=jnp.float32)])
    assert argmax_agreement(weights, targets).tolist() == [1.0, 0.25]
    later = jnp.array([False, True, True, True])
    assert argmax_agreement(weights, targets, later).tolist() == [1.0, 0.0]
