"""The gradient at W = 0 term by term, equations (7) to (10), on a data set and on average.

With z the mean of the V visible tokens, phi(z) = -1 + c z^2 + R4(z) and phi'(z) = 2cz + R3(z), the gradient
<phi(z)-x_m, phi'(z), x_j-z>/(nV) is the sum of

    (7)  -<x_m, 2cz, x_j-z>/(nV)          (8)  <-1+cz^2, 2cz, x_j-z>/(nV)
    (9)  <R4(z), 2cz, x_j-z>/(nV)         (10) <phi(z)-x_m, R3(z), x_j-z>/(nV).
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Integer

from stairwise.papers.parity_onestep.links import Link
from stairwise.papers.parity_onestep.theory.links import Remainders, on


def equation_6(
    tokens: Float[np.ndarray, "samples visible"],
    target: Float[np.ndarray, " samples"],
    weights: Float[np.ndarray, " visible"],
    link: Link,
) -> Float[np.ndarray, " visible"]:
    """dL/dw[j, m] = s_j <phi(z)-x_m, phi'(z), x_j-z>/n of one node at any weights w; s = softmax(w), z = s . x."""
    from scipy.special import softmax

    s = softmax(weights)
    z = tokens @ s
    A = (on(link.value, z) - target) * on(link.derivative, z)
    return s * (A @ tokens - A @ z) / len(tokens)


class Terms(NamedTuple):
    """Equations (7) to (10) for every visible token j."""

    seven: Float[np.ndarray, " visible"]
    eight: Float[np.ndarray, " visible"]
    nine: Float[np.ndarray, " visible"]
    ten: Float[np.ndarray, " visible"]

    @property
    def gradient(self) -> Float[np.ndarray, " visible"]:
        return self.seven + self.eight + self.nine + self.ten


def terms(
    tokens: Float[np.ndarray, "samples visible"],
    target: Float[np.ndarray, " samples"],
    link: Link,
    density: Float[np.ndarray, " samples"] | None = None,
) -> Terms:
    """The four terms of one node on a data set; the whole cube gives their population values.

    `density` weighs the samples, 1/n each unless it is given.
    """
    samples, visible = tokens.shape
    z, c = tokens.mean(axis=1), link.curvature
    value, slope = on(link.value, z), on(link.derivative, z)
    density = np.full(samples, 1 / samples) if density is None else density

    def contract(weights: np.ndarray) -> np.ndarray:
        weights = density * weights
        return (weights @ tokens - weights @ z) / visible

    return Terms(
        contract(-target * 2 * c * z),
        contract((-1 + c * z**2) * 2 * c * z),
        contract((value + 1 - c * z**2) * 2 * c * z),
        contract((value - target) * (slope - 2 * c * z)),
    )


def seven_mean(is_child: np.ndarray, curvature: float) -> Float[np.ndarray, " visible"]:
    """E (7) = -(2c/V^2) 1{j child of m} + 4c/V^3, exactly: two of the triples are trivial."""
    visible = len(is_child)
    return -2 * curvature / visible**2 * is_child + 4 * curvature / visible**3


def eight_mean(
    quadruples: int, holding: Integer[np.ndarray, " visible"], curvature: float
) -> Float[np.ndarray, " visible"]:
    """E (8) = (12 c^2/V^4)(q_j - 4q/V), exactly, q trivial sets of four tokens among the visible, q_j of them with j.

    All pairs cancel, so the printed O(d^(-2-eps/4)) is O(d^-4) on average; at the first node it is 0.
    """
    visible = len(holding)
    return 12 * curvature**2 / visible**4 * (holding - 4 * quadruples / visible)


def seven_fluctuation(kappa: float, curvature: float, visible: int) -> float:
    """|(7) - E (7)| <= 4 c kappa/V on the event of Lemma 9."""
    return 4 * curvature * kappa / visible


def eight_fluctuation(kappa: float, curvature: float, visible: int) -> float:
    """|(8) - E (8)| <= (4 c + 4 c^2) kappa/V there: two second-order and two fourth-order averages."""
    return (4 * curvature + 4 * curvature**2) * kappa / visible


def fourth_moment_bound(tuples: int, kappa: float, visible: int) -> float:
    """<z^4>/n <= (trivial 4-tuples)/V^4 + kappa."""
    return tuples / visible**4 + kappa


def nine_bound(fourth_moment: float, rest: Remainders, curvature: float, visible: int) -> float:
    """|(9)| <= 4 c sup|R4/z^4| (<z^4>/n)/V, with |z| <= 1 and |x_j - z| <= 2."""
    return 4 * curvature * rest.fourth * fourth_moment / visible


def ten_bound(second_moment: float, fourth_moment: float, rest: Remainders, visible: int) -> float:
    """|(10)| <= 4 sup|R3/z^3| (<|z|^3>/n)/V, and <|z|^3>/n <= ((<z^2>/n)(<z^4>/n))^(1/2)."""
    return 4 * rest.third * math.sqrt(second_moment * fourth_moment) / visible
