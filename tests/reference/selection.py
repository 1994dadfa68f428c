"""Sparse token selection as the paper writes it: dense, one example at a time, in columns.

Z = [X; E] is formed, e_y is computed with an inverse, expectations are sums over every subset and every node of a
tensor grid. Slow and obvious; `stairwise.papers.selection` is pinned to it.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np


def answer(X, subset):
    """STS_q(X, y) for tokens in columns."""
    total = 0.0
    for position in subset:
        total = total + X[:, position]
    return total / len(subset)


def subset_encoding(E, subset):
    """e_y = E_y (E_y^T E_y)^{-1} 1 for encodings in columns."""
    E_y = E[:, list(subset)]
    return E_y @ np.linalg.inv(E_y.T @ E_y) @ np.ones(len(subset))


def output(W, V, X, E, query):
    """f = V Z softmax(Z^T W z_query), eq. (2)."""
    Z = jnp.concatenate([X, E])
    return V @ Z @ jax.nn.softmax(Z.T @ W @ query)


def loss(W, V, X, E, query, target):
    """(1/2)||target - f||^2."""
    return jnp.sum((target - output(W, V, X, E, query)) ** 2) / 2


def all_subsets(length, sparsity):
    return list(itertools.combinations(range(length), sparsity))


def token_grid(length, width):
    """Every matrix of Gauss-Hermite nodes (0 and +-sqrt 3), and its probability."""
    nodes, weights = (0.0, 3**0.5, -(3**0.5)), (2 / 3, 1 / 6, 1 / 6)
    for index in itertools.product(range(3), repeat=length * width):
        X = np.array([nodes[i] for i in index]).reshape(width, length)
        yield X, float(np.prod([weights[i] for i in index]))


def examples(length, sparsity, width, E, query_token):
    """All (X, z_query, target) with their probabilities, stacked."""
    subsets = all_subsets(length, sparsity)
    rows = []
    for X, weight in token_grid(length, width):
        for subset in subsets:
            query = np.concatenate([query_token, subset_encoding(E, subset)])
            rows.append((X, query, answer(X, subset), weight / len(subsets)))
    return [jnp.asarray(np.stack(column)) for column in zip(*rows, strict=True)]


def population_loss(length, sparsity, width, E, query_token):
    """(W, V) -> the exact population loss for one fixed E."""
    X, queries, targets, weights = examples(length, sparsity, width, E, query_token)

    @jax.jit
    def value(W, V):
        one = lambda X, query, target: loss(W, V, X, jnp.asarray(E), query, target)  # noqa: E731
        return weights @ jax.vmap(one)(X, queries, targets)

    return value


def gradient_descent(value, W, V, learning_rate, steps):
    """W, V <- W, V - eta grad, simultaneously."""
    gradient = jax.jit(jax.grad(value, argnums=(0, 1)))
    for _ in range(steps):
        grad_W, grad_V = gradient(W, V)
        W, V = W - learning_rate * grad_W, V - learning_rate * grad_V
    return W, V


def centring(length):
    """I - 11^T/T."""
    return np.eye(length) - np.ones((length, length)) / length


def block(width, corner):
    """diag(0, corner)."""
    joint = width + len(corner)
    W = np.zeros((joint, joint))
    W[width:, width:] = corner
    return W


# --- formulas as printed ----------------------------------------------------------------------------------------------


def attention(T, q, C):
    """s_+ = 1/(q + (T-q) e^{-C})."""
    return 1 / (q + (T - q) * np.exp(-C))


def printed_loss(T, q, d, alpha, s):
    """d/(2(T-q)) ((T-q) q (alpha s - 1/q)^2 + alpha^2 (1 - q s)^2), from the proof of Theorem D.4."""
    return d / (2 * (T - q)) * ((T - q) * q * (alpha * s - 1 / q) ** 2 + alpha**2 * (1 - q * s) ** 2)


def printed_ode(T, q, d, alpha, s):
    """Eq. (6) with eta = 1."""
    value = s * (1 - alpha * (T * q * s**2 - 2 * q * s + 1) / ((T - q) * s))
    return value, alpha * d / (T - 1) * s * (1 - q * s) * (1 + q * alpha / (T - q) * (1 - T * s))


def printed_w_gradient(T, q, d, alpha, s):
    """The coefficient of I - 11^T/T at the end of the proof of Lemma D.5."""
    u = 1 - q * s
    return alpha * d / (T - 1) * s * ((1 - alpha) * u + T * alpha / (T - q) * u**2)


def restricted_isometry(E, q):
    """Definition A.1 by brute force over every pair of disjoint supports (E in columns)."""
    T = E.shape[1]
    isometry = orthogonality = 0.0
    for a in range(1, min(q, T) + 1):
        for A in itertools.combinations(range(T), a):
            G = E[:, A].T @ E[:, A]
            isometry = max(isometry, np.linalg.norm(G - np.eye(a), 2))
            rest = [i for i in range(T) if i not in A]
            for b in range(1, min(2 * q, len(rest)) + 1):
                for B in itertools.combinations(rest, b):
                    orthogonality = max(orthogonality, np.linalg.norm(E[:, A].T @ E[:, B], 2))
    return isometry, orthogonality


def best_head_risk(first_layer, length, sparsity, width):
    """E_y ||A_y P||_F^2 with the selection matrices A_y written out; tokens one after another in the input vector."""
    inputs = length * width
    P = np.eye(inputs) - np.linalg.pinv(first_layer) @ first_layer
    subsets = all_subsets(length, sparsity)
    total = 0.0
    for subset in subsets:
        A = np.zeros((width, inputs))
        for position in subset:
            A[:, position * width : (position + 1) * width] = np.eye(width) / sparsity
        total += np.linalg.norm(A @ P) ** 2
    return total / len(subsets)
