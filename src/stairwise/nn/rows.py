"""Norms and GELU of rows as one GPU kernel each, and one for each gradient.

What costs in a small transformer is less its products than the bytes between them. XLA reads a norm's input once for
every sum in it, and keeps for the gradient what is cheap to compute again. These kernels read each array once: the
forward pass keeps nothing but its input, and the gradient leaves the sums over rows (of a scale, of a bias) as one row
for each program.
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
PROGRAM = 4096  # entries of one program: four warps of 32 threads with 32 entries each
WIDEST = 8192
FEWEST = 4
CURVE, CUBE = (2 / jnp.pi) ** 0.5, 0.044715  # of GELU in its tanh form


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
    count, width = rows.shape
    shape = jax.ShapeDtypeStruct(rows.shape, rows.dtype)
    return launch(partial(norm_forward_kernel, norm), shape, (programs(count, width),), interpret)(rows, scale, shift)


def norm_backward(
    norm: Norm, rows: Rows, scale: Row, shift: Row, cotangent: Rows, *, interpret: bool = False
) -> tuple[Rows, Row, Row]:
    count, width = rows.shape
    blocks = programs(count, width)
    sums = jax.ShapeDtypeStruct((blocks, width), jnp.float32)
    shapes = (jax.ShapeDtypeStruct(rows.shape, rows.dtype), sums, sums)
    moved, scales, shifts = launch(partial(norm_backward_kernel, norm), shapes, (blocks,), interpret)(
        rows, scale, cotangent
    )
    return moved, scales.sum(axis=0).astype(scale.dtype), shifts.sum(axis=0).astype(shift.dtype)


def programs(count: int, width: int) -> int:
    return -(-count // rows_of(count, width))


def rows_of(count: int, width: int) -> int:
    """How many rows of a width one program takes: a power of two.

    >>> rows_of(21, 256), rows_of(1000, 720)
    (16, 4)
    """
    return max(1, min(PROGRAM // padded(width), 1 << (count - 1).bit_length()))


def norm_forward_kernel(norm: Norm, rows, scale, shift, result) -> None:
    places = block_of(rows)
    unit, _ = standardised(norm, places.load(rows), places, rows.shape[-1])
    places.store(result, unit * places.load_row(scale) + places.load_row(shift))


def norm_backward_kernel(norm: Norm, rows, scale, cotangent, moved, scales, shifts) -> None:
    """With u = (x - mean) / deviation and g = scale dy: dx = (g - mean(g) - u mean(g u)) / deviation."""
    width, places = rows.shape[-1], block_of(rows)
    unit, inverse = standardised(norm, places.load(rows), places, width)
    known = places.load(cotangent)
    pulled = known * places.load_row(scale)
    along = jnp.sum(pulled * unit, axis=1, keepdims=True) / width
    away = jnp.sum(pulled, axis=1, keepdims=True) / width if norm.centred else 0.0
    places.store(moved, inverse * (pulled - away - unit * along))
    places.store_sum(scales, known * unit)
    places.store_sum(shifts, known)


def standardised(norm: Norm, block: Array, places: "Tile", width: int) -> tuple[Array, Array]:
    """Rows of mean 0 (if centred) and mean square 1, and what they were multiplied by; zero outside of the array."""
    if norm.centred:
        block = jnp.where(places.inside, block - jnp.sum(block, axis=1, keepdims=True) / width, 0.0)
    inverse = lax.rsqrt(jnp.sum(block * block, axis=1, keepdims=True) / width + norm.eps)
    return block * inverse, inverse


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
    shape = jax.ShapeDtypeStruct(rows.shape, rows.dtype)
    return launch(gelu_forward_kernel, shape, tiles(rows), interpret)(rows, bias)


def gelu_backward(rows: Rows, bias: Row, cotangent: Rows, *, interpret: bool = False) -> tuple[Rows, Row]:
    grid = tiles(rows)
    shapes = (
        jax.ShapeDtypeStruct(rows.shape, rows.dtype),
        jax.ShapeDtypeStruct((grid[0], rows.shape[-1]), jnp.float32),
    )
    moved, sums = launch(gelu_backward_kernel, shapes, grid, interpret)(rows, bias, cotangent)
    return moved, sums.sum(axis=0).astype(bias.dtype)


def tiles(rows: Any) -> tuple[int, int]:
    """The grid of an array that is cut in rows and in columns."""
    count, width = rows.shape
    tall, wide = tile(count)
    return -(-count // tall), -(-width // wide)


def tile(count: int) -> tuple[int, int]:
    """Rows and columns of a tile.

    >>> tile(21), tile(1000)
    ((32, 128), (32, 128))
    """
    tall = min(32, 1 << (count - 1).bit_length())
    return tall, PROGRAM // tall


def gelu_forward_kernel(rows, bias, result) -> None:
    places = tile_of(rows)
    sums = places.load(rows) + places.load_row(bias)
    places.store(result, 0.5 * sums * (1 + jnp.tanh(CURVE * sums * (1 + CUBE * sums * sums))))


def gelu_backward_kernel(rows, bias, cotangent, moved, biases) -> None:
    places = tile_of(rows)
    sums = places.load(rows) + places.load_row(bias)
    bent = jnp.tanh(CURVE * sums * (1 + CUBE * sums * sums))
    slope = 0.5 * (1 + bent) + 0.5 * sums * (1 - bent * bent) * CURVE * (1 + 3 * CUBE * sums * sums)
    step = places.load(cotangent) * slope
    places.store(moved, step)
    places.store_sum(biases, step)


# --- one program's part of an array -----------------------------------------------------------------------------------


class Tile(NamedTuple):
    """Rows and columns of one program, and which of them exist; numbers are float32 within."""

    rows: Array  # [rows, 1]
    columns: Array  # [columns]
    inside: Array
    number: Array  # of the program's rows, counted from 0

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

    def store_sum(self, array, block: Array) -> None:
        """The sum over the program's rows."""
        from jax.experimental.pallas import triton

        place = array.at[self.number, self.columns]
        triton.store(place, jnp.sum(block, axis=0).astype(array.dtype), mask=self.columns < array.shape[-1])


def block_of(array) -> Tile:
    """Whole rows."""
    from jax.experimental.pallas import program_id

    count, width = array.shape
    return _block(array, program_id(0), rows_of(count, width), 0, padded(width))


def tile_of(array) -> Tile:
    from jax.experimental.pallas import program_id

    tall, wide = tile(array.shape[0])
    return _block(array, program_id(0), tall, program_id(1), wide)


def _block(array, number, tall: int, place, wide: int) -> Tile:
    count, width = array.shape
    rows = (number * tall + jnp.arange(tall, dtype=jnp.int32))[:, None]
    columns = place * wide + jnp.arange(wide, dtype=jnp.int32)
    return Tile(rows, columns, (rows < count) & (columns[None, :] < width), number)


def launch(kernel: Callable, shapes: Any, grid: tuple[int, ...], interpret: bool) -> Callable:
    """`vmap` adds the examples to the grid."""
    from jax.experimental import pallas
    from jax.experimental.pallas import triton

    parameters = triton.CompilerParams(num_warps=4, num_stages=1)
    return pallas.pallas_call(kernel, shapes, grid=grid, compiler_params=parameters, interpret=interpret)
