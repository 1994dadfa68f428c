"""Stochastic encodings: the same two scalars, averaged over the law of the encodings (Section 3.2, Appendix E).

W = C diag(0, I) and V = alpha [I 0]. For encodings E and a subset y the scores are C g with g_i = <e_i, e_y>, which is
1 on y; so s = 1/(q + sum_{i not in y} e^{C (g_i - 1)}), and u = 1 - q s. The law enters through the overlaps g off y,
one row for each pair (E, y), all equally likely. Bars are averages over the law.

Theory averages outputs (L_in, Definition 2.5); training with one E per step averages losses (L_out).
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from stairwise.papers.selection.config import Task
from stairwise.papers.selection.theory import onehot
from stairwise.papers.selection.theory.onehot import DIVERGED, Trajectory, ceiling, integrate, slack, spread_loss

Overlaps = Float[np.ndarray, "pairs others"]
Slopes = Callable[[Task, int, Overlaps, float, float], tuple[float, float]]


class Attention(NamedTuple):
    """s on each named position, the attention on each other position, and its sum u, of every pair (E, y)."""

    named: Float[np.ndarray, " pairs"]
    others: Float[np.ndarray, "pairs others"]
    leak: Float[np.ndarray, " pairs"]


def attention(task: Task, overlaps: Overlaps, C: float) -> Attention:
    """softmax(C g), computed relative to the named positions."""
    decay = np.exp(C * (overlaps - 1))
    total = decay.sum(axis=1)
    s = 1 / (task.sparsity + total)
    return Attention(s, decay * s[:, None], total * s)


# --- losses and slopes ------------------------------------------------------------------------------------------------


def output_averaged_loss(task: Task, overlaps: Overlaps, alpha: float, C: float) -> float:
    """L_in = (d/2) E_y ||Y/q - alpha E_E S||^2 (Lemma E.3), with the leak spread evenly (Lemma E.14)."""
    return float(spread_loss(task, alpha, _mean(attention(task, overlaps, C).leak)))


def loss_averaged_loss(task: Task, overlaps: Overlaps, alpha: float, C: float) -> float:
    """L_out = (d/2) E ||Y/q - alpha S||^2."""
    S = attention(task, overlaps, C)
    missing = (1 - alpha) + alpha * S.leak
    squares = missing**2 / task.sparsity + alpha**2 * (S.others**2).sum(axis=1)
    return float(task.width / 2 * squares.mean())


def output_averaged_slopes(
    task: Task, encoding_width: int, overlaps: Overlaps, alpha: float, C: float
) -> tuple[float, float]:
    """(alpha', C') of descent on L_in, exactly (Lemmas E.4, E.5, E.7, where the last sum is only bounded).

    alpha' = s - alpha (q s^2 + u^2/(T-q)) and C' = (d alpha/d_e) drive E[s (u - sum_{i not in y} S_i g_i)], with
    drive = 1 - q alpha (T s - 1)/(T-q); s and u are barred except inside E.
    """
    S = attention(task, overlaps, C)
    pull, leak = _mean(S.named * (S.leak - (S.others * overlaps).sum(axis=1))), _mean(S.leak)
    value = value_slope(task, alpha, _mean(S.named), leak)
    return value, task.width * alpha / encoding_width * _drive(task, alpha, leak) * pull


def _mean(each: np.ndarray) -> float:
    """The mean of a short list; NumPy's own takes three times as long to begin."""
    return float(np.add.reduce(each)) / len(each)


def loss_averaged_slopes(
    task: Task, encoding_width: int, overlaps: Overlaps, alpha: float, C: float
) -> tuple[float, float]:
    """(alpha', C') of descent on L_out: E s - alpha E||S||^2, and (d alpha/d_e) E Cov_S(g, Y/q - alpha S)."""
    S = attention(task, overlaps, C)
    q, s = task.sparsity, S.named
    square = q * s**2 + (S.others**2).sum(axis=1)
    score = q * s + (S.others * overlaps).sum(axis=1)
    residual = s - alpha * square
    product = q * s * (1 / q - alpha * s) - alpha * (S.others**2 * overlaps).sum(axis=1)
    pull = float((product - score * residual).mean())
    return float(residual.mean()), task.width * alpha / encoding_width * pull


def value_slope(task: Task, alpha: float, s: float, u: float) -> float:
    """alpha' = s (1 - q alpha s - alpha u^2/((T-q) s)) at average attention s and leak u."""
    return s - alpha * (task.sparsity * s**2 + u**2 / _others(task))


def value_slope_printed(task: Task, alpha: float, s: float, u: float) -> float:
    """Lemma E.7 as printed, with + alpha u^2/((T-q) s)."""
    return s - alpha * (task.sparsity * s**2 - u**2 / _others(task))


def attention_slope_bounds(
    task: Task, encoding_width: int, overlaps: Overlaps, alpha: float, C: float, gamma: float
) -> tuple[float, float]:
    """Lemma E.7: C' lies between (1-gamma) and (1+gamma) times (d alpha/d_e) drive E[s u], gamma = max |g|.

    The lemma prints gamma = delta/(1-2 delta), which Lemma A.3 does not give.
    """
    S = attention(task, overlaps, C)
    middle = task.width * alpha / encoding_width * _drive(task, alpha, float(S.leak.mean()))
    middle *= float((S.named * S.leak).mean())
    return (1 - gamma) * middle, (1 + gamma) * middle


def _drive(task: Task, alpha: float, u: float) -> float:
    """1 - q alpha (T s - 1)/(T-q) in terms of u = 1 - q s."""
    return (1 - alpha) + alpha * task.length * u / _others(task)


def _others(task: Task) -> int:
    """T-q as a divisor of what leaks: 1 at q = T, where nothing does."""
    return max(1, task.length - task.sparsity)


# --- the gradient lemmas for any finite law ---------------------------------------------------------------------------

Attentions = Float[np.ndarray, "encodings subsets length"]
Members = Float[np.ndarray, "subsets length"]
Weights = Float[np.ndarray, "joint joint"]
Values = Float[np.ndarray, "width joint"]
Tokens = Float[np.ndarray, "width length"]  # columns, as the paper writes X
Law = Float[np.ndarray, "encodings length encoding"]
Queries = Float[np.ndarray, "encodings joint"]


def value_gradient(task: Task, alpha: float, S: Attentions, members: Members) -> float:
    """Lemma E.4: grad_V L_in = (this number) [I 0], for attention S and indicators Y of every subset."""
    mean = S.mean(axis=0)
    hit = (mean * members).sum(axis=1) / task.sparsity
    return float((-hit + alpha * (mean**2).sum(axis=1)).mean())


def position_gradient(
    task: Task,
    alpha: float,
    S: Attentions,
    members: Members,
    law: Law,
    queries: Float[np.ndarray, "encodings subsets encoding"],
) -> Float[np.ndarray, "encoding encoding"]:
    """Lemma E.5: the position block of grad_W L_in, -d alpha E[ E (diag S - S S^T)(Y/q - alpha E_E S) e_y^T ]."""
    residual = members / task.sparsity - alpha * S.mean(axis=0)
    centred = S * (residual - (S * residual).sum(axis=2, keepdims=True))
    block = np.einsum("nst,ntw,nsv->wv", centred, law, queries, optimize=True)
    return -task.width * alpha * block / (S.shape[0] * S.shape[1])


def mean_gradients(
    W: Weights, V: Values, X: Tokens, members: Float[np.ndarray, " length"], law: Law, queries: Queries
) -> tuple[Weights, Values]:
    """Lemma E.2 in the form that is defined: the average over E is taken of V Z S, not of S alone.

    At one example, r = X Y/q - E_E[V Z S]: grad_W = -E_E[ Z (diag S - S S^T) Z^T V^T r z_query^T ] and
    grad_V = -r E_E[Z S]^T; `queries` holds z_query, one row for each E.
    """
    parts = _attended(W, X, law, queries)
    r = X @ members / members.sum() - mean_output(W, V, X, law, queries)
    terms = []
    for (Z, S), query in zip(parts, queries, strict=True):
        pull = Z.T @ V.T @ r
        terms.append(np.outer(Z @ (S * (pull - S @ pull)), query))
    return -np.mean(terms, axis=0), -np.outer(r, np.mean([Z @ S for Z, S in parts], axis=0))


def mean_output(W: Weights, V: Values, X: Tokens, law: Law, queries: Queries) -> Float[np.ndarray, " width"]:
    """f^(s) = E_E[V Z S] at one example."""
    return np.mean([V @ Z @ S for Z, S in _attended(W, X, law, queries)], axis=0)


def printed_outputs(
    W: Weights, V: Values, X: Tokens, law: Law, queries: Queries
) -> Float[np.ndarray, "encodings width"]:
    """V Z E_E[S] as Lemma E.2 prints it: Z holds E, so it is another vector for every E (one row each)."""
    parts = _attended(W, X, law, queries)
    mean = np.mean([S for _, S in parts], axis=0)
    return np.array([V @ Z @ mean for Z, _ in parts])


def _attended(W: Weights, X: Tokens, law: Law, queries: Queries) -> list[tuple[np.ndarray, np.ndarray]]:
    """Z = [X; E] and S = softmax(Z^T W z_query) for every E."""
    found = []
    for E, query in zip(law, queries, strict=True):
        Z = np.vstack([X, E.T])
        logits = Z.T @ W @ query
        S = np.exp(logits - logits.max())
        found.append((Z, S / S.sum()))
    return found


# --- dynamics ---------------------------------------------------------------------------------------------------------


def flow(
    task: Task,
    encoding_width: int,
    overlaps: Overlaps,
    times: Float[np.ndarray, " points"],
    slopes: Slopes = output_averaged_slopes,
) -> Trajectory:
    """The gradient flow of the two scalars from zero, at any size: the law is the given pairs."""
    return integrate(lambda alpha, C: slopes(task, encoding_width, overlaps, alpha, C), times)


def time_to_loss(task: Task, encoding_width: int, overlaps: Overlaps, epsilon: float) -> float:
    """When the flow of L_in first has loss epsilon."""
    (found,) = times_to_losses(task, encoding_width, overlaps, [epsilon])
    return found


def times_to_losses(
    task: Task, encoding_width: int, overlaps: Overlaps, epsilons: Sequence[float] | np.ndarray
) -> list[float]:
    """When the flow of L_in first has each of these losses, the largest first."""
    return onehot.times_when(
        lambda alpha, C: output_averaged_slopes(task, encoding_width, overlaps, alpha, C),
        [lambda alpha, C, e=e: output_averaged_loss(task, overlaps, alpha, C) - e for e in map(float, epsilons)],
    )


def steps_to_loss(
    task: Task, encoding_width: int, overlaps: Overlaps, learning_rate: float, epsilon: float, limit: int
) -> int:
    """How many steps of gradient descent on L_in it takes to a loss of at most epsilon; limit + 1 when more."""
    alpha = C = 0.0
    for step in range(limit + 1):
        if output_averaged_loss(task, overlaps, alpha, C) <= epsilon:
            return step
        value, attention = output_averaged_slopes(task, encoding_width, overlaps, alpha, C)
        alpha, C = alpha + learning_rate * value, C + learning_rate * attention
    return limit + 1


def descend(
    task: Task,
    encoding_width: int,
    overlaps: Overlaps,
    learning_rate: float,
    steps: int,
    slopes: Slopes = output_averaged_slopes,
) -> Trajectory:
    """`steps` of gradient descent from zero on the two scalars; not a number from where it has diverged."""
    states = np.zeros((steps + 1, 2))
    for step in range(steps):
        alpha, C = states[step]
        if not abs(C) < DIVERGED:
            states[step:] = np.nan
            break
        slope = slopes(task, encoding_width, overlaps, float(alpha), float(C))
        states[step + 1] = states[step] + learning_rate * np.array(slope)
    return Trajectory(np.arange(len(states), dtype=np.float64), states[:, 0], states[:, 1])


# --- the statements of Theorem 3.3 and its proof ----------------------------------------------------------------------


def largest_learning_rate(task: Task, encoding_width: int) -> float:
    """d_e^2/(40 d^2 T) in the statement of Theorem 3.3."""
    return encoding_width**2 / (40 * task.width**2 * task.length)


def largest_learning_rate_of_proof(task: Task, encoding_width: int) -> float:
    """d_e/(40 d^2 T) in its proof."""
    return encoding_width / (40 * task.width**2 * task.length)


def convergence_time(task: Task, epsilon: float, delta: float) -> float:
    """T^{(2-2 delta)/(1-3 delta)} + T^2 d/epsilon (Theorem E.6), without its constant and logarithm."""
    return task.length ** ((2 - 2 * delta) / (1 - 3 * delta)) + onehot.convergence_time(task, epsilon)


def convergence_time_with_logarithm(task: Task, epsilon: float, delta: float) -> float:
    """The same times log(T/x): what the O-tilde of Theorem E.6 is read as where a statement is about that time."""
    return convergence_time(task, epsilon, delta) * float(np.log(task.length / slack(task, epsilon)))


def convergence_time_printed(task: Task, epsilon: float, delta: float) -> float:
    """T^{2-2 delta} + T^2 d/epsilon, as Theorem 3.3 prints it."""
    return task.length ** (2 - 2 * delta) + onehot.convergence_time(task, epsilon)


def share_stochastic(task: Task, encoding_width: int) -> float:
    """(8Td - d_e)/(8Td) of (IH2)."""
    return 1 - encoding_width / (8 * task.length * task.width)


def sandwich(task: Task, C: float, gamma: float) -> tuple[float, float]:
    """Lemma E.15: 1/(q + (T-q) e^{-(1-gamma) C}) <= s <= 1/(q + (T-q) e^{-(1+gamma) C}) for C >= 0, gamma = max |g|."""
    low, high = onehot.named_attention(task, (1 - gamma) * C), onehot.named_attention(task, (1 + gamma) * C)
    return float(low), float(high)


def leak_bounds(task: Task, C: float, gamma: float) -> tuple[float, float]:
    """The least and the largest 1 - q s that Lemma E.15 allows at overlaps of at most gamma."""
    return float(onehot.leak(task, (1 + gamma) * C)), float(onehot.leak(task, (1 - gamma) * C))


def largest_leak_printed(task: Task, C: float, delta: float) -> float:
    """1 - q s at Lemma E.15's printed lower end of s, 1/(q + (T-q) exp(-C (1-3 delta)/(1-2 delta)))."""
    return float(onehot.leak(task, (1 - 3 * delta) / (1 - 2 * delta) * C))


def attention_threshold(task: Task, epsilon: float, gamma: float) -> float:
    """Corollary E.8: C >= log(((T-q)/q)/x)/(1-gamma) gives q s >= 1-x for every admissible E."""
    return onehot.attention_threshold(task, epsilon) / (1 - gamma)


def attention_threshold_printed(task: Task, epsilon: float, delta: float) -> float:
    """The same with gamma = delta/(1-2 delta), that is (1-2 delta)/(1-3 delta) log(...)."""
    return (1 - 2 * delta) / (1 - 3 * delta) * onehot.attention_threshold(task, epsilon)


def alpha_interval(task: Task, epsilon: float) -> tuple[float, float]:
    """Corollary E.8: alpha ends in [1 - x/10, 1 + 8x/5]."""
    x = slack(task, epsilon)
    return 1 - 0.1 * x, 1 + 1.6 * x


def ih2_ceiling(task: Task, encoding_width: int, s: onehot.Number) -> onehot.Number:
    """The largest alpha that (IH2) allows at average attention s."""
    return ceiling(task, s, share_stochastic(task, encoding_width))
