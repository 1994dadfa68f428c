"""How close an array is to a pattern: cosine, coefficient and relative distance in the Frobenius geometry.

All are functions of <A, B> = sum_ij A_ij B_ij, defined (and differentiable) also where an array is zero.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def cosine(a: Float[Array, "*shape"], b: Float[Array, "*shape"]) -> Float[Array, ""]:
    """<A, B> / (||A|| ||B||); 0 where one of them is zero.

    >>> float(cosine(jnp.array([2.0, 0.0], dtype=jnp.float32), jnp.array([0.5, 0.0], dtype=jnp.float32)))
    1.0
    """
    a, b = _to_unit_size(a), _to_unit_size(b)
    product = jnp.sum(a * a) * jnp.sum(b * b)
    nonzero = product > 0
    return jnp.where(nonzero, jnp.sum(a * b) / jnp.sqrt(jnp.where(nonzero, product, 1)), 0)


def coefficient(a: Float[Array, "*shape"], pattern: Float[Array, "*shape"]) -> Float[Array, ""]:
    """The c that minimises ||A - c pattern||: <A, pattern> / ||pattern||^2; 0 for a zero pattern."""
    square = jnp.sum(pattern * pattern)
    return jnp.where(square > 0, jnp.sum(a * pattern) / jnp.where(square > 0, square, 1), 0)


def relative_distance(a: Float[Array, "*shape"], b: Float[Array, "*shape"]) -> Float[Array, ""]:
    """||A - B|| / ||B||; the distance itself where B is zero."""
    scale = _norm(b)
    return _norm(a - b) / jnp.where(scale > 0, scale, 1)


def _norm(a: Float[Array, "*shape"]) -> Float[Array, ""]:
    """||A||, with gradient 0 at A = 0, where the square root has none."""
    square = jnp.sum(a * a)
    return jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1)), 0)


def _to_unit_size(a: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Entries of at most 1 in size: squares of tiny entries would underflow, and a cosine does not see the scale."""
    largest = jax.lax.stop_gradient(jnp.max(jnp.abs(a), initial=0))
    return a / jnp.where(largest > 0, largest, 1)
