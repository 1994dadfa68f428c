"""Where a position enters a transformer: nowhere, at the input (tables, waves), or at queries and keys (rotary).

One protocol for all: `add` acts on the input embeddings, `rotate` on queries and keys, `bias` on attention scores (see
`relative`). All take the integer positions themselves, so an offset, a random subset (`random_positions`) and a single
decoded position are all alike.
"""

from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Integer, PRNGKeyArray

from stairwise.nn.fused import in_eights, on_gpu


@jax.custom_jvp
def lookup(table: Float[Array, "rows width"], indices: Integer[Array, " length"]) -> Float[Array, "length width"]:
    """Rows of a table; an index outside 0..rows-1 gives NaN (it may be traced, and indexing would clamp it silently).

    The gradient is a product with one-hot vectors: on a GPU the scatter-add behind plain indexing adds in any order,
    and training is then not repeatable to the bit.
    """
    return jnp.where(_inside(table, indices), table[indices], jnp.nan)


@lookup.defjvp
def _lookup_tangents(primals, tangents):
    (table, indices), (moved, _) = primals, tangents
    precision: lax.Precision | None = lax.Precision.HIGHEST
    if on_gpu(moved.dtype):  # there it may be rounded, like the gradients of other weights
        moved, precision = in_eights(moved, axis=0), None
    one_hot = jax.nn.one_hot(indices, len(moved), dtype=table.dtype)
    rows = jnp.matmul(one_hot, moved, precision=precision)
    return lookup(table, indices), jnp.where(_inside(table, indices), rows, 0)


def _inside(table: Float[Array, "rows width"], indices: Integer[Array, " length"]) -> Bool[Array, "length 1"]:
    return ((indices >= 0) & (indices < len(table)))[:, None]


class Positions(eqx.Module):
    """How positions 0, 1, … are told to a transformer."""

    @property
    @abstractmethod
    def limit(self) -> int | None:
        """Positions must lie in 0..limit-1; None: any position."""

    @abstractmethod
    def add(
        self, embeddings: Float[Array, "length width"], positions: Integer[Array, " length"]
    ) -> Float[Array, "length width"]:
        """The input embeddings with their positions marked."""

    @abstractmethod
    def rotate(
        self, vectors: Float[Array, "length heads head_width"], positions: Integer[Array, " length"]
    ) -> Float[Array, "length heads head_width"]:
        """Queries or keys with their positions marked."""

    @abstractmethod
    def bias(
        self, queries: Integer[Array, " queries"], keys: Integer[Array, " keys"]
    ) -> Float[Array, "heads queries keys"] | None:
        """What is added to attention scores; None: nothing."""


class AtInput(Positions):
    """Positions that are told at the input and nowhere else."""

    def rotate(
        self, vectors: Float[Array, "length heads head_width"], positions: Integer[Array, " length"]
    ) -> Float[Array, "length heads head_width"]:
        return vectors

    def bias(self, queries: Integer[Array, " queries"], keys: Integer[Array, " keys"]) -> None:
        return None


class NoPositions(AtInput):
    """Nothing: order is known only through the mask."""

    @property
    def limit(self) -> int | None:
        return None

    def add(
        self, embeddings: Float[Array, "length width"], positions: Integer[Array, " length"]
    ) -> Float[Array, "length width"]:
        return embeddings


class LearnedPositions(AtInput):
    """A trained vector per absolute position, added to the input: x_t + p_t."""

    table: Float[Array, "limit width"]

    @property
    def limit(self) -> int | None:
        return self.table.shape[0]

    def add(
        self, embeddings: Float[Array, "length width"], positions: Integer[Array, " length"]
    ) -> Float[Array, "length width"]:
        return embeddings + lookup(self.table, positions)


class RandomisedPositions(AtInput):
    """A learned table that is longer than the sequences: a call that brings a key reads it at random increasing places.

    A call without one reads it at places that are spread evenly. Every row is trained, so longer sequences meet none
    that is new.
    """

    table: Float[Array, "limit width"]

    @property
    def limit(self) -> int | None:
        return self.table.shape[0]

    def add(
        self, embeddings: Float[Array, "length width"], positions: Integer[Array, " length"]
    ) -> Float[Array, "length width"]:
        return embeddings + lookup(self.table, positions)

    def places(self, length: int, key: PRNGKeyArray | None) -> Integer[Array, " length"]:
        """The rows that a sequence is told."""
        if key is None:
            return jnp.arange(length, dtype=jnp.int32) * len(self.table) // length
        return random_positions(key, length, len(self.table))


class SinusoidalPositions(AtInput):
    """Fixed waves added to the input: coordinates 2i and 2i+1 are sin and cos of t * base^(-2i/d)."""

    base: float = eqx.field(static=True, default=10000.0)

    @property
    def limit(self) -> int | None:
        return None

    def add(
        self, embeddings: Float[Array, "length width"], positions: Integer[Array, " length"]
    ) -> Float[Array, "length width"]:
        dtype, width = jnp.promote_types(embeddings.dtype, jnp.float32), embeddings.shape[-1]
        if width % 2:
            raise ValueError(f"width={width} must be even (SinusoidalPositions)")
        speeds = self.base ** (-jnp.arange(0, width, 2, dtype=dtype) / width)
        angles = positions.astype(dtype)[:, None] * speeds
        waves = jnp.stack([jnp.sin(angles), jnp.cos(angles)], axis=-1).reshape(embeddings.shape)
        return embeddings + waves.astype(embeddings.dtype)


class RotaryPositions(Positions):
    """Rotary encoding: at position t coordinate pair i turns by the angle t * base^(-2i/d).

    The inner product of a query at s and a key at t then depends on s - t alone. Pairs are (i, i + d/2), the
    half-split order of GPT-NeoX and Llama.
    """

    base: float = eqx.field(static=True, default=10000.0)

    @property
    def limit(self) -> int | None:
        return None

    def add(
        self, embeddings: Float[Array, "length width"], positions: Integer[Array, " length"]
    ) -> Float[Array, "length width"]:
        return embeddings

    def rotate(
        self, vectors: Float[Array, "length heads head_width"], positions: Integer[Array, " length"]
    ) -> Float[Array, "length heads head_width"]:
        width = vectors.shape[-1]
        if width % 2:
            raise ValueError(f"head_width={width} must be even (RotaryPositions)")
        # angles reach t radians: bfloat16 would round them by whole turns
        dtype = jnp.promote_types(vectors.dtype, jnp.float32)
        frequencies = self.base ** (-jnp.arange(0, width, 2, dtype=dtype) / width)
        angles = positions.astype(dtype)[:, None, None] * frequencies
        cos, sin = jnp.cos(angles), jnp.sin(angles)
        first, second = jnp.split(vectors.astype(dtype), 2, axis=-1)
        turned = jnp.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)
        return turned.astype(vectors.dtype)

    def bias(self, queries: Integer[Array, " queries"], keys: Integer[Array, " keys"]) -> None:
        return None


def random_positions(key: PRNGKeyArray, length: int, limit: int) -> Integer[Array, " length"]:
    """A uniformly random `length`-subset of 0..limit-1 in increasing order.

    Training on such positions shows a learned table (or a rotary encoding) every index that a longer test sequence
    will use, while the order of the tokens stays readable.

    >>> random_positions(jax.random.key(0), 3, 3).tolist()
    [0, 1, 2]
    """
    if not 1 <= length <= limit:
        raise ValueError(f"length={length} must lie in 1..limit={limit} (random_positions)")
    return random_places(key, length, limit)[:length]


def random_places(key: PRNGKeyArray, count: int | Integer[Array, ""], limit: int) -> Integer[Array, " limit"]:
    """The same with a `count` that may be traced: a random subset in increasing order, padded with limit - 1.

    >>> random_places(jax.random.key(0), 4, 4).tolist()
    [0, 1, 2, 3]
    """
    order = jax.random.permutation(key, jnp.arange(limit, dtype=jnp.int32))
    return jnp.sort(jnp.where(jnp.arange(limit, dtype=jnp.int32) < count, order, limit - 1))
