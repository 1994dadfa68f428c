"""From the weights after one step to the error after roll-out: concentration of the softmax, error recursion."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from stairwise.papers.parity_onestep.theory.census import Children


class Attention(NamedTuple):
    """Per node: softmax weights of the two children, the weight on all other tokens, and the logits' difference."""

    children: Float[np.ndarray, "nodes 2"]
    leak: Float[np.ndarray, " nodes"]
    difference: Float[np.ndarray, " nodes"]


def child_attention(
    W: Float[np.ndarray, "tokens nodes"], scores: Float[np.ndarray, "tokens nodes"], children: Children
) -> Attention:
    nodes = np.arange(len(children))[:, None]
    own, logits = scores[children, nodes], W[children, nodes]
    others = scores.copy()
    others[children, nodes] = 0.0
    return Attention(own, others.sum(axis=0), logits[:, 0] - logits[:, 1])


def child_scores(
    leak: Float[np.ndarray, " nodes"], difference: Float[np.ndarray, " nodes"]
) -> Float[np.ndarray, "nodes 2"]:
    """The attention of two children whose logits differ by Delta: (1 +- tanh(Delta/2)) (1 - leak)/2."""
    tilt = np.tanh(difference / 2)
    return np.stack([1 + tilt, 1 - tilt], axis=1) * (1 - leak)[:, None] / 2


def split_bound(attention: Attention) -> Float[np.ndarray, " nodes"]:
    """|s_c - 1/2| <= (|tanh(Delta/2)| + leak)/2 for both children, from the two logits and the leak alone."""
    return (np.abs(np.tanh(attention.difference / 2)) + attention.leak) / 2


def disturbance(attention: Attention) -> Float[np.ndarray, " nodes"]:
    """delta_m = leak + |s_c1 - 1/2| + |s_c2 - 1/2|: how far z can be from the mean of two correct children."""
    return attention.leak + np.abs(attention.children - 0.5).sum(axis=1)


def recursion_printed(delta: float, nodes: int, constant: float) -> float:
    """eps_m <= C2 (delta + eps_{m-1})^2 over the k-1 nodes from eps_d = 0; an error never exceeds 2."""
    error = 0.0
    for _ in range(nodes):
        error = min(2.0, constant * (delta + error) ** 2)
    return error


def recursion_by_tree(
    delta: Float[np.ndarray, " nodes"], children: Children, inputs: int, constant: float
) -> Float[np.ndarray, " nodes"]:
    """The same for each node from its own delta_m and the larger error of its own children."""
    errors = np.zeros(inputs + len(children))
    for i, pair in enumerate(children):
        errors[inputs + i] = min(2.0, constant * (delta[i] + errors[pair].max()) ** 2)
    return errors[inputs:]


def fixed_point(delta: float, constant: float) -> float | None:
    """The smaller solution of e = C2 (delta + e)^2, which the recursion never passes; none if delta > 1/(4 C2).

    >>> fixed_point(1 / 32, 8.0), fixed_point(1 / 31, 8.0)
    (0.03125, None)
    """
    discriminant = 1 - 4 * constant * delta
    if discriminant < 0:
        return None
    return (1 - 2 * constant * delta - math.sqrt(discriminant)) / (2 * constant)


def bits_for_leak(epsilon: float, constant: float = 1.0) -> float:
    """ln d from which d exp(-C d^(eps/16)) falls below 1: the larger solution of y = C e^(y eps/16).

    >>> round(bits_for_leak(1.0))
    67
    """
    rate = epsilon / 16
    low = math.log(1 / (constant * rate)) / rate  # where y - C e^(y rate) is largest
    if low <= constant * math.exp(low * rate):
        return 0.0
    high = 2 * low
    while high > constant * math.exp(high * rate):
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if middle > constant * math.exp(middle * rate) else (low, middle)
    return high
