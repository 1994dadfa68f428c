"""The theory's transformer as Definition 3.5 writes it: clauses in R^{5d}, a 5d x 5d matrix Q, no gathers."""

import numpy as np

from stairwise.papers.lego.model import ClauseTransformer, FullScores, SparseScores


def embed(clauses: np.ndarray, tokens: int) -> np.ndarray:
    """(n, 5) token ids to (n, 5d): one-hot blocks, the blank (token 0) as the zero vector."""
    made = np.zeros((len(clauses), 5, tokens))
    for row, clause in enumerate(clauses):
        for slot, token in enumerate(clause):
            if token != 0:
                made[row, slot, token] = 1.0
    return made.reshape(len(clauses), 5 * tokens)


def query_matrix(scores: SparseScores | FullScores) -> np.ndarray:
    """Q as one 5d x 5d matrix."""
    if isinstance(scores, FullScores):
        tokens = scores.blocks.shape[1]
        return np.asarray(scores.blocks).reshape(5 * tokens, 5 * tokens)
    tokens = scores.predicate.shape[0]
    made = np.zeros((5 * tokens, 5 * tokens))
    made[3 * tokens : 4 * tokens, 2 * tokens : 3 * tokens] = scores.predicate
    made[3 * tokens : 4 * tokens, 3 * tokens : 4 * tokens] = scores.answer
    return made


def attention(model: ClauseTransformer, clauses: np.ndarray) -> np.ndarray:
    Z = embed(clauses, model.tokens)
    exponents = Z @ query_matrix(model.scores).T @ Z[-1]
    weights = np.exp(exponents - exponents.max())
    return weights / weights.sum()


def neurons(model: ClauseTransformer) -> np.ndarray:
    """W as (positions, classes, neurons, 5d)."""
    W = np.asarray(model.weights)
    return np.moveaxis(W, (2, 3, 4), (0, 1, 2)).reshape(*W.shape[2:], 5 * model.tokens)


def smooth_relu(x: float, rho: float, q: int) -> float:
    if x <= 0:
        return 0.0
    return x**q / (q * rho ** (q - 1)) if x <= rho else x - rho * (1 - 1 / q)


def logits(model: ClauseTransformer, clauses: np.ndarray) -> np.ndarray:
    """F (positions, classes)."""
    X = attention(model, clauses) @ embed(clauses, model.tokens)
    pre = neurons(model) @ X + float(model.bias)
    raw = np.vectorize(lambda x: smooth_relu(x, float(model.rho), model.q))(pre).sum(axis=-1)
    return np.minimum(raw, float(model.clip))


def probabilities(model: ClauseTransformer, clauses: np.ndarray) -> np.ndarray:
    exponents = np.exp(logits(model, clauses))
    return exponents / exponents.sum(axis=-1, keepdims=True)
