"""Definition 3.5 and the paper's notation to the letter: clauses in R^{5d}, Q a 5d x 5d matrix. NumPy, no gathers.

A `Step` holds what equations (13), (22), (23) name at one context Z^{L,l-1}: attention, Lambda, sReLU', logit.
"""

from typing import NamedTuple

import numpy as np

from stairwise.papers.lego.model import ClauseTransformer, FullScores, SparseScores
from stairwise.papers.lego.task import BLANK, SLOTS


class Network(NamedTuple):
    """W (positions, classes, neurons, 5d), Q (5d, 5d) and the constants."""

    weights: np.ndarray
    scores: np.ndarray
    bias: float
    clip: float
    rho: float
    q: int

    @property
    def tokens(self) -> int:
        return self.weights.shape[1]


def network_of(model: ClauseTransformer) -> Network:
    """The same network with its matrices written out."""
    side = SLOTS * model.tokens
    weights = np.moveaxis(np.asarray(model.weights), (2, 3, 4), (0, 1, 2)).reshape(*model.weights.shape[2:], side)
    constants = float(model.bias), float(model.clip), float(model.rho)
    return Network(weights, _blocks(model.scores).reshape(side, side), *constants, model.q)


def _blocks(scores: SparseScores | FullScores) -> np.ndarray:
    """Q as (5, d, 5, d)."""
    if isinstance(scores, FullScores):
        return np.asarray(scores.blocks)
    tokens = scores.predicate.shape[0]
    made = np.zeros((SLOTS, tokens, SLOTS, tokens))
    made[3, :, 2], made[3, :, 3] = scores.predicate, scores.answer
    return made


def embed(clauses: np.ndarray, tokens: int) -> np.ndarray:
    """Definition 3.3: (n, 5) token ids as rows of R^{5d}, the blank as the zero vector."""
    hot = (np.asarray(clauses)[..., None] == np.arange(tokens)) & (np.arange(tokens) != BLANK)
    return hot.reshape(len(clauses), SLOTS * tokens).astype(np.float64)


class Step(NamedTuple):
    """One prediction: `clauses` asks for `target` (its tokens at the predicted positions).

    Z (n, 5d), attention (n,), read = <W, Z_k> (n, positions, classes, neurons), lam = Lambda, slope = sReLU'(Lambda),
    logit = softmax F, unclipped = 1{F < B}
    """

    clauses: np.ndarray
    predicates: int
    target: np.ndarray
    Z: np.ndarray
    attention: np.ndarray
    read: np.ndarray
    lam: np.ndarray
    slope: np.ndarray
    F: np.ndarray
    logit: np.ndarray
    unclipped: np.ndarray


def activation(x: np.ndarray, rho: float, q: int) -> np.ndarray:
    low = np.clip(x, 0, rho)
    return low**q / (q * rho ** (q - 1)) + np.maximum(x - rho, 0)


def slope(x: np.ndarray, rho: float, q: int) -> np.ndarray:
    return (np.clip(x, 0, rho) / rho) ** (q - 1)


def softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def step_of(network: Network, clauses: np.ndarray, predicates: int, target: np.ndarray) -> Step:
    """Everything the paper names at the context `clauses`, whose last clause asks."""
    clauses = np.asarray(clauses)
    Z = embed(clauses, network.tokens)
    attention = softmax(Z[-1] @ network.scores @ Z.T)
    read = np.moveaxis(network.weights @ Z.T, -1, 0)
    lam = np.tensordot(attention, read, axes=1) + network.bias
    raw = activation(lam, network.rho, network.q).sum(axis=-1)
    F = np.minimum(raw, network.clip)
    shown = slope(lam, network.rho, network.q), F, softmax(F), raw < network.clip
    return Step(clauses, predicates, np.asarray(target), Z, attention, read, lam, *shown)


def error(step: Step, clip: bool = True) -> np.ndarray:
    """E_{ij} = 1{target_i = j} - logit_{ij} (22); with 1{F < B}, which the paper leaves out, if `clip`."""
    plain = (step.target[:, None] == np.arange(step.logit.shape[-1])) - step.logit
    return plain * step.unclipped if clip else plain
