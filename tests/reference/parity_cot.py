"""The simplified transformer of Wen et al., slow and obvious: dense weights, one sequence at a time, enumeration.

Nothing is shared with the package. Gradients are automatic derivatives of the dense forward pass. Positions are counted
from 0; queries are the last positions.
"""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np

# --- the task ---------------------------------------------------------------------------------------------------------


def chain(bits, secret):
    """Inputs, a 0, and the partial sums of the secret bits in the secret's order."""
    tokens = [int(bit) for bit in bits] + [0]
    for position in secret:
        tokens.append(tokens[-1] ^ tokens[position])
    return tokens


def answer_only(bits, secret):
    """Inputs, a 0, and the parity."""
    return [*map(int, bits), 0, sum(int(bits[position]) for position in secret) % 2]


def all_inputs(n):
    """The first bit changes fastest."""
    return [tuple(reversed(bits)) for bits in itertools.product((0, 1), repeat=n)]


# --- the network, dense -----------------------------------------------------------------------------------------------


def embed(E, tokens):
    """X: one column a position, chosen by its bit; E has the vector of bit b at position p as row 2p+b."""
    return jnp.stack([E[2 * p + bit] for p, bit in enumerate(tokens)], axis=1)


def forward(E, A, W, h, tokens):
    """Outputs at all positions: softmax(C + X'AX) over the keys of each column, h' ReLU(W [X; X P])."""
    X = embed(E, tokens)
    length = len(tokens)
    below = np.tril(np.ones((length, length)), -1) > 0  # row: key, column: query
    P = jax.nn.softmax(jnp.where(below, -jnp.inf, X.T @ A @ X), axis=0)
    return h @ jax.nn.relu(W @ jnp.concatenate([X, X @ P]))


def attention(E, A, tokens):
    """P, keys by queries."""
    X = np.stack([E[2 * p + bit] for p, bit in enumerate(tokens)], axis=1)
    scores = X.T @ A @ X
    P = np.zeros_like(scores)
    for i in range(len(tokens)):
        weights = np.exp(scores[: i + 1, i] - scores[: i + 1, i].max())
        P[: i + 1, i] = weights / weights.sum()
    return P


def hinge(output, label):
    return jnp.maximum((-1.0) ** label * output + 1, 0)


def linear(output, label):
    return (-1.0) ** label * output


def mean_loss(parameters, E, h, sequences, queries, loss):
    """(1/B) sum over sequences and queries; the last token is only a label."""
    A, W = parameters
    total = 0.0
    for tokens in sequences:
        outputs = forward(E, A, W, h, tokens[:-1])
        for i in range(len(tokens) - 1 - queries, len(tokens) - 1):
            total = total + loss(outputs[i], tokens[i + 1])
    return total / len(sequences)


def gradient(A, W, E, h, sequences, queries, loss):
    """(dL/dA, dL/dW) by automatic differentiation."""
    return jax.grad(mean_loss)((A, W), E, h, sequences, queries, loss)


# --- what is counted --------------------------------------------------------------------------------------------------


def alpha(sequences, queries):
    """sum of (-1)^{b[i+1]} 1(b[j] = b1, b[i] = b2), by query, key, b1, b2; keys after the query are not counted."""
    length = len(sequences[0]) - 1
    found = np.zeros((queries, length, 2, 2))
    for tokens in sequences:
        for q in range(queries):
            i = length - queries + q
            for j in range(i + 1):
                found[q, j, tokens[j], tokens[i]] += (-1) ** tokens[i + 1]
    return found


def worst_attention(E, A, secret, n):
    """The largest attention off the secret key, by query and its bit, over all bits at all keys: by enumeration."""
    k = len(secret)
    worst = np.zeros((k, 2))
    for q, target in enumerate(secret):
        i = n + q
        for bits in itertools.product((0, 1), repeat=i + 1):
            if bits[n] != 0:
                continue  # the token after the inputs is always 0
            P = attention(E, A, bits)
            worst[q, bits[i]] = max(worst[q, bits[i]], 1 - P[target, i])
    worst[0, 1] = worst[0, 0]
    return worst


# --- Theorem 1 --------------------------------------------------------------------------------------------------------


def theorem1(E, secret, n):
    """A, W, h as the (corrected) proof writes them."""
    k = len(secret)
    M = np.stack([E[2 * j + b] for j in secret for b in (0, 1)])
    dual = np.linalg.inv(M @ M.T) @ M
    V, U = dual.sum(axis=0), dual[1::2].sum(axis=0)
    query = E[2 * n]
    A = 40 * math.log(n) * np.outer(V, query)
    m = k + 1
    a, h = [], []
    for r in range(1, 2 * m + 1):
        if r <= m:
            a.append(-4 * math.ceil(r / 2) + 4)
        elif r == m + 1:
            a.append(1)
        else:
            a.append(-4 * math.floor((r - m) / 2) + 2)
        h.append(1.0 if r <= m else -1.0)
    W = np.stack([np.concatenate([value * query, 2 * k * U]) for value in a])
    return A, W, np.array(h)
