"""Facts about the fused attention kernels: interpreted, they compute what the products compute, and its gradient."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stairwise.nn.attention import MultiHeadAttention, attend_parts, attention_mask
from stairwise.nn.fused import backward, fits, forward, fused, written_for_this_jax
from tests.helpers import assert_close

pytestmark = pytest.mark.skipif(not written_for_this_jax(), reason="this JAX lacks parts that the kernels are made of")
PRESENT = np.array([True, False, True, True, True])
MASKS = {
    "none": None,
    "full": jnp.ones((5, 5), dtype=bool),
    "causal": attention_mask(5, causal=True),
    "padded": jnp.broadcast_to(PRESENT, (5, 5)),
    "first sees none": jnp.tril(jnp.ones((5, 5), dtype=bool), k=-1),
}
interpreted = partial(forward, interpret=True)


def interpreted_gradient(packed, mask, cotangent):
    return backward(packed, mask, None, cotangent, interpret=True)[0]


def parts(*batch: int, length: int = 5, heads: int = 2, width: int = 3, dtype=jnp.float32):
    """Queries, keys and values, and a cotangent of what comes out."""
    one, other = jax.random.split(jax.random.key(7))
    packed = jax.random.normal(one, (*batch, length, 3, heads, width), dtype=jnp.float32)
    cotangent = jax.random.normal(other, (*batch, length, heads, width), dtype=jnp.float32)
    return packed.astype(dtype), cotangent.astype(dtype)


def gradient(packed, mask, cotangent):
    return jax.vjp(lambda packed: attend_parts(packed, mask), packed)[1](cotangent)[0]


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_the_kernels_equal_the_products_and_their_gradient(mask):
    packed, cotangent = parts()
    assert_close(interpreted(packed, mask), attend_parts(packed, mask), 1e-6)
    assert_close(interpreted_gradient(packed, mask, cotangent), gradient(packed, mask, cotangent), 1e-6)


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_they_add_a_shift_and_sum_its_gradient(mask):
    packed, cotangent = parts()
    shift = jax.random.normal(jax.random.key(8), packed.shape[1:], dtype=jnp.float32)
    wanted, back = jax.vjp(lambda packed, shift: attend_parts(packed + shift, mask), packed, shift)
    assert_close(interpreted(packed, mask, shift), wanted, 1e-6)
    for found, known in zip(backward(packed, mask, shift, cotangent, interpret=True), back(cotangent), strict=True):
        assert_close(found, known, 1e-5)


def test_any_mask_of_more_keys_than_a_word_has_bits_is_heeded():
    packed, cotangent = parts(length=35, heads=1)
    mask = jax.random.bernoulli(jax.random.key(9), jnp.float32(0.5), (35, 35))
    assert mask[:, 31].any()
    assert mask[:, 32].any()
    assert_close(interpreted(packed, mask), attend_parts(packed, mask), 1e-6)
    assert_close(interpreted_gradient(packed, mask, cotangent), gradient(packed, mask, cotangent), 1e-6)


@pytest.mark.slow
def test_they_do_so_where_nothing_is_a_power_of_two_or_all_is():
    for length, width in ((17, 20), (16, 16)):
        packed, cotangent = parts(length=length, width=width)
        mask = attention_mask(length, causal=True)
        assert_close(interpreted(packed, mask), attend_parts(packed, mask), 1e-6)
        assert_close(interpreted_gradient(packed, mask, cotangent), gradient(packed, mask, cotangent), 1e-6)


@pytest.mark.slow
def test_examples_models_and_masks_are_batched():
    packed, cotangent = parts(2, 3)
    masks = jnp.stack([MASKS["causal"], MASKS["padded"], MASKS["full"]])

    def twice(function, axes):
        return jax.vmap(jax.vmap(function, in_axes=axes), in_axes=tuple(None if a is None else 0 for a in axes))

    def per_example(function):
        return jax.vmap(jax.vmap(function), in_axes=(0, None, 0))

    same = MASKS["causal"]
    assert_close(twice(interpreted, (0, None))(packed, same), twice(attend_parts, (0, None))(packed, same), 1e-6)
    wanted = per_example(gradient)(packed, masks, cotangent)
    assert_close(per_example(interpreted_gradient)(packed, masks, cotangent), wanted, 1e-6)


@pytest.mark.slow
def test_half_precision_is_as_exact_as_the_products():
    packed, cotangent = parts(length=33, width=40, dtype=jnp.bfloat16)
    mask = attention_mask(33, causal=True)
    exact = attend_parts(packed.astype(jnp.float32), mask)
    exact_gradient = gradient(packed.astype(jnp.float32), mask, cotangent.astype(jnp.float32))

    def error(found, wanted):
        return float(jnp.abs(found.astype(jnp.float32) - wanted).max())

    assert error(interpreted(packed, mask), exact) < 1.5 * error(attend_parts(packed, mask), exact)
    by_products = error(gradient(packed, mask, cotangent), exact_gradient)
    assert error(interpreted_gradient(packed, mask, cotangent), exact_gradient) < 1.5 * by_products


@pytest.mark.slow
def test_the_products_compute_it_where_there_is_no_such_gpu():
    packed, cotangent = parts(dtype=jnp.bfloat16)
    mask = MASKS["causal"]
    found, back = jax.vjp(lambda packed: fused(attend_parts, packed, mask), packed)
    assert_close(found, attend_parts(packed, mask), 0)
    assert_close(back(cotangent)[0], gradient(packed, mask, cotangent), 0)


@pytest.mark.parametrize(
    ("length", "width", "dtype", "taken"),
    [
        (33, 180, jnp.bfloat16, True),
        (64, 256, jnp.bfloat16, True),
        (65, 8, jnp.bfloat16, False),
        (8, 257, jnp.bfloat16, False),
        (33, 180, jnp.float32, False),
    ],
)
def test_only_short_sequences_in_half_precision_take_the_kernels(length, width, dtype, taken):
    assert fits(parts(length=length, heads=1, width=width, dtype=dtype)[0]) == taken


def test_multi_head_attention_is_the_same_through_either():
    attention = MultiHeadAttention(12, 3, std=0.5, key=jax.random.key(0))
    x = jax.random.normal(jax.random.key(1), (5, 12), dtype=jnp.bfloat16)
    for mask in MASKS.values():
        assert_close(attention(x, mask), attention.with_weights(x, mask)[0], 0.02)
