"""Facts about attention: it equals the loop over heads and queries, and masks hide what they say they hide."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stairwise.nn.attention import (
    Cache,
    Linear,
    MultiHeadAttention,
    attend,
    attend_by_sums,
    attention_mask,
    attention_weights,
    dropout,
    normals,
    weighted_values,
)
from stairwise.nn.positions import RotaryPositions
from tests.helpers import assert_close
from tests.reference import transformer as dense

LENGTH, HEADS, HEAD_WIDTH = 6, 3, 4
WIDTH = HEADS * HEAD_WIDTH
PRESENT = np.array([True, False, True, True, False, True])
MASKS = {
    "full": lambda: None,
    "causal": lambda: attention_mask(LENGTH, causal=True),
    "padding": lambda: attention_mask(LENGTH, causal=False, present=jnp.asarray(PRESENT)),
    "causal and padding": lambda: attention_mask(LENGTH, causal=True, present=jnp.asarray(PRESENT)),
    "first two queries see nothing": lambda: jnp.tri(LENGTH, dtype=bool, k=-2),
}


def visible(mask):
    rows = np.ones((LENGTH, LENGTH), dtype=bool) if mask is None else np.broadcast_to(mask, (LENGTH, LENGTH))
    return [list(np.flatnonzero(row)) for row in rows]


def draw(seed, shape, dtype="float32"):
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), dtype=dtype)


def triple(seed, dtype="float32"):
    return tuple(draw(seed + i, (LENGTH, HEADS, HEAD_WIDTH), dtype) for i in (10, 20, 30))


def module(dtype="float32", **more):
    """Multi-head attention none of whose leaves is special; drawn by NumPy: nothing to compile."""
    make = partial(MultiHeadAttention, WIDTH, HEADS, dtype=dtype, **more)
    shapes = eqx.filter_eval_shape(lambda: make(key=jax.random.key(0)))
    return jax.tree.map(lambda x: 0.5 * draw(x.size, x.shape, dtype), shapes)


def sequence(dtype="float32"):
    return draw(4, (LENGTH, WIDTH), dtype)


@pytest.mark.parametrize("name", MASKS)
def test_attention_equals_the_loop_over_heads_and_queries(name):
    with jax.enable_x64(True):
        query, key, value = triple(0, "float64")
        mask = MASKS[name]()
        weights = attention_weights(query, key, mask)
        mixed = attend(query, key, value, mask)
    for head in range(HEADS):
        q, k, v = (np.asarray(a)[:, head] for a in (query, key, value))
        expected, expected_weights = dense.attention(q, k, v, visible(mask))
        assert_close(weights[head], expected_weights, 1e-12)
        assert_close(mixed[:, head], expected, 1e-12)


@pytest.mark.parametrize(("dtype", "tol"), [("float32", 1e-6), ("bfloat16", 2e-2)])
@pytest.mark.parametrize("name", MASKS)
def test_the_fused_kernel_agrees_with_explicit_weights(name, dtype, tol):
    query, key, value = triple(1, dtype)
    mask = MASKS[name]()
    explicit = weighted_values(attention_weights(query, key, mask), value)
    fused = attend(query, key, value, mask)
    assert fused.dtype == explicit.dtype == jnp.dtype(dtype)
    assert_close(fused, explicit, tol)


def test_gradients_of_the_fused_kernel_and_of_explicit_weights_agree_on_fully_masked_rows_too():
    mask = MASKS["first two queries see nothing"]()

    @partial(jax.jit, static_argnums=0)
    def gradients(kernel, *args):
        return jax.grad(lambda *args: jnp.sum(jnp.sin(kernel(*args, mask))), (0, 1, 2))(*args)

    def explicit(query, key, value, mask):
        return weighted_values(attention_weights(query, key, mask), value)

    for a, b in zip(gradients(attend, *triple(2)), gradients(explicit, *triple(2)), strict=True):
        assert_close(a, b, 1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_query_that_sees_nothing_gets_zero_weights_output_and_gradient(dtype):
    with jax.enable_x64(dtype == "float64"):
        query, key, value = triple(2, dtype)
        mask = MASKS["first two queries see nothing"]()
        np.testing.assert_array_equal(attention_weights(query, key, mask)[:, :2], 0)
        np.testing.assert_array_equal(attend(query, key, value, mask)[:2], 0)
        gradient = jax.jit(jax.grad(lambda q: jnp.sum(attend(q, key, value, mask) ** 2)))(query)
        assert np.isfinite(gradient).all()
        np.testing.assert_array_equal(gradient[:2], 0)


@pytest.mark.parametrize("mask", [None, [1, 0, 1, 1, 0], [0, 0, 0, 0, 0]], ids=["everyone", "some", "nobody"])
def test_one_query_attends_by_sums_as_by_products(mask):
    keys = jax.random.split(jax.random.key(5), 4)
    query, cotangent = (jax.random.normal(key, (1, 2, 3), dtype=jnp.float32) for key in keys[:2])
    key, value = (jax.random.normal(key, (5, 2, 3), dtype=jnp.float32) for key in keys[2:])
    seen = None if mask is None else jnp.array([mask], dtype=bool)

    def pulled_back(attend):
        found, back = jax.vjp(lambda *parts: attend(*parts, seen), query, key, value)
        return found, *back(cotangent)

    found, expected = (jax.jit(partial(pulled_back, way))() for way in (attend_by_sums, attend))
    for ours, theirs in zip(found, expected, strict=True):
        assert_close(ours, theirs, 1e-6)


def test_weights_are_probabilities_even_for_huge_scores():
    query, key, _ = triple(5)
    weights = attention_weights(1e15 * query, 1e15 * key, MASKS["causal"]())
    assert_close(weights.sum(axis=-1), np.ones((HEADS, LENGTH)), 1e-6)


def test_bfloat16_weights_are_a_float32_softmax():
    query, key, _ = triple(5, "bfloat16")
    weights = attention_weights(query, key)
    assert weights.dtype == jnp.float32
    assert_close(weights, attention_weights(query.astype(jnp.float32), key.astype(jnp.float32)), 1e-6)


@pytest.mark.parametrize("rotary", [False, True])
def test_decoding_from_the_cache_equals_the_causal_call_row_by_row(rotary):
    def turn(positions):
        return partial(RotaryPositions().rotate, positions=positions) if rotary else None

    def row(cache, inputs):
        x, position = inputs
        output, cache = attention.step(x[None], cache, position, rotate=turn(position[None]))
        return cache, output[0]

    with jax.enable_x64(True):
        attention, x = module("float64"), sequence("float64")
        positions = jnp.arange(LENGTH, dtype=jnp.int32)
        full = attention(x, MASKS["causal"](), rotate=turn(positions))
        empty = jnp.zeros((LENGTH + 2, HEADS, HEAD_WIDTH), dtype=jnp.float64)
        _, rows = jax.lax.scan(row, Cache(empty, empty), (x, positions))
        assert_close(rows, full, 1e-12)


def test_asking_for_weights_does_not_change_the_output():
    x, mask = sequence(), MASKS["causal"]()
    output, weights = module().with_weights(x, mask)
    assert_close(output, module()(x, mask), 1e-6)
    assert weights.shape == (HEADS, LENGTH, LENGTH)


def test_attention_dropout_needs_a_key_and_has_the_right_mean():
    attention, x = module(dropout=0.3), sequence()
    plain = attention(x)
    np.testing.assert_array_equal(plain, module()(x))
    noisy = jax.jit(jax.vmap(lambda key: attention(x, key=key)))(jax.random.split(jax.random.key(0), 4000))
    spread = np.asarray(noisy.std(axis=0)) / np.sqrt(4000)
    assert np.max(np.abs(noisy.mean(axis=0) - plain) / spread) < 5
    assert spread.min() > 0


def test_dropout_keeps_each_entry_with_its_probability_and_the_mean():
    x = jnp.ones((200, 100), dtype=jnp.float32)
    dropped = np.asarray(dropout(x, 0.25, jax.random.key(1)))
    np.testing.assert_allclose(np.unique(dropped), [0, 1 / 0.75], rtol=1e-6)
    assert abs(dropped.mean() - 1) < 5 * np.sqrt(0.25 / 0.75 / x.size)


def test_dropout_draws_the_same_entries_under_x64():
    x = np.ones((40, 10), dtype=np.float32)
    here = dropout(jnp.asarray(x), 0.4, jax.random.key(2))
    with jax.enable_x64(True):
        there = dropout(jnp.asarray(x), 0.4, jax.random.key(2))
    np.testing.assert_array_equal(here, there)


def test_normals_are_pieces_of_one_standard_draw_in_every_precision():
    first, second = normals(jax.random.key(5), (30, 40), (7, 100))
    assert (first.shape, second.shape) == ((30, 40), (7, 100))
    everything = np.concatenate([np.ravel(first), np.ravel(second)])
    assert len(np.unique(everything)) == everything.size
    assert abs(everything.mean()) < 5 / np.sqrt(everything.size)
    assert abs(everything.std() - 1) < 5 / np.sqrt(2 * everything.size)
    with jax.enable_x64(True):
        np.testing.assert_array_equal(normals(jax.random.key(5), (30, 40), (7, 100))[1], second)


def test_linear_computes_in_the_dtype_of_its_input_and_keeps_its_own():
    linear = Linear(jnp.ones((3, 2), dtype=jnp.float32))
    assert linear.bias.dtype == jnp.float32
    assert linear(jnp.ones((4, 3), dtype=jnp.bfloat16)).dtype == jnp.bfloat16
    np.testing.assert_array_equal(linear(jnp.ones((4, 3), dtype=jnp.float32)), 3)


@pytest.mark.parametrize("heads", [0, 5])
def test_heads_must_divide_the_width(heads):
    with pytest.raises(ValueError, match=f"heads={heads} must be at least 1 and divide width=12"):
        MultiHeadAttention(12, heads, key=jax.random.key(0))
