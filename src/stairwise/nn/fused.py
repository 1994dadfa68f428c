"""Attention of short sequences as one GPU kernel, and one for its gradient; float32 goes through TF32 products.

At a few dozen positions what costs is not the products but the way to them: queries, keys and values are cut out of
the projection and transposed, scores and weights are written and read again. Here one program takes one head of one
example straight out of the projection, keeps it on the chip, and leaves the result where the next product reads it; the
gradient computes the weights again instead of storing them.
"""

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Integer

Packed = Float[Array, "length 3 heads head_width"]
Attended = Float[Array, "length heads head_width"]
Mask = Bool[Array, "length length"] | None  # None: every query sees every key
Shift = Float[Array, "3 heads head_width"] | None
WORD = 32  # bits of a number
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


def on_gpu(dtype: Any) -> bool:
    """Whether programs are for a GPU, where work that others would only round differently is taken over by kernels, and
    these know the dtype."""
    return jax.default_backend() == "gpu" and dtype in (jnp.float32, jnp.bfloat16) and written_for_this_jax()


def in_eights(array: Float[Array, "..."], axis: int) -> Float[Array, "..."]:
    """The array with zeros behind it, up to a multiple of 8 along an axis.

    A GPU loads 16 bytes at a time, and has slower products for matrices whose rows begin anywhere else.

    >>> in_eights(jnp.ones((2, 5), dtype=jnp.float32), axis=1).shape
    (2, 8)
    """
    wide = [(0, 0)] * array.ndim
    wide[axis] = (0, -array.shape[axis] % 8)
    return jnp.pad(array, wide)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def fused(plain: Callable[[Packed, Mask], Attended], packed: Packed, mask: Mask, shift: Shift = None) -> Attended:
    """`plain(packed + shift, mask)`, by the kernel where an NVIDIA GPU computes it."""
    return lax.platform_dependent(packed, mask, shift, cuda=forward, default=partial(shifted, plain))


def shifted(plain: Callable[[Packed, Mask], Attended], packed: Packed, mask: Mask, shift: Shift) -> Attended:
    return plain(packed if shift is None else packed + shift.astype(packed.dtype), mask)


def remember(plain, packed, mask, shift):
    return fused(plain, packed, mask, shift), (packed, mask, shift)


def differentiate(plain, known, cotangent):
    def by_products(packed, mask, shift, cotangent):
        return jax.vjp(lambda packed, shift: shifted(plain, packed, mask, shift), packed, shift)[1](cotangent)

    moved, pushed = lax.platform_dependent(*known, cotangent, cuda=backward, default=by_products)
    return moved, None, pushed


fused.defvjp(remember, differentiate)


def forward(packed: Packed, mask: Mask, shift: Shift = None, *, interpret: bool = False) -> Attended:
    length, _, heads, head_width = packed.shape
    shape = jax.ShapeDtypeStruct((length, heads, head_width), packed.dtype)
    call = launch(partial(forward_kernel, *there(mask, shift)), shape, packed, warps(length, head_width), interpret)
    return call(packed, *given(mask, shift))


def backward(
    packed: Packed, mask: Mask, shift: Shift, cotangent: Attended, *, interpret: bool = False
) -> tuple[Packed, Shift]:
    shape = jax.ShapeDtypeStruct(packed.shape, packed.dtype)
    team = warps(packed.shape[0], packed.shape[-1], most=8)
    kernel = partial(backward_kernel, *there(mask, shift))
    if shift is None:
        return launch(kernel, shape, packed, team, interpret)(packed, *given(mask, shift), cotangent), None
    shapes = (shape, jax.ShapeDtypeStruct(shift.shape, jnp.float32))
    moved, pushed = launch(kernel, shapes, packed, team, interpret)(packed, *given(mask, shift), cotangent)
    return moved, pushed.astype(shift.dtype)


def there(mask: Mask, shift: Shift) -> tuple[bool, bool]:
    """Which of the two there are."""
    return mask is not None, shift is not None


def given(mask: Mask, shift: Shift) -> list[Array]:
    """What of the two a kernel is given."""
    return [*([] if mask is None else [in_words(mask)]), *([] if shift is None else [shift])]


def in_words(mask: Bool[Array, "queries keys"]) -> Integer[Array, "words queries"]:
    """Each query's row of the mask as bits, 32 to a number: a kernel has it with one load or two.

    >>> in_words(jnp.array([[True, False], [True, True]], dtype=bool)).tolist()
    [[1, 3]]
    """
    queries, keys = mask.shape
    bits = jnp.pad(mask, ((0, 0), (0, -keys % WORD))).reshape(queries, -1, WORD).astype(jnp.uint32)
    words = jnp.sum(bits << jnp.arange(WORD, dtype=jnp.uint32), axis=-1, dtype=jnp.uint32)
    return lax.bitcast_convert_type(words, jnp.int32).T


def launch(kernel: Callable, shapes: Any, packed: Packed, team: int, interpret: bool) -> Callable:
    """One program a head; `vmap` adds the examples to the grid."""
    from jax.experimental import pallas
    from jax.experimental.pallas import triton

    parameters = triton.CompilerParams(num_warps=team, num_stages=1)
    return pallas.pallas_call(kernel, shapes, grid=(packed.shape[2],), compiler_params=parameters, interpret=interpret)


def warps(length: int, head_width: int, most: int = 4) -> int:
    """How many warps share one head: a small one is done sooner by one warp, which waits for no other.

    >>> warps(21, 32), warps(33, 180), warps(33, 180, most=8)
    (1, 4, 8)
    """
    entries = padded(length) * padded(head_width)
    return most if entries >= 2048 * most else max(1, min(4, entries // 1024))


def forward_kernel(masked: bool, shifted: bool, packed, *rest) -> None:
    from jax.experimental.pallas.triton import dot

    mask, shift, (attended,) = told_apart(masked, shifted, rest)
    query, key, value = parts_of(packed, shift)
    seen = weights(query, key, mask, packed.shape)
    store(attended, (), dot(seen.astype(value.dtype), value))


def backward_kernel(masked: bool, shifted: bool, packed, *rest) -> None:
    """The gradient, and its sum over positions where there is a shift."""
    mask, shift, (cotangent, gradient, *pushed) = told_apart(masked, shifted, rest)
    for part, head in gradients(parts_of(packed, shift), mask, cotangent):
        store(gradient, (part,), head)
        for sums in pushed:
            store_row(sums, part, head.sum(axis=0))


def told_apart(masked: bool, shifted: bool, rest: tuple[Any, ...]) -> tuple[Any, Any, tuple[Any, ...]]:
    """The mask and the shift, None where there is none, and what follows them."""
    mask, rest = (rest[0], rest[1:]) if masked else (None, rest)
    shift, rest = (rest[0], rest[1:]) if shifted else (None, rest)
    return mask, shift, rest


def gradients(parts: list[Array], mask, cotangent) -> Iterator[tuple[int, Array]]:
    """With weights A = softmax(S): dV = A^T dO, dA = dO V^T, dS = A (dA - <dA, A>), dQ = dS K, dK = dS^T Q."""
    from jax.experimental.pallas.triton import dot

    query, key, value = parts
    head_width, known = cotangent.shape[-1], load(cotangent)
    seen = weights(query, key, mask, cotangent.shape)
    yield 2, dot(seen.astype(value.dtype), known, trans_a=True)
    moved = dot(known, value, trans_b=True)
    scores = seen * (moved - (moved * seen).sum(axis=1, keepdims=True)) * head_width**-0.5
    scores = scores.astype(query.dtype)
    yield 0, dot(scores, key)
    yield 1, dot(scores, query, trans_a=True)


def weights(query: Array, key: Array, mask, shape: tuple[int, ...]) -> Float[Array, "queries keys"]:
    """Softmax over visible keys; rows that see none, padding among them, are zero."""
    from jax.experimental.pallas import triton

    length, head_width = shape[0], shape[-1]
    places = jnp.arange(len(query), dtype=jnp.int32)
    visible = (places[:, None] < length) & (places[None, :] < length)
    if mask is not None:
        words = [triton.load(mask.at[word, places], mask=places < length, other=0) for word in range(mask.shape[0])]
        bits = words[0][:, None]
        for word, more in enumerate(words[1:], start=1):
            bits = jnp.where(places[None, :] < WORD * word, bits, more[:, None])
        visible &= ((bits >> (places % WORD)[None, :]) & 1) != 0
    scores = jnp.where(visible, triton.dot(query, key, trans_b=True) * head_width**-0.5, -1e30)
    powers = jnp.exp(scores - scores.max(axis=1, keepdims=True))
    return jnp.where(visible, powers / powers.sum(axis=1, keepdims=True), 0.0)


def parts_of(packed, shift) -> list[Array]:
    """Queries, keys and values of this program's head, filled up with zeros; what is filled up is seen by no one."""
    parts = [load(packed, part) for part in range(3)]
    if shift is None:
        return parts
    return [(head + load_row(shift, part)).astype(head.dtype) for part, head in enumerate(parts)]


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


def load_row(array, part: int) -> Float[Array, "1 columns"]:
    """This program's head in [part, heads, head_width]."""
    from jax.experimental.pallas import triton

    place, inside = row_of(array, part)
    return triton.load(place, mask=inside, other=0.0)[None, :]


def store_row(array, part: int, row: Array) -> None:
    from jax.experimental.pallas import triton

    place, inside = row_of(array, part)
    triton.store(place, row.astype(array.dtype), mask=inside)


def row_of(array, part: int) -> tuple[Any, Bool[Array, " columns"]]:
    from jax.experimental.pallas import program_id

    columns = jnp.arange(padded(array.shape[-1]), dtype=jnp.int32)
    return array.at[part, program_id(0), columns], columns < array.shape[-1]
