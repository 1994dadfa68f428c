"""Softmax attention for one example: the primitives, and the multi-head module with its key/value cache.

Everything computes in the dtype of its input (parameters are cast to it), except the softmax, which is taken in
float32 or better. Heads are an axis: queries, keys and values are [position, head, head_width].
"""

import math
from collections.abc import Callable
from itertools import accumulate

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Integer, PRNGKeyArray

from stairwise.nn.fused import Packed, Shift, fits, fused, on_gpu
from stairwise.nn.taps import tap, tapped

Rotation = Callable[[Float[Array, "length heads head_width"]], Float[Array, "length heads head_width"]]
Bias = Float[Array, "heads queries keys"] | None
Scale = float | Float[Array, ""]


def attention_mask(
    length: int, *, causal: bool, present: Bool[Array, " length"] | None = None
) -> Bool[Array, "#length length"] | None:
    """Who may look at whom: entry (query, key). None where everyone sees everyone; `present` marks what is no padding.

    >>> attention_mask(3, causal=True, present=jnp.array([1, 1, 0], dtype=bool)).astype(int).tolist()
    [[1, 0, 0], [1, 1, 0], [1, 1, 0]]
    """
    keys = None if present is None else present[None, :]
    if not causal:
        return keys
    before = jnp.tril(jnp.ones((length, length), dtype=bool))
    return before if keys is None else before & keys


def attention_weights(
    query: Float[Array, "queries heads head_width"],
    key: Float[Array, "keys heads head_width"],
    mask: Bool[Array, "#queries keys"] | None = None,
    bias: Bias = None,
) -> Float[Array, "heads queries keys"]:
    """softmax over visible keys of <q, k> / sqrt(head_width) + bias; a query that sees no key gets a row of zeros."""
    dtype = jnp.promote_types(query.dtype, jnp.float32)
    products = jnp.einsum("qhd,khd->hqk", query, key, preferred_element_type=dtype)
    scores = tap("attn.scores", products / query.shape[-1] ** 0.5)
    if bias is not None:
        scores = scores + bias.astype(dtype)
    if mask is None:
        return tap("attn.pattern", jax.nn.softmax(scores))
    # a finite stand-in for -inf: a row without visible keys is then uniform before it is zeroed, and so is its gradient
    hidden = jnp.finfo(dtype).min / 2
    return tap("attn.pattern", jnp.where(mask, jax.nn.softmax(jnp.where(mask, scores, hidden)), 0))


def weighted_values(
    weights: Float[Array, "heads queries keys"], value: Float[Array, "keys heads head_width"]
) -> Float[Array, "queries heads head_width"]:
    """sum_k weights[q, k] v_k for every head."""
    return tap("attn.z", jnp.einsum("hqk,khd->qhd", weights.astype(value.dtype), value))


def attend(
    query: Float[Array, "queries heads head_width"],
    key: Float[Array, "keys heads head_width"],
    value: Float[Array, "keys heads head_width"],
    mask: Bool[Array, "#queries keys"] | None = None,
) -> Float[Array, "queries heads head_width"]:
    """Scaled dot-product attention, softmax(Q K^T / sqrt(d)) V per head; a query that sees no key gets zeros."""
    # jax.nn.dot_product_attention takes every softmax in float32, and shows no weights
    if query.dtype == jnp.float64 or tapped():
        return weighted_values(attention_weights(query, key, mask), value)
    # its cuDNN kernel takes half precision only; measured on training steps, it saves 3% at 40 positions, 35% at 320
    if mask is None:
        return jax.nn.dot_product_attention(query, key, value)
    attended = jax.nn.dot_product_attention(query, key, value, mask=mask[None])
    # there a query without visible keys averages all values
    return jnp.where(mask.any(axis=1)[:, None, None], attended, 0)


def attend_by_sums(
    query: Float[Array, "1 heads head_width"],
    key: Float[Array, "keys heads head_width"],
    value: Float[Array, "keys heads head_width"],
    mask: Bool[Array, "1 keys"] | None = None,
) -> Float[Array, "1 heads head_width"]:
    """`attend` of one query by entries that are multiplied and added.

    A product of matrices is wasted on one row, and has keys and values copied into an order of its own.
    """
    dtype = jnp.promote_types(query.dtype, jnp.float32)
    scores = jnp.sum(query.astype(dtype) * key.astype(dtype), axis=-1) / query.shape[-1] ** 0.5  # [keys, heads]
    seen = jnp.ones((len(key), 1), dtype=bool) if mask is None else mask.T
    weights = jnp.where(seen, jax.nn.softmax(jnp.where(seen, scores, jnp.finfo(dtype).min / 2), axis=0), 0)
    return jnp.sum(weights[:, :, None] * value.astype(dtype), axis=0, keepdims=True).astype(value.dtype)


def attend_packed(
    packed: Packed, mask: Bool[Array, "#length length"] | None = None, shift: Shift = None
) -> Float[Array, "length heads head_width"]:
    """`attend` on what one projection made, before or after its `shift` was added; short sequences go through one
    kernel (`fused`) in half precision, and on a GPU in float32 too."""
    if not fits(packed):
        return attend_parts(packed if shift is None else packed + shift.astype(packed.dtype), mask)
    whole = None if mask is None else jnp.broadcast_to(mask, (len(packed), len(packed)))
    return fused(attend_parts, packed, whole, shift)


def attend_parts(packed: Packed, mask: Bool[Array, "#length length"] | None) -> Float[Array, "length heads head_width"]:
    """The same by products."""
    query, key, value = jnp.moveaxis(packed, 1, 0)
    return attend(query, key, value, mask)


def dropout(x: Float[Array, "*shape"], rate: float, key: PRNGKeyArray | None) -> Float[Array, "*shape"]:
    """Each entry is 0 with probability `rate`, else divided by 1 - rate; without a key the input itself."""
    if key is None or rate == 0:
        return x
    keep = jax.random.bernoulli(key, jnp.asarray(1 - rate, dtype=jnp.float32), x.shape)
    return jnp.where(keep, x / (1 - rate), 0)


def normals(key: PRNGKeyArray, *shapes: tuple[int, ...]) -> list[Float[Array, "..."]]:
    """Arrays of standard normals, cut from one flat float32 draw.

    One draw because each costs a good part of a second to compile; float32 so that all precisions start alike.
    """
    ends = list(accumulate(math.prod(shape) for shape in shapes))
    flat = jax.random.normal(key, (ends[-1],), jnp.float32)
    return [piece.reshape(shape) for piece, shape in zip(jnp.split(flat, ends[:-1]), shapes, strict=True)]


class Linear(eqx.Module):
    """x W + b, computed in the dtype of x. W is [inputs, outputs] as in GPT-2's checkpoints, and b starts at zero."""

    weight: Float[Array, "inputs outputs"]
    bias: Float[Array, " outputs"]

    def __init__(self, weight: Float[Array, "inputs outputs"]):
        self.weight = weight
        self.bias = jnp.zeros_like(weight[0])

    def __call__(self, x: Float[Array, "*batch inputs"]) -> Float[Array, "*batch outputs"]:
        return x @ self.weight.astype(x.dtype) + self.bias.astype(x.dtype)


class Product(eqx.Module):
    """x W alone, of a linear map whose bias is added elsewhere."""

    weight: Float[Array, "inputs outputs"]

    def __call__(self, x: Float[Array, "*batch inputs"]) -> Float[Array, "*batch outputs"]:
        return x @ self.weight.astype(x.dtype)


class Cache(eqx.Module):
    """Keys and values of the positions decoded so far; entries at later positions are zeros that the mask hides."""

    keys: Float[Array, "total heads head_width"]
    values: Float[Array, "total heads head_width"]


class MultiHeadAttention(eqx.Module):
    """Multi-head self-attention with one fused projection to queries, keys and values (in that order).

    `rotate` is applied to queries and keys (rotary positions), `bias` is added to scores (ALiBi, T5). Attention dropout
    acts only where a `key` is given.
    """

    qkv: Linear
    out: Linear
    heads: int = eqx.field(static=True)
    dropout: float = eqx.field(static=True)

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        std: Scale = 0.02,
        out_std: Scale = 0.02,
        dropout: float = 0.0,
        dtype: str = "float32",
        key: PRNGKeyArray,
    ):
        if heads < 1 or width % heads:
            raise ValueError(f"heads={heads} must be at least 1 and divide width={width} (MultiHeadAttention)")
        qkv, out = normals(key, (width, 3 * width), (width, width))
        self.qkv = Linear((std * qkv).astype(dtype))
        self.out = Linear((out_std * out).astype(dtype))
        self.heads = heads
        self.dropout = dropout

    def __call__(
        self,
        x: Float[Array, "length width"],
        mask: Bool[Array, "#length length"] | None = None,
        *,
        rotate: Rotation | None = None,
        bias: Bias = None,
        key: PRNGKeyArray | None = None,
    ) -> Float[Array, "length width"]:
        """Every position attends to the visible ones."""
        if tapped() or bias is not None or (key is not None and self.dropout > 0):
            return self.with_weights(x, mask, rotate=rotate, bias=bias, key=key)[0]
        if on_gpu(x.dtype):
            packed = (x @ self.qkv.weight.astype(x.dtype)).reshape(len(x), 3, self.heads, -1)
            if fits(packed) and _turns_nothing(rotate, packed[:, 0]):
                # the kernel adds the bias, which saves a pass over queries, keys and values
                return self._merge(attend_packed(packed, mask, self.qkv.bias.reshape(packed.shape[1:])))
        return self._merge(attend_packed(self._project(x, rotate), mask))

    def with_weights(
        self,
        x: Float[Array, "length width"],
        mask: Bool[Array, "#length length"] | None = None,
        *,
        rotate: Rotation | None = None,
        bias: Bias = None,
        key: PRNGKeyArray | None = None,
    ) -> tuple[Float[Array, "length width"], Float[Array, "heads length length"]]:
        """The same, and the attention weights (head, query, key) as they were before dropout."""
        query, keys, value = self._parts(x, rotate)
        weights = attention_weights(query, keys, mask, bias)
        return self._merge(weighted_values(dropout(weights, self.dropout, key), value)), weights

    def at(
        self,
        x: Float[Array, "length width"],
        asked: Float[Array, "queries width"],
        mask: Bool[Array, "#queries length"] | None = None,
        *,
        rotate: Rotation | None = None,
        rotate_asked: Rotation | None = None,
        bias: Bias = None,
    ) -> Float[Array, "queries width"]:
        """What `asked`, some positions of x, attend to: queries are made of them alone, keys and values of all."""
        width = x.shape[-1]
        weight, shift = self.qkv.weight.astype(x.dtype), self.qkv.bias.astype(x.dtype)
        query = (asked @ weight[:, :width] + shift[:width]).reshape(len(asked), self.heads, -1)
        key, value = jnp.moveaxis((x @ weight[:, width:] + shift[width:]).reshape(len(x), 2, self.heads, -1), 1, 0)
        query = query if rotate_asked is None else rotate_asked(query)
        key = key if rotate is None else rotate(key)
        return self._merge(_attend(query, key, value, mask, bias))

    def step(
        self,
        x: Float[Array, "1 width"],
        cache: Cache,
        position: Integer[Array, ""],
        *,
        rotate: Rotation | None = None,
        bias: Bias = None,
    ) -> tuple[Float[Array, "1 width"], Cache]:
        """What the last row of a causal call would be at `position`, from the cache of all positions before it."""
        query, keys, value = self._parts(x, rotate)
        cache = Cache(
            lax.dynamic_update_slice_in_dim(cache.keys, keys, position, axis=0),
            lax.dynamic_update_slice_in_dim(cache.values, value, position, axis=0),
        )
        seen = jnp.arange(cache.keys.shape[0], dtype=jnp.int32) <= position
        return self._merge(_attend(query, cache.keys, cache.values, seen[None, :], bias)), cache

    def _project(self, x: Float[Array, "length width"], rotate: Rotation | None) -> Packed:
        packed = self.qkv(x).reshape(len(x), 3, self.heads, -1)
        if rotate is None:
            return packed
        query, keys, value = jnp.moveaxis(packed, 1, 0)
        turned = rotate(query)  # the query itself where positions turn nothing
        return packed if turned is query else jnp.stack([turned, rotate(keys), value], axis=1)

    def _parts(self, x: Float[Array, "length width"], rotate: Rotation | None) -> list[Array]:
        """Queries, keys and values, each under its name."""
        parts = jnp.moveaxis(self._project(x, rotate), 1, 0)
        return [tap(f"attn.{name}", part) for name, part in zip("qkv", parts, strict=True)]

    def _merge(self, attended: Float[Array, "length heads head_width"]) -> Float[Array, "length width"]:
        return self.out(attended.reshape(len(attended), -1))


def _turns_nothing(rotate: Rotation | None, query: Array) -> bool:
    return rotate is None or rotate(query) is query


def _attend(query: Array, key: Array, value: Array, mask: Array | None, bias: Bias) -> Array:
    """`attend`, whose kernels take no bias: with one, by the weights."""
    if bias is None and len(query) == 1 and on_gpu(query.dtype) and not tapped():
        return attend_by_sums(query, key, value, mask)
    if bias is None:
        return attend(query, key, value, mask)
    return weighted_values(attention_weights(query, key, mask, bias), value)
