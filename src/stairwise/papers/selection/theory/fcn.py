"""Fully connected nets on the same task: M(x, y) = head(W_1 [x; y]) with any head (Theorems 3.5 and C.2).

Risks here are E||M - STS_q||^2, without the 1/2 of the training loss. Given y, the target A_y x is linear in the
Gaussian x, so the best head that sees W_1 x and y leaves E_y ||A_y P||_F^2, with P the projector on the kernel of W_1.
A head that sees only the sum of W_1 x and a shift by y knows less: its risk is larger, and comes as close as one likes
when the shifts of different y lie far apart.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from stairwise.papers.selection.config import Task

Layer = Float[np.ndarray, "first_width inputs"]


def second_moment(task: Task, subsets: Int[np.ndarray, "subsets sparsity"]) -> Float[np.ndarray, "length length"]:
    """E_y[Y Y^T]/q^2 over the given subsets, so that E_y[A_y^T A_y] is its Kronecker product with I_d."""
    members = np.zeros((len(subsets), task.length))
    np.put_along_axis(members, subsets, 1.0, axis=1)
    return members.T @ members / (len(subsets) * task.sparsity**2)


def best_head_risk(first_layer: Layer, moment: Float[np.ndarray, "length length"], width: int) -> float:
    """tr(P (moment x I_d)): what the best head leaves when it sees `first_layer` @ x and y."""
    inputs = first_layer.shape[1]
    _, singular, basis = np.linalg.svd(first_layer, full_matrices=True)
    seen = int((singular > 1e-10 * max(singular.max(initial=0.0), 1e-300)).sum())
    kernel = basis[seen:].reshape(inputs - seen, inputs // width, width)
    return float(np.einsum("ktd,ts,ksd->", kernel, moment, kernel, optimize=True))


def lower_bound(task: Task) -> float:
    """(T-q)/(T q (T-1)): Theorem 3.5's bound for every first layer narrower than T d.

    >>> round(lower_bound(Task(6, 2, 1)), 4)
    0.0667
    """
    T, q = task.length, task.sparsity
    return (T - q) / (T * q * (T - 1))


def optimal_risk(length: int, sparsity: int, width: int, first_width: int) -> float:
    """The infimum over all first layers of width m = `first_width` and all heads, at sizes T, q, d.

    The second moment has eigenvalue 1/T on the d token means and (T-q)/(T q (T-1)) on the (T-1) d differences, and a
    first layer removes m of them, the largest first.
    """
    T, q, d = length, sparsity, width
    means_left = max(d - first_width, 0)
    differences_left = max(min(T * d - first_width, (T - 1) * d), 0)
    return means_left / T + differences_left * (T - q) / (T * q * (T - 1))


def optimal_first_layer(task: Task, first_width: int) -> Layer:
    """Rows that attain `optimal_risk`: first the d token means, then orthonormal differences of tokens (Helmert's)."""
    T, d = task.length, task.width
    directions = [np.ones(T) / math.sqrt(T)]
    for k in range(1, T):
        contrast = np.where(np.arange(T) < k, 1.0, 0.0)
        contrast[k] = -k
        directions.append(contrast / math.sqrt(k * (k + 1)))
    return np.kron(np.array(directions), np.eye(d))[:first_width]


class Pair(NamedTuple):
    """Two inputs that a first layer cannot tell apart, the subset that they share, and their targets."""

    tokens: Float[np.ndarray, "length width"]
    other: Float[np.ndarray, "length width"]
    subset: Int[np.ndarray, " sparsity"]

    @property
    def gap(self) -> float:
        """||STS(x) - STS(x')||; one of the two is missed by at least half of it."""
        return float(np.linalg.norm((self.tokens - self.other)[self.subset].mean(axis=0)))


def widest_fooled(task: Task) -> int:
    """(T-q+1) d - 1: the widest first layer that Theorem C.2 speaks of."""
    return (task.length - task.sparsity + 1) * task.width - 1


def indistinguishable_pair(first_layer: Layer, task: Task) -> Pair:
    """The proof of Theorem C.2: a null vector of the last T-q+1 token blocks, its largest token scaled to norm 1/2.

    The subset is {1..q-1, j*} with j* that token; the first q-1 tokens are zero.
    """
    T, q, d = task.length, task.sparsity, task.width
    block = first_layer[:, (q - 1) * d : T * d]
    null = np.linalg.svd(block, full_matrices=True)[2][-1].reshape(T - q + 1, d)
    norms = np.linalg.norm(null, axis=1)
    tokens = np.zeros((T, d))
    tokens[q - 1 :] = null / (2 * norms.max())
    subset = np.append(np.arange(q - 1), q - 1 + int(norms.argmax()))
    return Pair(tokens, -tokens, subset)


def shifted_risk(shift: float, points: int = 80) -> float:
    """T=2, q=1, d=1, width 2, when y reaches the head only as a shift: risk of the best head of h = x + shift (y, y).

    The best head is the posterior mean of the named token under the two possible y; by quadrature over x. The risk
    falls to zero as the shift grows: the infimum is approached and not attained.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(points)
    weights = weights / weights.sum()
    x = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), axis=-1).reshape(-1, 2)
    measure = np.outer(weights, weights).reshape(-1)
    risk = 0.0
    for y in range(2):
        h = x + shift * y
        inputs = np.stack([h, h - shift])  # the tokens under either y
        logs = -(inputs**2).sum(axis=2) / 2
        posterior = 1 / (1 + np.exp(np.clip(logs[1] - logs[0], -700, 700)))
        guess = posterior * inputs[0, :, 0] + (1 - posterior) * inputs[1, :, 1]
        risk += float(measure @ (guess - x[:, y]) ** 2) / 2
    return risk
