"""Corollary 3.6 of "Transformers Provably Learn Sparse Token Selection" (ICML 2024), informal: when the training loss
is at most epsilon, the loss at length T2 is O(T2^2 epsilon/T1^2). Along gradient flow it is larger by a factor of
order T1/q.

Needs SciPy. Orthonormal encodings, W = C (I - 11^T/T), V = alpha [I 0] (Lemma D.5), the flow of eq. (6).
"""

from itertools import pairwise
from math import exp

from scipy.integrate import solve_ivp

q, d = 3, 5


def loss(T, alpha, C):
    u = (T - q) * exp(-C) / (q + (T - q) * exp(-C))
    return d / 2 * (((1 - alpha) + alpha * u) ** 2 / q + (alpha * u) ** 2 / (T - q))


def slopes(T, alpha, C):
    s = 1 / (q + (T - q) * exp(-C))
    u = 1 - q * s
    return s - alpha * (q * s * s + u * u / (T - q)), alpha * d / (T - 1) * s * u * (
        1 - alpha + alpha * T * u / (T - q)
    )


excess = []
for T1 in (50, 100, 200, 400):
    flow = solve_ivp(lambda _, state: slopes(T1, *state), (0, 1e11), [0, 0], method="LSODA", rtol=1e-10, atol=1e-13)  # noqa: B023
    alpha, C = flow.y[:, -1]
    trained, tested = loss(T1, alpha, C), loss(2 * T1, alpha, C)
    excess.append(tested / (4 * trained))  # over (T2/T1)^2 = 4
    print(f"T1={T1}: training loss {trained:.2g}, loss at T2=2 T1 is {excess[-1]:.1f} times (T2/T1)^2 epsilon")
assert all(b > 1.8 * a for a, b in pairwise(excess))  # grows with T1: no constant is enough
