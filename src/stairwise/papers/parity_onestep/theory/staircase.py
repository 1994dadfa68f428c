"""Theorem 7 in numbers: what one step adds at each level, before rounding, and the constants of its proof."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from stairwise.papers.parity_onestep.links import Link
from stairwise.papers.parity_onestep.theory.population import node_gradient, node_law
from stairwise.tasks.decomposition import Tree


class Update(NamedTuple):
    """The mean update of one node once its level is reached: its two children, and the extremes of all other entries."""

    level: int
    children: tuple[float, float]
    lowest_other: float
    highest_other: float

    def half_distance(self) -> float:
        """How far the nearer child weight is from a half-integer, where rounding tears children apart."""
        return min(abs(weight % 1 - 0.5) for weight in self.children)


def updates(tree: Tree, link: Link, eta: float) -> list[Update]:
    """-eta times the exact population gradient of every node with the block mask, lower levels solved."""
    children, before = np.asarray(tree.children), np.asarray(tree.nodes_before("block"))
    found = []
    for i, pair in enumerate(children):
        gradient = node_gradient(node_law(children, tree.slots, i, int(before[i])), link)
        others = np.delete(gradient, pair) if len(gradient) > 2 else np.zeros(1)
        one, two = -eta * gradient[pair]
        level = int(np.asarray(tree.height)[i])
        found.append(Update(level, (float(one), float(two)), -eta * float(others.max()), -eta * float(others.min())))
    return found


def level_constants(ends: Float[np.ndarray, " levels"], curvature: float, eta0: float) -> Float[np.ndarray, " some"]:
    """C_l = 2 c eta0 d^2/d_{l-1}^2 for l = 1..v, which lies in [c eta0/2, 2 c eta0]."""
    return 2 * curvature * eta0 * (ends[0] / ends[:-1]) ** 2


def level_constants_printed(
    ends: Float[np.ndarray, " levels"], curvature: float, eta0: float, epsilon: float
) -> Float[np.ndarray, " some"]:
    """As printed, with a factor d^(eps/16) that belongs to the weight C_l d^(eps/16) and not to C_l."""
    return level_constants(ends, curvature, eta0) * ends[0] ** (epsilon / 16)
