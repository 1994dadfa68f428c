"""How close an array is to a pattern: the cosine in the Frobenius geometry, <A, B> = sum_ij A_ij B_ij."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def cosine(a: Float[Array, "*shape"], b: Float[Array, "*shape"]) -> Float[Array, ""]:
    """<A, B> / (||A|| ||B||); 0, with gradient 0, where one of them is zero.

    >>> float(cosine(jnp.array([2.0, 0.0], dtype=jnp.float32), jnp.array([0.5, 0.0], dtype=jnp.float32)))
    1.0
    """
    a, b = _to_unit_size(a), _to_unit_size(b)
    product = jnp.sum(a * a) * jnp.sum(b * b)
    nonzero = product > 0
    return jnp.where(nonzero, jnp.sum(a * b) / jnp.sqrt(jnp.where(nonzero, product, 1)), 0)


def _to_unit_size(a: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Entries of at most 1 in size: squares of tiny entries would underflow, and a cosine does not see the scale."""
    largest = jax.lax.stop_gradient(jnp.max(jnp.abs(a), initial=0))
    return a / jnp.where(largest > 0, largest, 1)
