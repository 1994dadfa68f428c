"""Positions that are told to attention scores as a bias of the distance between query and key, and positions by name.

ALiBi   -m_h |s - t|,  slopes m_h = 2^(-8 h / H) of heads h = 1..H          Press, Smith, Lewis (2022)
T5      b_h[bucket(s - t)],  a trained number per head and bucket           Raffel et al. (2020)
"""

import math
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Integer

from stairwise.nn.parts import POSITIONS
from stairwise.nn.positions import (
    LearnedPositions,
    NoPositions,
    Positions,
    RandomisedPositions,
    RotaryPositions,
    SinusoidalPositions,
)

BUCKETS, FARTHEST = 32, 128  # T5's own


class AtScores(Positions):
    """Positions that are told to attention scores and nowhere else."""

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
        return vectors


class Alibi(AtScores):
    """Scores fall linearly with the distance, at a fixed slope per head."""

    heads: int = eqx.field(static=True)

    def bias(
        self, queries: Integer[Array, " queries"], keys: Integer[Array, " keys"]
    ) -> Float[Array, "heads queries keys"]:
        slopes = 2.0 ** (-8 * jnp.arange(1, self.heads + 1, dtype=float) / self.heads)
        return -slopes[:, None, None] * jnp.abs(queries[:, None] - keys[None, :])


class T5Positions(AtScores):
    """A trained number per head for every bucket of distances, the same in all layers."""

    table: Float[Array, "buckets heads"]
    causal: bool = eqx.field(static=True)

    def bias(
        self, queries: Integer[Array, " queries"], keys: Integer[Array, " keys"]
    ) -> Float[Array, "heads queries keys"]:
        chosen = bucket(queries[:, None] - keys[None, :], causal=self.causal)
        one_hot = jax.nn.one_hot(chosen, BUCKETS, dtype=self.table.dtype)  # its gradient is a product: see `lookup`
        return jnp.einsum("qkb,bh->hqk", one_hot, self.table, precision=jax.lax.Precision.HIGHEST)


def bucket(distance: Integer[Array, "*shape"], *, causal: bool) -> Integer[Array, "*shape"]:
    """T5's bucket of a distance query - key: one each up to half of them, then ever larger ones, up to FARTHEST.

    Both ways: the upper half of the buckets is for keys after the query.

    >>> bucket(jnp.array([0, 1, 15, 16, 40, 1000]), causal=True).tolist()
    [0, 1, 15, 16, 23, 31]
    """
    count, first = BUCKETS, jnp.zeros_like(distance)
    if not causal:
        count //= 2
        first = jnp.where(distance < 0, count, 0)
    far = jnp.maximum(distance, 0) if causal else jnp.abs(distance)
    exact = count // 2
    ratio = jnp.maximum(far, 1).astype(jnp.float32) / exact
    larger = exact + (jnp.log(ratio) / math.log(FARTHEST / exact) * (count - exact)).astype(distance.dtype)
    return first + jnp.where(far < exact, far, jnp.minimum(larger, count - 1))


def make_positions(
    kind: str,
    max_length: int | None,
    table: Callable[[int], Float[Array, "rows width"]],
    *,
    heads: int,
    causal: bool = True,
) -> Positions:
    """Positions by name; `table` draws a learned one from its number of rows, `max_length` for what is added."""
    match kind:
        case "none":
            return NoPositions()
        case "sinusoidal":
            return SinusoidalPositions()
        case "rotary":
            return RotaryPositions()
        case "alibi":
            return Alibi(heads)
        case "t5":
            return T5Positions(table(BUCKETS)[:, :heads], causal)
    if kind not in ("learned", "randomised"):
        raise ValueError(f"positions={kind} must be one of {', '.join(POSITIONS)}")
    if max_length is None:
        raise ValueError(f"max_length=None must be at least 1 where positions={kind}")
    return LearnedPositions(table(max_length)) if kind == "learned" else RandomisedPositions(table(max_length))
