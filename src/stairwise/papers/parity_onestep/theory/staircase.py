"""Theorem 7 in numbers: what one step adds at each level, before rounding, and the constants of its proof."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from stairwise.papers.parity_onestep.links import Link
from stairwise.papers.parity_onestep.theory.population import node_gradient, node_law, node_spread, subtree
from stairwise.tasks.decomposition import Tree


class Update(NamedTuple):
    """The update of one node once its level is reached: means and standard deviations, before rounding.

    children    means of the two child weights
    others      the lowest and the highest mean of all other entries
    common      deviation of the children's mean weight
    difference  deviation of their difference
    entry       the largest deviation of another entry
    """

    level: int
    children: tuple[float, float]
    others: tuple[float, float]
    common: float
    difference: float
    entry: float

    def to_the_next_rounding(self, spacing: float = 1.0) -> float:
        """How far the nearer child weight is from half a spacing, where it rounds to another value."""
        return min(abs((weight / spacing) % 1 - 0.5) * spacing for weight in self.children)

    def torn_chance(self, spacing: float = 1.0) -> float:
        """About the chance that the two children round to different values.

        A rounding point lies between them: its distance from their mean is below half of their difference.
        """
        far = self.to_the_next_rounding(spacing)
        apart = abs(self.children[0] - self.children[1]) + math.sqrt(2 / math.pi) * self.difference
        if self.common == 0:
            return float(far < apart / 2)
        density = math.exp(-((far / self.common) ** 2) / 2) / (math.sqrt(2 * math.pi) * self.common)
        return min(1.0, density * apart)


def updates(tree: Tree, link: Link, eta: float, samples: int) -> list[Update]:
    """-eta times the gradient of every node on n samples with the block mask, when lower levels are solved."""
    children, heights, ends = np.asarray(tree.children), np.asarray(tree.height), tree.level_ends()
    scale, found, known = eta / math.sqrt(samples), [], {}
    for i, pair in enumerate(children):
        level = int(heights[i])
        kind = (level, *(subtree(int(child), children, tree.slots, None) for child in pair))
        if kind in known:  # nodes of one level with equal subtrees have equal laws
            found.append(known[kind])
            continue
        law = node_law(children, tree.slots, i, int(ends[level - 1]) - tree.slots)
        gradient, spread = node_gradient(law, link), node_spread(law, link, (int(pair[0]), int(pair[1])))
        others, noise = (np.delete(part, pair) if law.visible > 2 else np.zeros(1) for part in (gradient, spread.entry))
        known[kind] = Update(
            level,
            (-eta * float(gradient[pair[0]]), -eta * float(gradient[pair[1]])),
            (-eta * float(others.max()), -eta * float(others.min())),
            scale * spread.common,
            scale * spread.difference,
            scale * float(noise.max()),
        )
        found.append(known[kind])
    return found


def level_constants(ends: Float[np.ndarray, " levels"], curvature: float, eta0: float) -> Float[np.ndarray, " some"]:
    """C_l = 2 c eta0 d^2/d_{l-1}^2 for l = 1..v, which lies in [c eta0/2, 2 c eta0]."""
    return 2 * curvature * eta0 * (ends[0] / ends[:-1]) ** 2


def level_constants_printed(
    ends: Float[np.ndarray, " levels"], curvature: float, eta0: float, epsilon: float
) -> Float[np.ndarray, " some"]:
    """As printed, with a factor d^(eps/16) that belongs to the weight C_l d^(eps/16) and not to C_l."""
    return level_constants(ends, curvature, eta0) * ends[0] ** (epsilon / 16)
