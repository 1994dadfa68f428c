"""Exact population gradients at W = 0, where every node sees the plain mean z of its visible tokens.

At the first node all visible tokens are independent bits, and closed forms exist. At any other node they are bits and
the products that a forest of subtrees makes of them; the joint law of (sum of the visible tokens, value of node m,
value of one visible token) is then a convolution over the forest, exact for every d and k and both masks.
"""

import math
from collections import Counter
from functools import lru_cache, reduce
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Integer

from stairwise.papers.parity_onestep.links import Link
from stairwise.papers.parity_onestep.theory.census import Children
from stairwise.papers.parity_onestep.theory.links import on

# --- the first node ---------------------------------------------------------------------------------------------------


class First(NamedTuple):
    """Gradient entries of a node that sees d independent bits: at its two children, and at every other input."""

    child: float
    other: float


def first_node_poly4(bits: int) -> First:
    """child -(8/d^2)(1 - 5/d + 14/d^2 - 16/d^3), other (16/d^3)(1 - 3/d + 8/d^2).

    >>> first_node_poly4(8)
    First(child=-0.0703125, other=0.0234375)
    """
    d = bits
    return First(-8 / d**2 * (1 - 5 / d + 14 / d**2 - 16 / d**3), 16 / d**3 * (1 - 3 / d + 8 / d**2))


def first_node_cos(bits: int) -> First:
    """With s = sin(pi/d), q = cos(pi/d), b = (2 s q^(d-1) - (d-2) s^3 q^(d-3))/d:

    child -(pi/d)(s q^(d-1) - b), other (pi/d)(s^3 q^(d-3) + b).
    """
    d, s, q = bits, math.sin(math.pi / bits), math.cos(math.pi / bits)
    far = s**3 * q ** (d - 3) if d > 2 else 0.0  # with two bits there is no other input
    b = (2 * s * q ** (d - 1) - (d - 2) * far) / d
    return First(-math.pi / d * (s * q ** (d - 1) - b), math.pi / d * (far + b))


def leading(link: Link, visible: int) -> float:
    """The paper's leading term at a child, -2c/V^2."""
    return -2 * link.curvature / visible**2


# --- laws of sums over a forest ---------------------------------------------------------------------------------------

# A shape is (marked, subshapes): a leaf has none, a node two. Its law is a pair of arrays over the sum of its tokens,
# one for each value of its root; a marked token contributes its own value as a factor, which gives E[x_j; sum, root].
Shape = tuple[bool, tuple]
LEAF: Shape = (False, ())


@lru_cache(maxsize=65536)
def shape_law(shape: Shape) -> tuple[np.ndarray, np.ndarray]:
    """(law of the sum where the root is 1, where it is -1); a sum s stands at index s + number of tokens."""
    marked, below = shape
    if below:
        (left_up, left_down), (right_up, right_down) = (shape_law(part) for part in below)
        same = np.convolve(left_up, right_up) + np.convolve(left_down, right_down)
        opposite = np.convolve(left_up, right_down) + np.convolve(left_down, right_up)
    else:
        same = opposite = np.array([0.5])
    up, down = np.concatenate([[0, 0], same]), np.concatenate([opposite, [0, 0]])
    return up, -down if marked else down


def total(shape: Shape) -> Float[np.ndarray, " sums"]:
    up, down = shape_law(shape)
    return up + down


@lru_cache(maxsize=4096)
def sum_law(shapes: tuple[tuple[Shape, int], ...]) -> Float[np.ndarray, " sums"]:
    """The law of the sum over independent trees, given as (shape, how many)."""
    factors = [total(shape) for shape, count in shapes for _ in range(count)]
    return reduce(np.convolve, factors, np.ones(1))


class NodeLaw(NamedTuple):
    """All that the gradient of one node depends on.

    z           the values that the mean of the V visible tokens can take
    chance      P(z)
    product     E[x_m; z]
    kind        the kind of each visible token; tokens of one kind have one gradient
    with_token  E[x_j; z] of each kind
    with_both   E[x_m x_j; z] of each kind
    """

    z: Float[np.ndarray, " sums"]
    chance: Float[np.ndarray, " sums"]
    product: Float[np.ndarray, " sums"]
    kind: Integer[np.ndarray, " visible"]
    with_token: Float[np.ndarray, "kinds sums"]
    with_both: Float[np.ndarray, "kinds sums"]

    @property
    def visible(self) -> int:
        return len(self.kind)


def node_law(children: Children, inputs: int, node: int, visible_nodes: int) -> NodeLaw:
    """The law of internal node `node` (counted from the first), which sees the inputs and the first `visible_nodes`."""
    visible = inputs + visible_nodes
    parent = {int(child): inputs + i for i in range(visible_nodes) for child in children[i]}
    own = {int(child) for child in children[node]}
    roots = [j for j in range(visible) if j not in parent]
    shapes = {root: subtree(root, children, inputs, None) for root in roots}
    others = Counter(shapes[root] for root in roots if root not in own)
    pair = tuple(shapes[root] for root in sorted(own))

    def laws(others, pair):
        rest = sum_law(tuple(sorted(others.items(), key=repr)))
        (one_up, one_down), (two_up, two_down) = (shape_law(shape) for shape in pair)
        together = np.convolve(one_up + one_down, two_up + two_down)
        multiplied = np.convolve(one_up - one_down, two_up - two_down)
        return np.convolve(rest, together), np.convolve(rest, multiplied)

    kinds: dict[tuple, int] = {}
    kind, rows = [], []
    for token in range(visible):
        root = token
        while root in parent:
            root = parent[root]
        marked = subtree(root, children, inputs, token)
        key = (root in own, marked)
        if key not in kinds:
            kinds[key] = len(kinds)
            if root in own:
                sibling = next(shapes[other] for other in own if other != root)
                rows.append(laws(others, (marked, sibling)))
            else:
                rows.append(laws(others - Counter([shapes[root]]) + Counter([marked]), pair))
        kind.append(kinds[key])
    chance, product = laws(others, pair)
    with_token, with_both = (np.array(part) for part in zip(*rows, strict=True))
    z = np.arange(-visible, visible + 1) / visible
    return NodeLaw(z, chance, product, np.array(kind), with_token, with_both)


def subtree(token: int, children: Children, inputs: int, marked: int | None) -> Shape:
    """The subtree under a token; the two parts are put in a fixed order, so that equal subtrees are equal keys."""
    if token < inputs:
        return (token == marked, ())
    below = (subtree(int(child), children, inputs, marked) for child in children[token - inputs])
    return (token == marked, tuple(sorted(below, key=repr)))


def expect(
    law: NodeLaw, plain: Float[np.ndarray, " sums"], with_product: Float[np.ndarray, " sums"]
) -> tuple[float, Float[np.ndarray, " visible"]]:
    """E[F] and E[F x_j] of every visible j, for F = plain(z) + with_product(z) x_m."""
    mean = float(law.chance @ plain + law.product @ with_product)
    return mean, (law.with_token @ plain + law.with_both @ with_product)[law.kind]


def node_gradient(law: NodeLaw, link: Link) -> Float[np.ndarray, " visible"]:
    """dL/dw[j, m] at W = 0 for every visible j: E[(phi(z)-x_m) phi'(z) (x_j-z)] / V."""
    value, slope = _on(link, law.z)
    _, with_token = expect(law, value * slope, -slope)
    mean, _ = expect(law, value * slope * law.z, -slope * law.z)
    return (with_token - mean) / law.visible


def node_loss(law: NodeLaw, link: Link) -> float:
    """E(phi(z)-x_m)^2 / 2 at W = 0."""
    value, _ = _on(link, law.z)
    return expect(law, (value**2 + 1) / 2, -value)[0]


class Spread(NamedTuple):
    """Standard deviations of one sample's gradient: of every entry, of the children's mean, of their difference."""

    entry: Float[np.ndarray, " visible"]
    common: float
    difference: float


def node_spread(law: NodeLaw, link: Link, own: tuple[int, int]) -> Spread:
    """The exact noise of dL/dw[., m] at W = 0; n samples divide it by sqrt n. `own` are the two children of m."""
    (value, slope), z = _on(link, law.z), law.z
    plain, with_product = slope**2 * (value**2 + 1), -2 * slope**2 * value  # the square of (phi - x_m) phi'
    square, _ = expect(law, plain, with_product)
    around, _ = expect(law, plain * z**2, with_product * z**2)
    _, crossed = expect(law, plain * z, with_product * z)
    flipped, _ = expect(law, with_product, plain)  # times x_m = x_c1 x_c2
    gradient = node_gradient(law, link)
    one, two = own
    second = (square - 2 * crossed + around) / law.visible**2
    common = ((square + flipped) / 2 - crossed[one] - crossed[two] + around) / law.visible**2
    difference = 2 * (square - flipped) / law.visible**2
    return Spread(
        np.sqrt(np.maximum(second - gradient**2, 0)),
        math.sqrt(max(common - (gradient[one] + gradient[two]) ** 2 / 4, 0)),
        math.sqrt(max(difference - (gradient[one] - gradient[two]) ** 2, 0)),
    )


def _on(link: Link, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return on(link.value, z), on(link.derivative, z)
