"""Attention of short sequences as one GPU kernel, and one for its gradient; float32 goes through TF32 products.

At a few dozen positions what costs is not the products but the way to them: queries, keys and values are cut out of
the projection and transposed, scores and weights are written and read again. Here one program takes one head of one
example straight out of the projection, keeps it on the chip, and leaves the result where the next product reads it; the
gradient computes the weights again instead of storing them.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

Packed = Float[Array, "length 3 heads head_width"]
Attended = Float[Array, "length heads head_width"]
Mask = Bool[Array, "length length"]
LONGEST, WIDEST = 64, 256  # what stays on the chip beside its gradient, and what was measured


def padded(size: int) -> int:
    """The power of two that a kernel's array of this size is filled up to; tensor cores take 16 and more.

    >>> [padded(size) for size in (5, 33, 180)]
    [16, 64, 256]
    """
    return max(16, 1 << (size - 1).bit_length())


def fits(packed: Packed) -> bool:
    """Whether the kernels take these queries, keys and values."""
    length, _, _, head_width = packed.shape
    known = packed.dtype == jnp.bfloat16 or (packed.dtype == jnp.float32 and rounds_products())
    return known and length <= LONGEST and head_width <= WIDEST and written_for_this_jax()


def rounds_products() -> bool:
    """Whether float32 products are taken with TF32's 10 bits, as XLA does on a GPU unless it is told not to."""
    chosen = jax.config.values["jax_default_matmul_precision"]
    return chosen in (None, "default", "fastest", "tensorfloat32", "high") and jax.default_backend() == "gpu"


@cache
def written_for_this_jax() -> bool:
    """Whether this release has all that the kernels are made of."""
    try:
        from jax.experimental.pallas.triton import CompilerParams, dot, load, store  # noqa: F401
    except ImportError:
        return False
    return True


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def fused(plain: Callable[[Packed, Mask], Attended], packed: Packed, mask: Mask) -> Attended:
    """`plain(packed, mask)`, by the kernel where an NVIDIA GPU computes it."""
    return lax.platform_dependent(packed, mask, cuda=forward, default=plain)


def remember(plain, packed, mask):
    return fused(plain, packed, mask), (packed, mask)


def differentiate(plain, known, cotangent):
    def by_products(packed, mask, cotangent):
        return jax.vjp(lambda packed: plain(packed, mask), packed)[1](cotangent)[0]

    return lax.platform_dependent(*known, cotangent, cuda=backward, default=by_products), None


fused.defvjp(remember, differentiate)


def forward(packed: Packed, mask: Mask, *, interpret: bool = False) -> Attended:
    length, _, heads, head_width = packed.shape
    shape = jax.ShapeDtypeStruct((length, heads, head_width), packed.dtype)
    return launch(forward_kernel, shape, heads, interpret)(packed, mask.astype(jnp.int8))


def backward(packed: Packed, mask: Mask, cotangent: Attended, *, interpret: bool = False) -> Packed:
    shape = jax.ShapeDtypeStruct(packed.shape, packed.dtype)
    return launch(backward_kernel, shape, packed.shape[2], interpret)(packed, mask.astype(jnp.int8), cotangent)


def launch(kernel: Callable, shape: jax.ShapeDtypeStruct, heads: int, interpret: bool) -> Callable:
    """One program a head; `vmap` adds the examples to the grid."""
    from jax.experimental import pallas
    from jax.experimental.pallas import triton

    parameters = triton.CompilerParams(num_warps=warps(*shape.shape[:: shape.ndim - 1]), num_stages=1)
    return pallas.pallas_call(kernel, shape, grid=(heads,), compiler_params=parameters, interpret=interpret)


def warps(length: int, head_width: int) -> int:
    """How many warps share one head: a small one is done sooner by one warp, which waits for no other.

    >>> warps(21, 32), warps(33, 180)
    (1, 4)
    """
    return max(1, min(4, padded(length) * padded(head_width) // 1024))


def forward_kernel(packed, mask, attended) -> None:
    from jax.experimental.pallas.triton import dot

    query, key, value = (load(packed, part) for part in range(3))
    store(attended, (), dot(weights(query, key, mask, packed.shape[-1]).astype(value.dtype), value))


def backward_kernel(packed, mask, cotangent, gradient) -> None:
    """With weights A = softmax(S): dV = A^T dO, dA = dO V^T, dS = A (dA - <dA, A>), dQ = dS K, dK = dS^T Q."""
    from jax.experimental.pallas.triton import dot

    head_width = packed.shape[-1]
    query, key, value = (load(packed, part) for part in range(3))
    known = load(cotangent)
    seen = weights(query, key, mask, head_width)
    store(gradient, (2,), dot(seen.astype(value.dtype), known, trans_a=True))
    moved = dot(known, value, trans_b=True)
    scores = seen * (moved - (moved * seen).sum(axis=1, keepdims=True)) * head_width**-0.5
    scores = scores.astype(query.dtype)
    store(gradient, (0,), dot(scores, key))
    store(gradient, (1,), dot(scores, query, trans_a=True))


def weights(query: Array, key: Array, mask, head_width: int) -> Float[Array, "queries keys"]:
    """Softmax over visible keys; rows that see none, padding among them, are zero."""
    from jax.experimental.pallas import triton

    length = mask.shape[0]
    places = jnp.arange(len(query), dtype=jnp.int32)
    inside = (places[:, None] < length) & (places[None, :] < length)
    visible = triton.load(mask.at[places[:, None], places[None, :]], mask=inside, other=0) != 0
    scores = jnp.where(visible, triton.dot(query, key, trans_b=True) * head_width**-0.5, -1e30)
    powers = jnp.exp(scores - scores.max(axis=1, keepdims=True))
    return jnp.where(visible, powers / powers.sum(axis=1, keepdims=True), 0.0)


def load(array, *part: int) -> Array:
    """One head of an array, filled up with zeros."""
    from jax.experimental.pallas import triton

    place, inside = head_of(array, part)
    return triton.load(place, mask=inside, other=0.0)


def store(array, part: tuple[int, ...], head: Array) -> None:
    from jax.experimental.pallas import triton

    place, inside = head_of(array, part)
    triton.store(place, head.astype(array.dtype), mask=inside)


def head_of(array, part: tuple[int, ...]) -> tuple[Any, Bool[Array, "rows columns"]]:
    """This program's head in [length, *part, heads, head_width], padded to powers of two, and what of it exists."""
    from jax.experimental.pallas import program_id

    length, head_width = array.shape[0], array.shape[-1]
    rows = jnp.arange(padded(length), dtype=jnp.int32)[:, None]
    columns = jnp.arange(padded(head_width), dtype=jnp.int32)[None, :]
    return array.at[(rows, *part, program_id(0), columns)], (rows < length) & (columns < head_width)
