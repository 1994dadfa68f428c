"""The closed forms, in the eigenbasis of the covariance: l = (l_1..l_d), N labelled inputs, noise sigma.

By Isserlis' theorem E[(X^T X / N)^2] = L G with G = (1 + 1/N) L + (tr L / N) I; label noise adds sigma^2/N to G. So a
gradient step with preconditioner P, <x_query, P b>, has the loss

2 loss(P) = tr(L P L G P^T) - 2 tr(L P L) + tr L,

a quadratic whose only minimum is P = G^-1. The formulas take NumPy and JAX arrays alike.
"""

from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

Numbers = Any  # a vector or matrix, of NumPy or of JAX


def spectrum(width: int, decay: float) -> np.ndarray:
    """Eigenvalues l_i ~ i^-decay with mean 1.

    >>> spectrum(2, 1.0).tolist()
    [1.3333333333333333, 0.6666666666666666]
    """
    powers = np.arange(1, width + 1, dtype=np.float64) ** -decay
    return powers / powers.mean()


def gamma(eigenvalues: Numbers, length: int, noise: Any = 0.0) -> Numbers:
    """The eigenvalues of G.

    >>> gamma(np.array([1.0, 3.0]), 4)
    array([2.25, 4.75])
    """
    return (1 + 1 / length) * eigenvalues + (eigenvalues.sum() + noise**2) / length


def loss(P: Numbers, eigenvalues: Numbers, length: int, noise: Any = 0.0) -> Any:
    """The population loss of one gradient step with preconditioner P."""
    l, g = eigenvalues, gamma(eigenvalues, length, noise)
    return ((l[:, None] * P**2 * (l * g)).sum() - 2 * (l**2 * P.diagonal()).sum() + l.sum()) / 2


def loss_gradient(P: Numbers, eigenvalues: Numbers, length: int, noise: Any = 0.0) -> Numbers:
    """Its gradient in P: L P L G - L^2."""
    l, g = eigenvalues, gamma(eigenvalues, length, noise)
    return l[:, None] * P * (l * g) - np.diag(l**2)


def minimum(eigenvalues: Numbers, length: int, noise: Any = 0.0) -> Any:
    """The least loss, that of P = G^-1: (tr L - tr L^2 G^-1) / 2."""
    return (eigenvalues - eigenvalues**2 / gamma(eigenvalues, length, noise)).sum() / 2


def longest(P: Numbers, eigenvalues: Numbers) -> Any:
    """The loss that a preconditioner has on infinitely long prompts: tr L (P L - I)(P L - I)^T / 2."""
    error = P * eigenvalues - np.eye(len(eigenvalues))
    return (eigenvalues[:, None] * error**2).sum() / 2


def longest_bound(eigenvalues: Numbers, length: int, noise: Any = 0.0) -> float:
    """What `longest` is at most for G^-1 of training length N: sum_i (l_i + tr L + sigma^2)^2 / l_i / (2 N^2)."""
    return float(((eigenvalues + eigenvalues.sum() + noise**2) ** 2 / eigenvalues).sum() / (2 * length**2))


def limit_weights(eigenvalues: np.ndarray, length: int, noise: float = 0.0) -> tuple[np.ndarray, float]:
    """Where gradient flow ends: U = tr(G^-2)^(-1/4) G^-1 and u = tr(G^-2)^(1/4)."""
    inverse = 1 / gamma(eigenvalues, length, noise)
    scale = (inverse**2).sum() ** 0.25
    return np.diag(inverse) / scale, float(scale)


def largest_start(eigenvalues: np.ndarray, length: int, start: np.ndarray, noise: float = 0.0) -> float:
    """The scale sigma below which convergence is proven: sigma^2 |start|_op sqrt(d) |G|_op < 2."""
    size = np.linalg.norm(start, 2) * len(eigenvalues) ** 0.5 * gamma(eigenvalues, length, noise).max()
    return float((2 / size) ** 0.5)


def flow(U: np.ndarray, u: float, eigenvalues: np.ndarray, length: int, noise: float = 0.0) -> tuple[np.ndarray, float]:
    """The end of gradient flow of the two corner blocks, where P = u U^T: U' = -u D^T and u' = -<D, U^T>.

    Near the optimum the slowest direction decays at the rate u^2 l_min^2 g_min; it gets a hundred such times, and more
    from a small start, which takes log(1/u) of them to leave.
    """
    width, limit = len(eigenvalues), limit_weights(eigenvalues, length, noise)[1]
    rate = limit**2 * eigenvalues.min() ** 2 * gamma(eigenvalues, length, noise).min()
    horizon = 100 * (1 + abs(np.log(u))) / rate

    def velocity(_, state):
        U, u = state[:-1].reshape(width, width), state[-1]
        D = loss_gradient(u * U.T, eigenvalues, length, noise)
        return -np.append(u * D.T, np.vdot(D, U.T))

    found = solve_ivp(velocity, (0.0, horizon), np.append(U, u), method="LSODA", rtol=1e-11, atol=1e-13)
    return found.y[:-1, -1].reshape(width, width), float(found.y[-1, -1])
