"""Norms and GELU of rows as one GPU kernel each, and one for each gradient.

What costs in a small transformer is less its products than the bytes between them. XLA reads a norm's input once for
every sum in it, and keeps for the gradient what is cheap to compute again. These kernels read each array once: the
forward pass keeps nothing but its input, and the gradient leaves the sums over rows (of a scale, of a bias) as one row
for each program. What a layer adds to the stream is added by the kernel of the next norm.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from stairwise.nn.fused import on_gpu, padded

Rows = Float[Array, "rows width"]
Row = Float[Array, " width"]
WIDEST = 8192
FEWEST = 4
CURVE, CUBE = (2 / jnp.pi) ** 0.5, 0.044715  # of GELU in its tanh form


class Cut(NamedTuple):
    """How an array is cut: entries that a program holds at once, its warps, and rows that it takes in several turns."""

    entries: int
    warps: int
    span: int = 1


FORWARD, BACKWARD = Cut(1024, 1), Cut(2048, 2, span=32)  # of norms
GELU_FORWARD, GELU_BACKWARD, STRIP = Cut(2048, 4), Cut(2048, 4, span=32), 256  # columns of a program


class Norm(NamedTuple):
    """LayerNorm (`centred`) or RMSNorm of rows."""

    eps: float
    centred: bool


def fits(rows: Array) -> bool:
    """Whether the kernels take these rows, and a GPU is there to run them; single rows are left to XLA."""
    return on_gpu(rows.dtype) and len(rows) >= FEWEST and rows.shape[-1] <= WIDEST


# --- norms ------------------------------------------------------------------------------------------------------------


def norm_rows(norm: eqx.nn.LayerNorm | eqx.nn.RMSNorm | None, rows: Rows) -> Rows:
    """The norm of every row; the row itself where there is none."""
    if norm is None:
        return rows
    if not fits(rows) or norm.weight is None:
        return jax.vmap(norm)(rows)
    shift = jnp.zeros_like(norm.weight) if norm.bias is None else norm.bias
    kind = Norm(norm.eps, isinstance(norm, eqx.nn.LayerNorm))
    return normed(kind, partial(by_equinox, type(norm), norm.eps), rows, norm.weight, shift)


def by_equinox(kind: type, eps: float, rows: Rows, scale: Row, shift: Row) -> Rows:
    norm = kind(rows.shape[-1], eps=eps)
    return jax.vmap(eqx.tree_at(lambda norm: (norm.weight, norm.bias), norm, (scale, shift)))(rows)


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def normed(norm: Norm, plain: Callable[[Rows, Row, Row], Rows], rows: Rows, scale: Row, shift: Row) -> Rows:
    """`plain(rows, scale, shift)`, by the kernel where an NVIDIA GPU computes it."""
    return lax.platform_dependent(rows, scale, shift, cuda=partial(norm_forward, norm), default=plain)


def norm_remember(norm, plain, rows, scale, shift):
    return normed(norm, plain, rows, scale, shift), (rows, scale, shift)


def norm_differentiate(norm, plain, known, cotangent):
    def by_jax(rows, scale, shift, cotangent):
        return jax.vjp(plain, rows, scale, shift)[1](cotangent)

    return lax.platform_dependent(*known, cotangent, cuda=partial(norm_backward, norm), default=by_jax)


normed.defvjp(norm_remember, norm_differentiate)


def norm_forward(norm: Norm, rows: Rows, scale: Row, shift: Row, *, interpret: bool = False) -> Rows:
    shape, grid = jax.ShapeDtypeStruct(rows.shape, rows.dtype), (programs(FORWARD, *rows.shape),)
    return launch(partial(norm_forward_kernel, norm), shape, grid, FORWARD, interpret)(rows, scale, shift)


def norm_backward(
    norm: Norm, rows: Rows, scale: Row, shift: Row, cotangent: Rows, *, interpret: bool = False
) -> tuple[Rows, Row, Row]:
    blocks = programs(BACKWARD, *rows.shape)
    sums = jax.ShapeDtypeStruct((blocks, rows.shape[-1]), jnp.float32)
    shapes = (jax.ShapeDtypeStruct(rows.shape, rows.dtype), sums, sums)
    call = launch(partial(norm_backward_kernel, norm), shapes, (blocks,), BACKWARD, interpret)
    moved, scales, shifts = call(rows, scale, cotangent)
    return moved, scales.sum(axis=0).astype(scale.dtype), shifts.sum(axis=0).astype(shift.dtype)


def programs(cut: Cut, count: int, width: int) -> int:
    tall = rows_of(cut, count, width)
    return -(-count // (tall * turns(cut, count, tall)))


def rows_of(cut: Cut, count: int, width: int) -> int:
    """How many rows of a width a program holds at once: a power of two.

    >>> rows_of(BACKWARD, 21, 256), rows_of(BACKWARD, 1000, 720)
    (8, 2)
    """
    return max(1, min(cut.entries // padded(width), 1 << (count - 1).bit_length()))


def turns(cut: Cut, count: int, tall: int) -> int:
    """How many times a program takes `tall` rows.

    >>> turns(BACKWARD, 21, 8), turns(BACKWARD, 1000, 2), turns(FORWARD, 1000, 2)
    (3, 16, 1)
    """
    return max(1, min(cut.span // tall, -(-count // tall)))


def norm_forward_kernel(norm: Norm, rows, scale, shift, result) -> None:
    places = block_of(FORWARD, rows)
    unit, _ = standardised(norm, places.load(rows), places, rows.shape[-1])
    places.store(result, unit * places.load_row(scale) + places.load_row(shift))


def norm_backward_kernel(norm: Norm, rows, scale, cotangent, moved, scales, shifts) -> None:
    def turn(places: Tile) -> tuple[Array, ...]:
        back, known, unit = pulled_back(norm, places, rows, scale, cotangent)
        places.store(moved, back)
        return known * unit, known

    in_turns(BACKWARD, rows, turn, (scales, shifts))


def pulled_back(norm: Norm, places: "Tile", rows, scale, cotangent) -> tuple[Array, Array, Array]:
    """dx, dy and u. With u = (x - mean) / deviation and g = scale dy: dx = (g - mean(g) - u mean(g u)) / deviation."""
    width = rows.shape[-1]
    unit, inverse = standardised(norm, places.load(rows), places, width)
    known = places.load(cotangent)
    pulled = known * places.load_row(scale)
    along = jnp.sum(pulled * unit, axis=1, keepdims=True) / width
    away = jnp.sum(pulled, axis=1, keepdims=True) / width if norm.centred else 0.0
    return inverse * (pulled - away - unit * along), known, unit


def standardised(norm: Norm, block: Array, places: "Tile", width: int) -> tuple[Array, Array]:
    """Rows of mean 0 (if centred) and mean square 1, and what they were multiplied by; zero outside of the array."""
    if norm.centred:
        block = jnp.where(places.inside, block - jnp.sum(block, axis=1, keepdims=True) / width, 0.0)
    inverse = lax.rsqrt(jnp.sum(block * block, axis=1, keepdims=True) / width + norm.eps)
    return block * inverse, inverse


# --- a sum and its norm -----------------------------------------------------------------------------------------------


class Update(NamedTuple):
    """What is to be added to a stream: a product and its bias."""

    product: Float[Array, "... width"]
    bias: Row


def add_norm_rows(
    norm: eqx.nn.LayerNorm | eqx.nn.RMSNorm | None, stream: Rows, update: Update | None
) -> tuple[Rows, Rows]:
    """The stream with its update, if there is one, and the norm of that."""
    if update is None or norm is None or norm.weight is None or not fits(stream):
        stream = updated(stream, update)
        return stream, norm_rows(norm, stream)
    shift = jnp.zeros_like(norm.weight) if norm.bias is None else norm.bias
    kind = Norm(norm.eps, isinstance(norm, eqx.nn.LayerNorm))
    plain = partial(add_by_equinox, type(norm), norm.eps)
    return added(kind, plain, stream, update.product, update.bias, norm.weight, shift)


def updated(stream: Float[Array, "... width"], update: Update | None) -> Float[Array, "... width"]:
    return stream if update is None else stream + (update.product + update.bias.astype(update.product.dtype))


def add_by_equinox(
    kind: type, eps: float, stream: Rows, product: Rows, bias: Row, scale: Row, shift: Row
) -> tuple[Rows, Rows]:
    total = updated(stream, Update(product, bias))
    return total, by_equinox(kind, eps, total, scale, shift)


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def added(
    norm: Norm, plain: Callable[..., Any], stream: Rows, product: Rows, bias: Row, scale: Row, shift: Row
) -> tuple[Rows, Rows]:
    """`plain(stream, product, bias, scale, shift)`, by the kernel where an NVIDIA GPU computes it."""
    cuda = partial(added_forward, norm)
    return lax.platform_dependent(stream, product, bias, scale, shift, cuda=cuda, default=plain)


def added_remember(norm, plain, stream, product, bias, scale, shift):
    found: Any = added(norm, plain, stream, product, bias, scale, shift)
    return found, (found[0], bias, scale, shift)


def added_differentiate(norm, plain, known, cotangents):
    """The sum's gradient is that of both its parts."""

    def by_jax(total, bias, scale, shift, along, cotangent):
        def of_total(total, scale, shift):
            return plain(total, jnp.zeros_like(total), jnp.zeros_like(bias), scale, shift)[1]

        moved, scales, shifts = jax.vjp(of_total, total, scale, shift)[1](cotangent)
        moved = moved + along
        return moved, moved.sum(axis=0).astype(bias.dtype), scales, shifts

    cuda = partial(added_backward, norm)
    moved, biases, scales, shifts = lax.platform_dependent(*known, *cotangents, cuda=cuda, default=by_jax)
    return moved, moved, biases, scales, shifts


added.defvjp(added_remember, added_differentiate)


def added_forward(
    norm: Norm, stream: Rows, product: Rows, bias: Row, scale: Row, shift: Row, *, interpret: bool = False
) -> tuple[Rows, Rows]:
    shape = jax.ShapeDtypeStruct(stream.shape, stream.dtype)
    grid = (programs(FORWARD, *stream.shape),)
    call = launch(partial(added_forward_kernel, norm), (shape, shape), grid, FORWARD, interpret)
    return call(stream, product, bias, scale, shift)


def added_backward(
    norm: Norm, total: Rows, bias: Row, scale: Row, shift: Row, along: Rows, cotangent: Rows, *, interpret: bool = False
) -> tuple[Rows, Row, Row, Row]:
    """Given the cotangents of the sum (`along`) and of its norm: those of the sum, the bias, the scale, the shift."""
    blocks = programs(BACKWARD, *total.shape)
    sums = jax.ShapeDtypeStruct((blocks, total.shape[-1]), jnp.float32)
    shapes = (jax.ShapeDtypeStruct(total.shape, total.dtype), sums, sums, sums)
    call = launch(partial(added_backward_kernel, norm), shapes, (blocks,), BACKWARD, interpret)
    moved, biases, scales, shifts = call(total, scale, along, cotangent)

    def summed(parts: Array, row: Row) -> Row:
        return parts.sum(axis=0).astype(row.dtype)

    return moved, summed(biases, bias), summed(scales, scale), summed(shifts, shift)


def added_forward_kernel(norm: Norm, stream, product, bias, scale, shift, total, result) -> None:
    places = block_of(FORWARD, stream)
    block = places.load(stream) + (places.load(product) + places.load_row(bias))
    block = jnp.where(places.inside, block, 0.0).astype(total.dtype)
    places.store(total, block)
    unit, _ = standardised(norm, block.astype(jnp.float32), places, stream.shape[-1])
    places.store(result, unit * places.load_row(scale) + places.load_row(shift))


def added_backward_kernel(norm: Norm, total, scale, along, cotangent, moved, biases, scales, shifts) -> None:
    def turn(places: Tile) -> tuple[Array, ...]:
        back, known, unit = pulled_back(norm, places, total, scale, cotangent)
        step = back + places.load(along)
        places.store(moved, step)
        return step, known * unit, known

    in_turns(BACKWARD, total, turn, (biases, scales, shifts))


# --- GELU -------------------------------------------------------------------------------------------------------------


def gelu(rows: Rows, bias: Row) -> Rows:
    """GELU(x + b) in its tanh form, by JAX."""
    return jax.nn.gelu(rows + bias.astype(rows.dtype), approximate=True)


@jax.custom_vjp
def activated(rows: Rows, bias: Row) -> Rows:
    """`gelu(rows, bias)`, by the kernel where an NVIDIA GPU computes it."""
    return lax.platform_dependent(rows, bias, cuda=gelu_forward, default=gelu)


def gelu_remember(rows, bias):
    return activated(rows, bias), (rows, bias)


def gelu_differentiate(known, cotangent):
    def by_jax(rows, bias, cotangent):
        return jax.vjp(gelu, rows, bias)[1](cotangent)

    return lax.platform_dependent(*known, cotangent, cuda=gelu_backward, default=by_jax)


activated.defvjp(gelu_remember, gelu_differentiate)


def gelu_forward(rows: Rows, bias: Row, *, interpret: bool = False) -> Rows:
    shape, grid = jax.ShapeDtypeStruct(rows.shape, rows.dtype), strips(GELU_FORWARD, *rows.shape)
    return launch(gelu_forward_kernel, shape, grid, GELU_FORWARD, interpret)(rows, bias)


def gelu_backward(rows: Rows, bias: Row, cotangent: Rows, *, interpret: bool = False) -> tuple[Rows, Row]:
    grid = strips(GELU_BACKWARD, *rows.shape)
    shapes = (
        jax.ShapeDtypeStruct(rows.shape, rows.dtype),
        jax.ShapeDtypeStruct((grid[0], rows.shape[-1]), jnp.float32),
    )
    moved, sums = launch(gelu_backward_kernel, shapes, grid, GELU_BACKWARD, interpret)(rows, bias, cotangent)
    return moved, sums.sum(axis=0).astype(bias.dtype)


def strips(cut: Cut, count: int, width: int) -> tuple[int, int]:
    """The grid of an array that is cut in columns, too.

    >>> strips(GELU_BACKWARD, 21, 1024), strips(GELU_FORWARD, 21, 48)
    ((1, 4), (1, 1))
    """
    return programs(cut, count, strip(width)), -(-width // strip(width))


def strip(width: int) -> int:
    return min(STRIP, padded(width))


def gelu_forward_kernel(rows, bias, result) -> None:
    places = block_of(GELU_FORWARD, rows, strip(rows.shape[-1]))
    sums = places.load(rows) + places.load_row(bias)
    places.store(result, sums * share_of(sums))


def gelu_backward_kernel(rows, bias, cotangent, moved, biases) -> None:
    """With s = sigmoid(2u): d(x s)/dx = s + x s (1 - s) 2 du/dx."""

    def turn(places: Tile) -> tuple[Array, ...]:
        sums = places.load(rows) + places.load_row(bias)
        share = share_of(sums)
        slope = share + 2 * CURVE * sums * share * (1 - share) * (1 + 3 * CUBE * sums * sums)
        step = places.load(cotangent) * slope
        places.store(moved, step)
        return (step,)

    in_turns(GELU_BACKWARD, rows, turn, (biases,), strip(rows.shape[-1]))


def share_of(sums: Array) -> Array:
    """(1 + tanh u) / 2 = sigmoid(2u) of u = sqrt(2 / pi) (x + 0.044715 x^3): one exponential, and no branches."""
    return 1 / (1 + jnp.exp(-2 * CURVE * sums * (1 + CUBE * sums * sums)))


# --- one program's part of an array -----------------------------------------------------------------------------------


class Tile(NamedTuple):
    """Rows and columns of one program, and which of them exist; numbers are float32 within."""

    rows: Array  # [rows, 1]
    columns: Array  # [columns]
    inside: Array
    number: Array  # of the program's rows, counted from 0

    def moved(self, array, down) -> "Tile":
        """The tile further down in its array."""
        rows = self.rows + down
        return self._replace(rows=rows, inside=(rows < array.shape[0]) & (self.columns[None, :] < array.shape[1]))

    def load(self, array) -> Array:
        from jax.experimental.pallas import triton

        found = triton.load(array.at[self.rows, self.columns[None, :]], mask=self.inside, other=0.0)
        return found.astype(jnp.float32)

    def load_row(self, array) -> Array:
        from jax.experimental.pallas import triton

        found = triton.load(array.at[self.columns], mask=self.columns < array.shape[0], other=0.0)
        return found.astype(jnp.float32)[None, :]

    def store(self, array, block: Array) -> None:
        from jax.experimental.pallas import triton

        triton.store(array.at[self.rows, self.columns[None, :]], block.astype(array.dtype), mask=self.inside)

    def store_row(self, array, row: Array) -> None:
        """The program's own row of an array of sums."""
        from jax.experimental.pallas import triton

        place = array.at[self.number, self.columns]
        triton.store(place, row.astype(array.dtype), mask=self.columns < array.shape[-1])


def in_turns(
    cut: Cut, array, turn: Callable[[Tile], tuple[Array, ...]], sums: tuple[Any, ...], wide: int | None = None
) -> None:
    """`turn` on all rows of a program, a few at a time; what it gives is summed over them and leaves it once."""
    count, whole = array.shape[0], wide is None
    wide = wide or padded(array.shape[-1])
    tall = rows_of(cut, count, wide)
    times, first = turns(cut, count, tall), block_of(cut, array, None if whole else wide)

    def add(place, totals):
        parts = turn(first.moved(array, place * tall))
        return tuple(total + jnp.sum(part, axis=0) for total, part in zip(totals, parts, strict=True))

    totals = lax.fori_loop(0, times, add, tuple(jnp.zeros(wide, dtype=jnp.float32) for _ in sums))
    for place, total in zip(sums, totals, strict=True):
        first.store_row(place, total)


def block_of(cut: Cut, array, wide: int | None = None) -> Tile:
    """The first rows that a program takes: whole ones, or `wide` columns of them."""
    from jax.experimental.pallas import program_id

    count, column = array.shape[0], 0 if wide is None else program_id(1)
    wide = wide or padded(array.shape[-1])
    tall = rows_of(cut, count, wide)
    return _block(array, program_id(0), tall * turns(cut, count, tall), tall, column, wide)


def _block(array, number, step: int, tall: int, place, wide: int) -> Tile:
    count, width = array.shape
    rows = (number * step + jnp.arange(tall, dtype=jnp.int32))[:, None]
    columns = place * wide + jnp.arange(wide, dtype=jnp.int32)
    return Tile(rows, columns, (rows < count) & (columns[None, :] < width), number)


def launch(kernel: Callable, shapes: Any, grid: tuple[int, ...], cut: Cut, interpret: bool) -> Callable:
    """`vmap` adds the examples to the grid."""
    from jax.experimental import pallas
    from jax.experimental.pallas import triton

    parameters = triton.CompilerParams(num_warps=cut.warps, num_stages=1)
    return pallas.pallas_call(kernel, shapes, grid=grid, compiler_params=parameters, interpret=interpret)
