"""The smoothed ReLU: the C^1 variant that every network here uses, that of Definition 3.4, and Assumption B.2's.

>>> round(float(smooth_relu(jnp.float32(2.0), rho=0.8, q=4)), 6)  # x - rho (1 - 1/q)
1.4
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

Number = float | Float[Array, ""]


def smooth_relu(x: Float[Array, "*shape"], rho: Number, q: int) -> Float[Array, "*shape"]:
    """0 for x <= 0, x^q / (q rho^{q-1}) up to rho, then x - rho (1 - 1/q): continuous with its derivative."""
    low = jnp.where(x > rho, rho, jnp.maximum(x, 0))
    return jnp.where(x > rho, x - rho * (1 - 1 / q), low**q / (q * rho ** (q - 1)))


def smooth_relu_slope(x: Float[Array, "*shape"], rho: Number, q: int) -> Float[Array, "*shape"]:
    """The derivative: min(max(x, 0) / rho, 1)^{q-1}."""
    return (jnp.clip(x, 0, rho) / rho) ** (q - 1)


def smooth_relu_printed(x: Float[Array, "*shape"], rho: Number, q: int) -> Float[Array, "*shape"]:
    """Definition 3.4 with the power from -rho on, and rho/q below, as Lemma D.13's F = Lambda + rho(m/q - 1) implies.

    Our copy of the text has lost the value below -rho. For even q this is continuous, falls on (-rho, 0), and has a
    slope that jumps from 0 to -1 at -rho.
    """
    power = jnp.clip(x, -rho, rho) ** q / (q * rho ** (q - 1))
    return jnp.where(x > rho, x - rho * (1 - 1 / q), power)


def smooth_relu_leaky(
    x: Float[Array, "*shape"], rho: Number, q: int, slope: Number, clip: Number
) -> Float[Array, "*shape"]:
    """Assumption B.2 made continuous: on the negative side x^2/2 down to -w, then slope -w, constant below -B."""
    bounded = jnp.maximum(x, -clip)
    negative = jnp.where(bounded > -slope, bounded**2 / 2, -slope * bounded - slope**2 / 2)
    return jnp.where(x > 0, smooth_relu(x, rho, q), negative)
