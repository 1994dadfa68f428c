"""Inside the proofs of Theorems D.4 and E.6: how much C grows in a step, and how far the ceiling on alpha falls.

s is the attention on a named position, D = T q s^2 - 2 q s + 1, and rho = (1-q s)/(q s (T s-1)) the room above alpha*:
the induction hypotheses say alpha <= (1 + share rho) alpha*. All increments are per unit of the learning rate. With
one-hot encodings d_e stands for T in the shares, and C has the factor 1/(T-1) where it has 1/d_e otherwise.
"""

import math

from stairwise.papers.selection.config import Task
from stairwise.papers.selection.theory.onehot import Number, alpha_star


def denominator(task: Task, s: Number) -> Number:
    """D = T q s^2 - 2 q s + 1."""
    T, q = task.length, task.sparsity
    return T * q * s**2 - 2 * q * s + 1


def headroom(task: Task, s: Number) -> Number:
    """rho = (1-q s)/(q s (T s-1)); at most 1 from s = 1/sqrt(T q) on."""
    T, q = task.length, task.sparsity
    return (1 - q * s) / (q * s * (T * s - 1))


def lower_share(task: Task, encoding_width: int) -> float:
    """(4Td - d_e)/(4Td): where the proofs cut the range of alpha in two."""
    return 1 - encoding_width / (4 * task.length * task.width)


def least_s(task: Task) -> float:
    """1/sqrt(T q), where alpha* is largest; below it alpha* rises, and the induction needs no more."""
    return 1 / math.sqrt(task.length * task.sparsity)


# --- how much C grows -------------------------------------------------------------------------------------------------


def increment(task: Task, s: Number, excess: Number) -> Number:
    """The proof's form of C' with one-hot encodings, for alpha = (1 + gamma rho) alpha*.

    (1-gamma)(1 + gamma rho) alpha* d s (1-q s)^2/((T-1) D), gamma being the `excess`.
    """
    alpha = (1 + excess * headroom(task, s)) * alpha_star(task, s)
    front = task.width * s * (1 - task.sparsity * s) ** 2 / ((task.length - 1) * denominator(task, s))
    return (1 - excess) * alpha * front


def largest_increment(task: Task) -> float:
    """d/(4 q T), from s = 1/sqrt(T q) on, whatever alpha."""
    return task.width / (4 * task.sparsity * task.length)


def largest_increment_stochastic(task: Task, encoding_width: int) -> float:
    """(UP2): 9 d/(32 q d_e), where overlaps are at most 1/8."""
    return 9 * task.width / (32 * task.sparsity * encoding_width)


def upper_increment(task: Task, s: Number) -> Number:
    """(T-q) s^2 (1-q s)^2/(2 (T-1) D^2), where gamma is at least (4d-1)/(4d)."""
    T, q = task.length, task.sparsity
    return (T - q) * s**2 * (1 - q * s) ** 2 / (2 * (T - 1) * denominator(task, s) ** 2)


def least_increment(task: Task, s: Number) -> Number:
    """s (1-q s)^2/(8 (T-1) D): what the proof gives in Phase II."""
    return s * (1 - task.sparsity * s) ** 2 / (8 * (task.length - 1) * denominator(task, s))


def least_increment_printed(task: Task, s: Number) -> Number:
    """(1-q s)^2/(8 q (T-1) D), as printed for all t: it takes q (T-q) s^2 to be at least D, and it is D - (1-q s)^2."""
    return (1 - task.sparsity * s) ** 2 / (8 * task.sparsity * (task.length - 1) * denominator(task, s))


def least_increment_stochastic(task: Task, s: Number, pull: Number) -> Number:
    """7 (1-q s) E[(1-q s) s]/(64 T D) in Phase II of Theorem E.6, at overlaps of at most 1/8; `pull` is that mean."""
    return 7 * (1 - task.sparsity * s) * pull / (64 * task.length * denominator(task, s))


# --- how far the ceiling falls ----------------------------------------------------------------------------------------


def attention_after(task: Task, s: Number, step: Number) -> Number:
    """s + (5/4) s (1-q s) Delta C, which s does not exceed after a step Delta C of at most 1/5."""
    return s + 1.25 * s * (1 - task.sparsity * s) * step


def star_after(task: Task, s: Number, rise: Number) -> Number:
    """alpha* (1 - T q s rise/D): what alpha* does not fall below when s grows by `rise`."""
    return alpha_star(task, s) * (1 - task.length * task.sparsity * s * rise / denominator(task, s))


def headroom_after(task: Task, s: Number, rise: Number) -> Number:
    """rho - rise (2 T s-1)/(q s^2 (T s-1)^2): what rho does not fall below when s grows by `rise`."""
    T, q = task.length, task.sparsity
    return headroom(task, s) - rise * (2 * T * s - 1) / (q * s**2 * (T * s - 1) ** 2)


def cost_of_step(task: Task, s: Number, step: Number) -> Number:
    """(**) over rho: (5/2) T q s^2 Delta C + (15/4) Delta C, which must stay below d_e/(8 T d) for (S2)."""
    return (2.5 * task.length * task.sparsity * s**2 + 3.75) * step
