"""The model's exact population losses, by enumeration of subsets, encodings and token nodes.

While attention does not depend on the tokens (zero token rows of W), loss and gradients are polynomials of degree at
most three in the Gaussian tokens; the 2n nodes +-sqrt(n) e_i, equally weighted, integrate those exactly.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stairwise.measure.population import Enumeration, subsets, uniform
from stairwise.papers.selection.config import Task
from stairwise.papers.selection.model import SelectionAttention
from stairwise.papers.selection.theory.encodings import Law, subset_encodings


class Query(NamedTuple):
    """A subset y as its indicator Y, and its encoding e_y under every set of encodings."""

    members: Float[Array | np.ndarray, "*n length"]
    encoded: Float[Array | np.ndarray, "*n encodings width"]


Tokens = Float[Array | np.ndarray, "nodes length token"]
Loss = Callable[[SelectionAttention, Query], Float[Array, ""]]


def spherical_nodes(dimensions: int) -> Enumeration:
    """The nodes +-sqrt(n) e_i: E[p(x)] for x ~ N(0, I_n) and any polynomial p of degree at most 3.

    >>> space = spherical_nodes(4)
    >>> float(space.weights @ space.examples[:, 0] ** 2)
    1.0
    """
    return uniform(math.sqrt(dimensions) * np.concatenate([np.eye(dimensions), -np.eye(dimensions)]))


def token_nodes(task: Task) -> Float[np.ndarray, "nodes length token"]:
    """Equally weighted tokens that stand for Gaussian ones."""
    return spherical_nodes(task.length * task.width).examples.reshape(-1, task.length, task.width)


def queries(task: Task, law: Law) -> Query:
    """Every subset of the task."""
    chosen = np.asarray(subsets(task.length, task.sparsity), dtype=np.int64)
    members = np.zeros((len(chosen), task.length))
    np.put_along_axis(members, chosen, 1.0, axis=1)
    return Query(members, subset_encodings(law, chosen).swapaxes(0, 1))


def attentions(task: Task, law: Law, block: Float[np.ndarray, "width width"]) -> tuple[np.ndarray, np.ndarray]:
    """Y of every subset (subsets, T), and softmax(E^T block e_y) under every E (encodings, subsets, T)."""
    query = queries(task, law)
    scores = np.einsum("ntw,wv,snv->nst", law, block, query.encoded, optimize=True)
    S = np.exp(scores - scores.max(axis=2, keepdims=True))
    return np.asarray(query.members), S / S.sum(axis=2, keepdims=True)


def distance(task: Task, alpha: float, law: Law, block: Float[np.ndarray, "width width"]) -> float:
    """Lemmas D.2 and E.3: (d/2) E_y ||Y/q - alpha E_E S_y||^2, the loss for V = alpha [I 0] and W = diag(0, block)."""
    members, S = attentions(task, law, block)
    return float(task.width / 2 * ((members / task.sparsity - alpha * S.mean(axis=0)) ** 2).sum(axis=1).mean())


def output_averaged(tokens: Tokens, law: Law, query_token: Float[np.ndarray, " token"]) -> Loss:
    """(1/2)||STS_q - E_E f||^2 for one query (Definition 2.5), averaged over the tokens.

    With a single set of encodings it is the plain loss.
    """
    return _averaged(tokens, law, query_token, lambda target, outputs: _half_square(target - outputs.mean(axis=0)))


def loss_averaged(tokens: Tokens, law: Law, query_token: Float[np.ndarray, " token"]) -> Loss:
    """E_E (1/2)||STS_q - f||^2 for one query, averaged over the tokens: what one E per step minimises."""
    return _averaged(
        tokens, law, query_token, lambda target, outputs: jnp.mean(jax.vmap(_half_square)(target - outputs))
    )


def _averaged(tokens: Tokens, law: Law, query_token: Float[np.ndarray, " token"], cost: Callable) -> Loss:
    def of_query(model: SelectionAttention, query: Query) -> Float[Array, ""]:
        def of_tokens(X):
            target = query.members @ X / query.members.sum()
            output = lambda E, e_y: model(X, E, jnp.concatenate([query_token, e_y]))  # noqa: E731
            return cost(target, jax.vmap(output)(law, query.encoded))

        return jnp.mean(jax.vmap(of_tokens)(tokens))

    return of_query


def _half_square(residual: Float[Array, " token"]) -> Float[Array, ""]:
    return jnp.sum(residual**2) / 2


def one_hot_law(length: int) -> Law:
    """The one set of one-hot encodings."""
    return np.eye(length)[None]


def one_hot_model(task: Task, alpha: float, C: float) -> SelectionAttention:
    """W = C (I - 11^T/T) in the position block, V = alpha [I 0]."""
    T = task.length
    return position_model(C * (np.eye(T) - np.ones((T, T)) / T), alpha * np.eye(task.width, task.width + T))


def stochastic_model(task: Task, encoding_width: int, alpha: float, C: float) -> SelectionAttention:
    """W = C diag(0, I), V = alpha [I 0]."""
    return position_model(C * np.eye(encoding_width), alpha * np.eye(task.width, task.width + encoding_width))


def position_model(block: Float[np.ndarray, "width width"], V: Float[np.ndarray, "token joint"]) -> SelectionAttention:
    """The model whose attention sees positions only: W = diag(0, block)."""
    W = np.zeros((V.shape[1], V.shape[1]))
    W[len(V) :, len(V) :] = block
    dtype = jnp.result_type(float)
    return SelectionAttention(W=jnp.asarray(W, dtype=dtype), V=jnp.asarray(V, dtype=dtype))
