"""Link functions phi: [-1, 1] -> [-1, 1] that turn the mean of two signs into their product, phi((a+b)/2) = ab.

All are even with phi(0) = -1, phi(+-1) = 1 and phi' = 0 there. Near 0, phi = -1 + c t^2 + ..., near +-1,
phi = 1 - c1 (1-|t|)^2 + ..., and K = sup |phi'| must exceed 2.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

LINKS = ("poly4", "cos", "requ")
Function = Callable[[Float[Array, "*shape"]], Float[Array, "*shape"]]


class Link(NamedTuple):
    """phi with its derivative and its constants c, c1 and K."""

    name: str
    value: Function
    derivative: Function
    curvature: float
    end_curvature: float
    steepest: float

    def __call__(self, t: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return self.value(t)


POLY4 = Link(
    name="poly4",
    value=lambda t: -1 + 4 * t**2 - 2 * t**4,
    derivative=lambda t: 8 * t - 8 * t**3,
    curvature=4.0,
    end_curvature=8.0,
    steepest=16 / (3 * math.sqrt(3)),
)
COS = Link(
    name="cos",
    value=lambda t: -jnp.cos(math.pi * t),
    derivative=lambda t: math.pi * jnp.sin(math.pi * t),
    curvature=math.pi**2 / 2,
    end_curvature=math.pi**2 / 2,
    steepest=math.pi,
)


@cache
def requ(slope: float) -> Link:
    """Quadratic near 0 and +-1, straight with slope s between: six ReQU units R(u) = max(u, 0)^2 and a bias.

    phi = -1 + c (t^2 - R(|t|-a) - R(|t|-1+a)) with a = 1 - 2/s and c = c1 = s^2 / (2(s-2)), for 2 < s <= 4. It is C^1
    only, and c is the effective curvature only while |t| < a.
    """
    if not 2 < slope <= 4:
        raise ValueError(f"slope={slope:g} must be above 2 and at most 4 (requ)")
    corner, curvature = 1 - 2 / slope, slope**2 / (2 * (slope - 2))

    def value(t):
        bent = jnp.maximum(jnp.abs(t) - corner, 0) ** 2 + jnp.maximum(jnp.abs(t) - 1 + corner, 0) ** 2
        return -1 + curvature * (t**2 - bent)

    def derivative(t):
        size = jnp.abs(t)
        bent = jnp.maximum(size - corner, 0) + jnp.maximum(size - 1 + corner, 0)
        return 2 * curvature * jnp.sign(t) * (size - bent)

    return Link(f"requ({slope:g})", value, derivative, curvature, curvature, slope)


def make_link(name: str, slope: float = 4.0) -> Link:
    """The link of a config; `slope` is that of the ReQU link.

    >>> make_link("requ", 2.5).curvature
    6.25
    """
    if name not in LINKS:
        raise ValueError(f"link={name} must be one of {', '.join(LINKS)}")
    return {"poly4": lambda: POLY4, "cos": lambda: COS, "requ": lambda: requ(float(slope))}[name]()
