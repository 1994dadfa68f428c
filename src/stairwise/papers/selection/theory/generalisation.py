"""Trained at (T1, q1), tested at (T2, q2): the same two scalars in another task's loss (Section 3.4, Appendix E.4).

Encodings are orthonormal here. Training lets alpha follow alpha* of its own length, alpha ~ 1 + u1, while the leak at
the other sizes is u2 ~ r u1 with r = q1 (T2-q2)/(q2 (T1-q1)): their difference is what costs at another length.
"""

from stairwise.papers.selection.config import Task
from stairwise.papers.selection.theory.onehot import slack


def leak_ratio(trained: Task, tested: Task) -> float:
    """r = q1 (T2-q2)/(q2 (T1-q1)), the limit of u2/u1 as C grows."""
    others_trained, others_tested = trained.length - trained.sparsity, tested.length - tested.sparsity
    return trained.sparsity * others_tested / (tested.sparsity * others_trained)


def loss_ratio_limit(trained: Task, tested: Task) -> float:
    """lim L2/L1 along gradient descent: (T1-q1) ((r-1)^2/q2 + r^2/(T2-q2)).

    >>> round(loss_ratio_limit(Task(200, 3, 5), Task(400, 3, 5)), 1)
    69.7
    """
    r = leak_ratio(trained, tested)
    spread = (r - 1) ** 2 / tested.sparsity + r**2 / (tested.length - tested.sparsity)
    return (trained.length - trained.sparsity) * spread


def loss_ratio_at_one(trained: Task, tested: Task) -> float:
    """lim L2/L1 were alpha held at 1: r^2 (1/q2 + 1/(T2-q2)) / (1/q1 + 1/(T1-q1)), which is (T2/T1)^2-like."""
    r = leak_ratio(trained, tested)
    per_leak = [1 / t.sparsity + 1 / (t.length - t.sparsity) for t in (trained, tested)]
    return r**2 * per_leak[1] / per_leak[0]


def order_bound(trained: Task, tested: Task, epsilon: float) -> float:
    """T2^2 epsilon/T1^2: Corollary 3.6 without its constant."""
    return (tested.length / trained.length) ** 2 * epsilon


def explicit_bound(trained: Task, tested: Task, epsilon: float) -> float:
    """The last display of Corollary E.9's proof, corrected: it holds wherever C and alpha are as in Corollary E.8."""
    return leading_term(trained, tested, epsilon) + _other_terms(trained, tested, epsilon)


def leading_term(trained: Task, tested: Task, epsilon: float) -> float:
    """T2 (T2-q2) q1^3 epsilon/(2 q2^3 T1 (T1-q1))."""
    return leading_term_printed(trained, tested) * epsilon / tested.sparsity


def leading_term_printed(trained: Task, tested: Task) -> float:
    """T2 (T2-q2) q1^3/(2 q2^2 T1 (T1-q1)): epsilon is missing, and a power of q2."""
    T1, q1, T2, q2 = trained.length, trained.sparsity, tested.length, tested.sparsity
    return T2 * (T2 - q2) * q1**3 / (2 * q2**2 * T1 * (T1 - q1))


def leading_term_by_substitution(trained: Task, tested: Task, epsilon: float) -> float:
    """(d/2) T2/((T2-q2) q2) (r x)^2: the leak's bound r x put into the loss at alpha = 1."""
    T2, q2 = tested.length, tested.sparsity
    leak = leak_ratio(trained, tested) * slack(trained, epsilon)
    return trained.width / 2 * T2 / ((T2 - q2) * q2) * leak**2


def _other_terms(trained: Task, tested: Task, epsilon: float) -> float:
    T1, q1, T2, q2 = trained.length, trained.sparsity, tested.length, tested.sparsity
    lower = (T2 - q2) * q1**2 / (10 * q2**2 * T1)
    upper = 32 * q1 * (T1 - q1) / (25 * q2 * T1)
    spread = 3 * (T2 - q2) * q1**3 / (2 * q2**2 * T1 * (T1 - q1))
    return epsilon * (lower + upper + spread)
