"""One-hot encodings: gradient descent from zero moves two scalars (Section 3.1, Appendix D).

W = C (I - 11^T/T) in the position block and V = alpha [I 0]. A named position gets attention s = 1/(q + (T-q) e^{-C}),
and u = 1 - q s leaks to the T-q others. Formulas are written in u, so that nothing cancels as u -> 0.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import softmax

from stairwise.papers.selection.config import Task

Number = Any  # a float, or an array of them
DIVERGED = 100.0  # beyond, exp(C) is meaningless: only a far too large learning rate leads there


class Trajectory(NamedTuple):
    """The two scalars along training, and the times (or steps) at which they were taken."""

    times: Float[np.ndarray, " points"]
    alpha: Float[np.ndarray, " points"]
    C: Float[np.ndarray, " points"]


# --- loss and gradients -----------------------------------------------------------------------------------------------


def named_attention(task: Task, C: Number) -> Number:
    """s, the attention on each position that the query names.

    >>> float(named_attention(Task(5, 2, 1), 0.0))
    0.2
    """
    return 1 / (task.sparsity + (task.length - task.sparsity) * np.exp(-C))


def leak(task: Task, C: Number) -> Number:
    """u = 1 - q s, the attention that goes to all other positions together."""
    return (task.length - task.sparsity) * np.exp(-C) * named_attention(task, C)


def loss(task: Task, alpha: Number, C: Number) -> Number:
    """L = (d/2) [ ((1-alpha) + alpha u)^2 / q + alpha^2 u^2 / (T-q) ] (Lemma D.2 on the invariant family)."""
    return spread_loss(task, alpha, leak(task, C))


def spread_loss(task: Task, alpha: Number, u: Number) -> Number:
    """The loss when u leaks evenly to the positions that the query does not name."""
    missing = (1 - alpha) + alpha * u
    others = max(1, task.length - task.sparsity)  # where there are none, u is 0
    return task.width / 2 * (missing**2 / task.sparsity + (alpha * u) ** 2 / others)


def slopes(task: Task, alpha: Number, C: Number) -> tuple[Number, Number]:
    """The right-hand side of eq. (6): -grad_V = first [I 0], -grad_W = second (I - 11^T/T) in the position block.

    They are (s - alpha (q s^2 + u^2/(T-q)), (alpha d/(T-1)) s u (1 + q alpha (1-T s)/(T-q))), with the last factor
    in the form (1-alpha) + alpha T u/(T-q).
    """
    return _slopes(task.length, task.sparsity, task.width, alpha, C, np.exp)


def _slopes(T: int, q: int, d: int, alpha: Any, C: Any, exp: Callable) -> tuple[Any, Any]:
    decay = (T - q) * exp(-C)
    s = 1 / (q + decay)
    u = decay * s
    others = max(1, T - q)  # where there are none, u is 0
    drive = (1 - alpha) + alpha * T * u / others
    return s - alpha * (q * s * s + u * u / others), alpha * d / max(1, T - 1) * s * u * drive


def example_gradients(
    W: Float[np.ndarray, "joint joint"],
    V: Float[np.ndarray, "width joint"],
    Z: Float[np.ndarray, "joint length"],
    members: Float[np.ndarray, " length"],
    query: Float[np.ndarray, " joint"],
) -> tuple[Float[np.ndarray, "joint joint"], Float[np.ndarray, "width joint"]]:
    """Lemma D.1 at one example: the gradients of (1/2)||X Y/q - V Z S||^2 in W and V, Z = [X; E] with columns z_i.

    grad_W = -Z (diag S - S S^T) Z^T V^T r z_query^T and grad_V = -r (Z S)^T, with r = X Y/q - V Z S.
    """
    S = softmax(Z.T @ W @ query)
    residual = Z[: len(V)] @ members / members.sum() - V @ Z @ S
    softmax_jacobian = np.diag(S) - np.outer(S, S)
    return -np.outer(Z @ softmax_jacobian @ Z.T @ V.T @ residual, query), -np.outer(residual, Z @ S)


# --- dynamics ---------------------------------------------------------------------------------------------------------


def descend(task: Task, learning_rate: float, steps: int) -> Trajectory:
    """`steps` of gradient descent from zero: the recursion of Lemma D.5; not a number from where it has diverged."""
    T, q, d, exp = task.length, task.sparsity, task.width, math.exp
    alpha = C = 0.0
    alphas, Cs = np.empty(steps + 1), np.empty(steps + 1)
    alphas[0] = Cs[0] = 0.0
    for step in range(1, steps + 1):
        if not abs(C) < DIVERGED:
            alphas[step:] = Cs[step:] = np.nan
            break
        value, attention = _slopes(T, q, d, alpha, C, exp)
        alpha, C = alpha + learning_rate * value, C + learning_rate * attention
        alphas[step], Cs[step] = alpha, C
    return Trajectory(np.arange(len(Cs), dtype=np.float64), alphas, Cs)


def steps_to_loss(task: Task, learning_rate: float, epsilon: float, limit: int) -> int:
    """How many steps of gradient descent from zero it takes to a loss of at most epsilon; limit + 1 when more."""
    T, q, d, exp = task.length, task.sparsity, task.width, math.exp
    others = max(1, T - q)  # where there are none, u is 0
    alpha = C = 0.0
    for step in range(limit + 1):
        u = (T - q) / (q * exp(C) + (T - q))
        if d / 2 * (((1 - alpha) + alpha * u) ** 2 / q + (alpha * u) ** 2 / others) <= epsilon:
            return step
        value, attention = _slopes(T, q, d, alpha, C, exp)
        alpha, C = alpha + learning_rate * value, C + learning_rate * attention
    return limit + 1


def flow(task: Task, times: Float[np.ndarray, " points"]) -> Trajectory:
    """The ODE (6) from zero, at the given times (in units of 1/eta, so eta = 1)."""
    return integrate(lambda alpha, C: slopes(task, alpha, C), times)


def time_to_loss(task: Task, epsilon: float) -> float:
    """When the flow first has loss epsilon."""
    return time_when(lambda alpha, C: slopes(task, alpha, C), lambda alpha, C: loss(task, alpha, C) - epsilon)


def time_to_attention(task: Task, C: float) -> float:
    """When the flow's second scalar reaches C."""
    return time_when(lambda alpha, reached: slopes(task, alpha, reached), lambda alpha, reached: C - reached)


def integrate(field: Callable, times: Float[np.ndarray, " points"]) -> Trajectory:
    """A planar flow (alpha, C)' = field(alpha, C) from zero.

    alpha relaxes in time O(q) while C needs powers of ten more, so the method switches to a stiff one by itself.
    """
    times = np.asarray(times, dtype=np.float64)
    solution = _solve(field, float(times[-1]), t_eval=times)
    return Trajectory(times, solution.y[0], solution.y[1])


def time_when(field: Callable, height: Callable[[Any, Any], Any], limit: float = 1e18) -> float:
    """The first time at which height(alpha, C) falls to zero along the flow; infinite when not before `limit`."""
    (found,) = times_when(field, [height], limit)
    return found


def times_when(field: Callable, heights: Sequence[Callable[[Any, Any], Any]], limit: float = 1e18) -> list[float]:
    """The same of several heights, of which the last falls to zero last: the flow is followed once."""

    def event_of(height: Callable[[Any, Any], Any]) -> Callable:
        return lambda _, state: height(state[0], state[1])

    events = [event_of(height) for height in heights]
    setattr(events[-1], "terminal", True)  # noqa: B010  how SciPy is told to stop there
    at_once = [bool(height(0.0, 0.0) <= 0) for height in heights]
    if at_once[-1]:
        return [0.0] * len(heights)
    crossed = _solve(field, limit, events=events).t_events
    first = [float(found[0]) if len(found) else math.inf for found in crossed]
    return [0.0 if begun else time for begun, time in zip(at_once, first, strict=True)]


def _solve(field: Callable, horizon: float, **more: Any) -> Any:
    from scipy.integrate import solve_ivp

    solution = solve_ivp(
        lambda _, state: field(state[0], state[1]),
        (0.0, horizon),
        [0.0, 0.0],
        method="LSODA",
        rtol=1e-10,
        atol=1e-14,
        **more,
    )
    if not solution.success:
        raise ArithmeticError(f"the flow could not be integrated to time {horizon:g}: {solution.message}")
    return solution


# --- the statements of Theorem 3.1 and its proof ----------------------------------------------------------------------


def largest_epsilon(task: Task) -> float:
    """Theorem 3.1 is for epsilon below dT/(100 (T-q) q)."""
    return task.width * task.length / (100 * (task.length - task.sparsity) * task.sparsity)


def largest_learning_rate(task: Task) -> float:
    """Theorem 3.1 is for eta at most 1/(20 d^2)."""
    return 1 / (20 * task.width**2)


def convergence_time(task: Task, epsilon: float) -> float:
    """T^2 d/epsilon: Theorem 3.1's bound on eta t, without its constant and logarithm."""
    return task.length**2 * task.width / epsilon


def sharp_time(task: Task, epsilon: float) -> float:
    """(T-1)/(4 epsilon): the time that the late law L ~ (T-1)/(4 eta t) needs, whatever d and q."""
    return (task.length - 1) / (4 * epsilon)


def late_leak(task: Task, time: float) -> float:
    """sqrt((T-q)(T-1)/(2 d t)): 1 - q s at a late time, from L ~ (T-1)/(4t) and L ~ (d/2) u^2/(T-q)."""
    return math.sqrt((task.length - task.sparsity) * (task.length - 1) / (2 * task.width * time))


def inverse_loss_slope(task: Task, alpha: Number, C: Number) -> Number:
    """d(1/L)/dt along the flow: ((T-1) C'^2 + d alpha'^2)/L^2, from dL/dC = -(T-1) C' and dL/dalpha = -d alpha'."""
    value, attention = slopes(task, alpha, C)
    return ((task.length - 1) * attention**2 + task.width * value**2) / loss(task, alpha, C) ** 2


def alpha_star(task: Task, s: Number) -> Number:
    """alpha* = (T-q) s/(T q s^2 - 2 q s + 1), where alpha would rest at fixed attention s; 1/(q s) at q = T."""
    T, q = task.length, task.sparsity
    if q == T:
        return 1 / (q * s)
    return (T - q) * s / (T * q * s**2 - 2 * q * s + 1)


def alpha_star_maximum(task: Task) -> float:
    """(sqrt T + sqrt q)/(2 sqrt q), taken at s = 1/sqrt(T q)."""
    return (math.sqrt(task.length) + math.sqrt(task.sparsity)) / (2 * math.sqrt(task.sparsity))


def slack(task: Task, epsilon: float) -> float:
    """x = sqrt(q (T-q) epsilon/(d T)), the scale in which the proofs measure how far alpha and q s are from 1."""
    T, q, d = task.length, task.sparsity, task.width
    return math.sqrt(q * (T - q) * epsilon / (d * T))


def phase_one_end(task: Task, epsilon: float) -> float:
    """1 - x/10: alpha grows monotonically up to here (Phase I) and stays above (Phase II)."""
    return 1 - 0.1 * slack(task, epsilon)


def ceiling(task: Task, s: Number, share: float) -> Number:
    """(1 + share (1-q s)/(q s (T s-1))) alpha*: the largest alpha of (IH1), share = (8d-1)/(8d), and of (IH2)."""
    T, q = task.length, task.sparsity
    with np.errstate(divide="ignore", invalid="ignore"):  # infinite at s = 1/T, where training starts
        return (1 + share * (1 - q * s) / (q * s * np.maximum(T * s - 1, 0.0))) * alpha_star(task, s)


def excess(task: Task, alpha: Number, s: Number) -> Number:
    """The proof's gamma, alpha = (1 + gamma (1-q s)/(q s (T s-1))) alpha*; (IH1) and (IH2) bound it by their share."""
    T, q = task.length, task.sparsity
    return (alpha / alpha_star(task, s) - 1) * q * s * (T * s - 1) / (1 - q * s)


def share_one_hot(task: Task) -> float:
    """(8d-1)/(8d) of (IH1)."""
    return (8 * task.width - 1) / (8 * task.width)


def phase_one_time(task: Task, epsilon: float) -> float:
    """T log(10/x): Phase I ends before, since 1-alpha shrinks by 1 - eta/T a step."""
    return task.length * math.log(10 / slack(task, epsilon))


def first_stage_time(task: Task, epsilon: float) -> float:
    """Phase I plus 8 T^2 log((T-q)/q): s has reached 1/(2q) by then, since C grows by at least eta/(8T^2) a step."""
    T, q = task.length, task.sparsity
    return phase_one_time(task, epsilon) + 8 * T**2 * math.log((T - q) / q)


def second_stage_time(task: Task, epsilon: float) -> float:
    """8 d T (T-1) log(1/x)/(q epsilon): how long s then takes at most to (1-x)/q, where the loss is below epsilon."""
    T, q, d = task.length, task.sparsity, task.width
    return 8 * d * T * (T - 1) / (q * epsilon) * math.log(1 / slack(task, epsilon))


def attention_threshold(task: Task, epsilon: float) -> float:
    """C = log(((T-q)/q)/x), beyond which s >= (1-x)/q."""
    return math.log((task.length - task.sparsity) / task.sparsity / slack(task, epsilon))


def attention_threshold_printed(task: Task, epsilon: float) -> float:
    """log((1/q)/x) as the proof of Theorem D.4 prints it: a factor T-q is missing."""
    return math.log(1 / task.sparsity / slack(task, epsilon))
