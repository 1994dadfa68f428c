"""How far one step on n samples is from the population step: the law of the gradient's noise, and what it costs.

The paper bounds the noise uniformly (Lemma 9); here are its leading-order standard deviations in units of the signal
2c/V^2. `population.node_spread` has the exact ones.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Integer


class Law(NamedTuple):
    """Standard deviations over the signal 2c/V^2: of an entry off the children, of their mean, of their difference."""

    other: float
    common: float
    difference: float


def leading_law(visible: int, samples: int, curvature: float) -> Law:
    """sqrt(2V/n) for the first two, and sqrt(120) c / (2 sqrt(nV)) for the difference of the two children.

    The difference is smaller by a factor of order 1/V because the residual phi(z)-x_m vanishes to order z^2 wherever
    the children disagree.
    """
    entry = math.sqrt(2 * visible / samples)
    return Law(entry, entry, math.sqrt(120) * curvature / (2 * math.sqrt(samples * visible)))


def support_samples(visible: int, nodes: int) -> float:
    """The n from which the two largest weights of all nodes are those of their children, to leading order.

    In units of the signal a child stands 1 above the others, all with noise s = sqrt(2V/n). The largest of N normals is
    about sqrt(2 ln N): with N = 2 x nodes children below and N = V x nodes others above, 1 = s (sqrt(2 ln(2 nodes)) +
    sqrt(2 ln(V nodes))).
    """
    deviations = math.sqrt(2 * math.log(2 * nodes)) + math.sqrt(2 * math.log(visible * nodes))
    return 2 * visible * deviations**2


def imbalance_error(curvature: float, difference: float) -> float:
    """c tanh^2(Delta/2): the error of a node whose children disagree and whose two logits differ by Delta."""
    return curvature * math.tanh(difference / 2) ** 2


def rolled_error(
    curvature: float, difference: Float[np.ndarray, " nodes"], children: Integer[np.ndarray, "nodes 2"], inputs: int
) -> Float[np.ndarray, " nodes"]:
    """The same with the errors that children bring along: e_m = c max((t + e_2/2)^2, (t - e_1/2)^2), t = tanh(Delta/2).

    A node is wrong where its children disagree, and then its output lies above -1 by e: if the second child is the one
    that is -1, z = s_1 - s_2 + s_2 e_2, and if the first one is, z = s_2 - s_1 + s_1 e_1. Errors of nodes that are +1
    are of higher order.
    """
    errors = np.zeros(inputs + len(children))
    for i, (one, two) in enumerate(children.tolist()):
        t = np.tanh(difference[i] / 2)
        errors[inputs + i] = curvature * max((t + errors[two] / 2) ** 2, (t - errors[one] / 2) ** 2)
    return errors[inputs:]


def leakage(visible: int, lam: float) -> float:
    """The softmax weight off the children when they have logit lam and all others 0.

    >>> round(leakage(2, 1.0), 12)
    0.0
    """
    others = (visible - 2) * math.exp(-lam)
    return others / (others + 2)
