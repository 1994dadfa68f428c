"""Bijections of 0..size-1 that a key names: sampling without replacement, and shuffling, of sets that are never stored.

A Feistel network on two halves of a code's bits: each round adds (xor) a hash of one half to the other, so it can be
undone whatever the hash is. A size that is no power of two is walked: what falls outside is sent round again, which
keeps the map one to one. Any entry costs the same, none depends on which others are asked for, and `size` is traced.

>>> sorted(shuffled(jax.random.key(0), jnp.arange(5, dtype=jnp.uint32), 5).tolist())
[0, 1, 2, 3, 4]
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int8, Integer, PRNGKeyArray, UInt32

ROUNDS = 8
MOST_BITS = 62  # two halves of 31 bits
Halves = tuple[UInt32[Array, "*shape"], UInt32[Array, "*shape"]]


def shuffled(
    key: PRNGKeyArray, index: Integer[Array, "*shape"], size: int | Integer[Array, ""]
) -> UInt32[Array, "*shape"]:
    """Where the bijection of 0..size-1 (size at most 2^31) sends each index."""
    size = jnp.asarray(size, dtype=jnp.uint32)
    bits = jnp.uint32(32) - jax.lax.clz(jnp.maximum(size, jnp.uint32(2)) - jnp.uint32(1))
    low_bits = (bits + 1) // 2

    def walk(code):
        low, high = _feistel(key, code & _ones(low_bits), code >> low_bits, low_bits, bits - low_bits)
        return (high << low_bits) | low

    def outside(code):
        return jnp.any(code >= size)

    def again(code):
        return jnp.where(code >= size, walk(code), code)

    return jax.lax.while_loop(outside, again, walk(index.astype(jnp.uint32)))


def distinct_bits(key: PRNGKeyArray, index: Integer[Array, ""], bits: int) -> Int8[Array, " bits"]:
    """The `index`-th of all 2^bits codes in the key's order, as 0/1 entries: other indices give other codes.

    An index counts from 0 to 2^31 - 1 (to 2^bits - 1 where that is less).
    """
    if not 1 <= bits <= MOST_BITS:
        raise ValueError(f"bits={bits} must lie in 1..{MOST_BITS} (distinct_bits)")
    low_bits = jnp.uint32((bits + 1) // 2)
    code = index.astype(jnp.uint32)
    low, high = _feistel(key, code & _ones(low_bits), code >> low_bits, low_bits, jnp.uint32(bits // 2))
    place = jnp.arange(bits, dtype=jnp.uint32)
    half = jnp.where(place < low_bits, low, high)
    return ((half >> jnp.where(place < low_bits, place, place - low_bits)) & 1).astype(jnp.int8)


def _feistel(key: PRNGKeyArray, low: UInt32[Array, "*shape"], high: UInt32[Array, "*shape"], low_bits, high_bits):
    salts = jax.random.bits(key, (ROUNDS, 2), dtype=jnp.uint32)

    def step(number, halves: Halves) -> Halves:
        low, high = halves
        high = high ^ (_mix(low ^ salts[number, 0]) & _ones(high_bits))
        low = low ^ (_mix(high ^ salts[number, 1]) & _ones(low_bits))
        return low, high

    return jax.lax.fori_loop(0, ROUNDS, step, (low, high))


def _ones(count: UInt32[Array, ""]) -> UInt32[Array, ""]:
    return (jnp.uint32(1) << count) - jnp.uint32(1)


def _mix(word: UInt32[Array, "*shape"]) -> UInt32[Array, "*shape"]:
    """MurmurHash3's finaliser: every bit of the word moves every bit of the result with a chance near one half."""
    word = (word ^ (word >> 16)) * jnp.uint32(0x85EBCA6B)
    word = (word ^ (word >> 13)) * jnp.uint32(0xC2B2AE35)
    return word ^ (word >> 16)
