"""What the proofs need of a link function phi beyond its constants c, c1 and K."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from stairwise.papers.parity_onestep.links import Link

POINTS = 200_001  # of the grid on which suprema are taken
NEAR_ONE = 1e-4  # as close as quotients by (1-t)^2 come to 1; closer they are lost to rounding


def grid(link: Link) -> Float[np.ndarray, " points"]:
    """[1/100, 1] finely; closer to 0 the quotients below are lost to rounding.

    But for a link that bends sooner, at t = K/2c, where c t^2 is as steep as it ever gets: then from there on.
    """
    bend = link.steepest / (2 * link.curvature)
    coarse = np.linspace(1e-2, 1, POINTS)
    return coarse if bend >= 1e-2 else np.concatenate([np.geomspace(bend, 1e-2, POINTS, endpoint=False), coarse])


def on(function: Callable[..., Any], t: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """phi or phi' at the entries of a NumPy array, which is padded so that few shapes are ever compiled."""
    padded = np.zeros(1 << (t.size - 1).bit_length())
    padded[: t.size] = t.reshape(-1)
    return np.asarray(function(padded), dtype=np.float64)[: t.size].reshape(t.shape)


def requ_units(t: Float[np.ndarray, "*shape"], slope: float) -> Float[np.ndarray, "*shape"]:
    """The link with slope s as a bias and six ReQU neurons R(u) = max(u, 0)^2, each of an affine function of t.

    t^2 = R(t) + R(-t), and R(|t|-b) = R(t-b) + R(-t-b) for b >= 0.
    """
    corner, c = 1 - 2 / slope, slope**2 / (2 * (slope - 2))
    neurons = ((1, 0.0, c), (-1, 0.0, c))
    for bend in (corner, 1 - corner):
        neurons += ((1, -bend, -c), (-1, -bend, -c))
    outputs = [weight * np.maximum(sign * t + shift, 0) ** 2 for sign, shift, weight in neurons]
    return -1 + np.sum(outputs, axis=0)


def requ_pieces(t: Float[np.ndarray, "*shape"], slope: float) -> Float[np.ndarray, "*shape"]:
    """The same by pieces: a parabola at 0, a straight line of slope s, a parabola at 1."""
    size, corner, c = np.abs(t), 1 - 2 / slope, slope**2 / (2 * (slope - 2))
    line = -1 + c * corner**2 + slope * (size - corner)
    return np.where(size <= corner, -1 + c * size**2, np.where(size <= 1 - corner, line, 1 - c * (1 - size) ** 2))


class Remainders(NamedTuple):
    """sup |phi(t) + 1 - c t^2| / t^4 and sup |phi'(t) - 2ct| / |t|^3 over [-1, 1]: the O() of terms (9) and (10)."""

    fourth: float
    third: float


def remainders(link: Link) -> Remainders:
    t, c = grid(link), link.curvature
    return Remainders(
        float(np.max(np.abs(on(link.value, t) + 1 - c * t**2) / t**4)),
        float(np.max(np.abs(on(link.derivative, t) - 2 * c * t) / t**3)),
    )


def error_constant(link: Link) -> float:
    """The smallest C2 with |phi(z) - phi(z0)| <= C2 (z - z0)^2 for z0 in {0, +-1} and all z; it is max(c, c1)."""
    t = grid(link)
    t = t[t < 1 - NEAR_ONE]
    value = on(link.value, t)
    return float(max(np.max((value + 1) / t**2), np.max((1 - value) / (1 - t) ** 2)))


def steepest(link: Link) -> float:
    """K = sup |phi'| on the grid."""
    return float(np.max(np.abs(on(link.derivative, grid(link)))))


class Node(NamedTuple):
    """The largest gradient norm that one node can have at +-1 tokens, and the z where it has it."""

    norm: float
    z: float


def sharp_node_gradient(link: Link) -> Node:
    """max_z |phi'(z)| (1-z^2)/sqrt 2: sum_j s_j^2 (x_j-z)^2 is largest when each sign has one token."""
    t = grid(link)
    values = np.abs(on(link.derivative, t)) * (1 - t**2) / np.sqrt(2)
    best = int(np.argmax(values))
    return Node(float(values[best]), float(t[best]))
