"""Lemmas A.1 and A.2, Facts B.1 and C.2: the gradient of W on T^1, slot by slot and class by class.

On T^1 the input is half the sum of (x_1, g_1, x_0) and (x_0, y_0). A `Population` lists the examples with their tokens
and the quantities of one output position: P(j) = logit_j, sReLU'(Lambda_jr), 1{F_j < B}. Every formula is written
with the indicators of its lemma, as minus the gradient.
"""

from typing import NamedTuple

import numpy as np

from stairwise.papers.lego.theory.literal import Network, step_of


class ListedContexts(NamedTuple):
    """x1, g1, x0, y0, target: tokens (n,); logit, open (n, d); slope (n, d, m)."""

    x1: np.ndarray
    g1: np.ndarray
    x0: np.ndarray
    y0: np.ndarray
    target: np.ndarray
    logit: np.ndarray
    unclipped: np.ndarray
    slope: np.ndarray

    def mean(self, indicator: np.ndarray, j: int, gain: bool) -> np.ndarray:
        """E[(1 - logit_j) sReLU' 1{.}] or, without `gain`, E[logit_j sReLU' 1{.}], for every neuron of class j."""
        factor = (1 - self.logit[:, j]) if gain else self.logit[:, j]
        return np.mean((factor * self.unclipped[:, j] * indicator)[:, None] * self.slope[:, j], axis=0)


def population(network: Network, sentences: np.ndarray, position: int) -> ListedContexts:
    """The examples of T^1 (sentences of length 1) at one output position, as the paper counts from 1."""
    steps = [step_of(network, row[:2], 1, row[2]) for row in sentences]
    i = position - 1
    tokens = sentences[:, 0, 0], sentences[:, 0, 1], sentences[:, 0, 2], sentences[:, 1, 4], sentences[:, 2, i]
    shown = [np.stack([getattr(step, name)[i] for step in steps]) for name in ("logit", "unclipped", "slope")]
    return ListedContexts(*tokens, *shown)


# --- the variable token (position 4) ----------------------------------------------------------------------------------


def variable_class(seen: ListedContexts, j: int, slot: int, s: int) -> np.ndarray:
    """Lemma A.1: -<grad W_{4,j,r,slot}, e_s> for a variable j, all r; slots 1..5."""
    if slot == 1 and s == j:
        return seen.mean(seen.x1 == j, j, gain=True) / 2
    if slot == 1:
        return -seen.mean(seen.x1 == s, j, gain=False) / 2
    if slot in (3, 4) and s == j:
        return -seen.mean(seen.x0 == j, j, gain=False) / 2
    shown = {2: seen.g1, 3: seen.x0, 4: seen.x0, 5: seen.y0}[slot] == s
    hit = seen.x1 == j
    return (seen.mean(shown & hit, j, gain=True) - seen.mean(shown & ~hit, j, gain=False)) / 2


def other_class(seen: ListedContexts, j: int, slot: int, s: int) -> np.ndarray:
    """Lemma A.2: the same for a j that is no variable; every term is negative."""
    shown = {1: seen.x1, 2: seen.g1, 3: seen.x0, 4: seen.x0, 5: seen.y0}[slot] == s
    return -seen.mean(shown, j, gain=False) / 2


# --- the value token (position 5) -------------------------------------------------------------------------------------


def gain_and_loss(seen: ListedContexts, j: int, slot: int, s: int) -> tuple[np.ndarray, np.ndarray]:
    """Facts B.1 and C.2: Gamma+ on {the component s appears and the answer is j}, Gamma- where it appears otherwise.

    slot 2: g_1 = g and g_1(y_0) = j against g_1 = g and g_1(y_0) != j; slot 5: the same with y_0 = y. Where the action
    is free there is one other component that gives j; otherwise a fiber of them.
    """
    shown = {2: seen.g1, 5: seen.y0}[slot] == s
    hit = seen.target == j
    return seen.mean(shown & hit, j, gain=True), seen.mean(shown & ~hit, j, gain=False)
