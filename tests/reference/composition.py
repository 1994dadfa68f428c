"""k-fold composition written out: one-hot tensors, full d x d weights, softmax over all positions, autodiff.

Everything is counted from 0, blocks of the residual stream too. Slow and obvious.
"""

import itertools
import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np

# --- the task ---------------------------------------------------------------------------------------------------------


def every_sequence(blocks, alphabet):
    """All of (S_N)^k as an array (count, k, N)."""
    return np.array(list(itertools.product(itertools.permutations(range(alphabet)), repeat=blocks)))


def hop(hidden, sequence, start, hops, x):
    """sigma_{i+r-1} pi_{i+r-1} ... sigma_i pi_i (x), one permutation after another."""
    blocks = len(sequence)
    for step in range(hops):
        block = (start + step) % blocks
        x = sequence[block][hidden[block][x]]
    return x


def hops_of(hidden, sequence, hops):
    """hop_i^r(j) at every (i, j), as one list over tokens."""
    blocks, alphabet = len(sequence), len(sequence[0])
    return [int(hop(hidden, sequence, i, hops, j)) for i in range(blocks) for j in range(alphabet)]


def agreement(hidden, other, start=0):
    """P(f_pi = f_rho) - 1/N over all sequences and x, counted one by one."""
    blocks, alphabet = len(hidden), len(hidden[0])
    agree = total = 0
    for sequence in every_sequence(blocks, alphabet).tolist():
        for x in range(alphabet):
            agree += hop(hidden, sequence, start, blocks, x) == hop(other, sequence, start, blocks, x)
            total += 1
    return Fraction(agree, total) - Fraction(1, alphabet)


# --- the model --------------------------------------------------------------------------------------------------------


def layers_of(blocks):
    return 1 + int(math.log2(blocks))


def embed(sequence):
    """X^(0), (d, T): column (i, j) holds E(i, j), E(i, sigma_i(j)) and zeros."""
    blocks, alphabet = sequence.shape
    T, depth = blocks * alphabet, layers_of(blocks)
    values = (jnp.arange(blocks, dtype=jnp.int32)[:, None] * alphabet + sequence).reshape(-1)
    eye = jnp.eye(T, dtype=jnp.float64)
    return jnp.concatenate([eye, eye[values].T, jnp.zeros((depth * T, T), dtype=jnp.float64)])


def value_matrix(blocks, alphabet, layer):
    """W_OV^(l): copies stream block l to block l+1 (layers from 1, blocks from 0)."""
    T, depth = blocks * alphabet, layers_of(blocks)
    unit = np.zeros((depth + 2, depth + 2))
    unit[layer + 1, layer] = 1
    return jnp.asarray(np.kron(unit, np.eye(T)), dtype=jnp.float64)


def attend(X, key_query):
    """The softmax over keys (rows) of X^T W X, a column for each query."""
    return jax.nn.softmax(X.T @ key_query @ X, axis=0)


def streams(key_queries, sequence, value_matrices=None):
    """X^(0), ..., X^(L)."""
    blocks, alphabet = sequence.shape
    found = [embed(sequence)]
    for layer, key_query in enumerate(key_queries, start=1):
        W_OV = value_matrix(blocks, alphabet, layer) if value_matrices is None else value_matrices[layer - 1]
        found.append(found[-1] + W_OV @ found[-1] @ attend(found[-1], key_query))
    return found


def losses(key_queries, readout, sequence, labels):
    """The cross-entropy of one head at every token."""
    logits = readout.T @ streams(key_queries, sequence)[-1]
    return -jnp.take_along_axis(jax.nn.log_softmax(logits, axis=0), labels[None], axis=0)[0]


def no_key_queries(blocks, alphabet):
    d = blocks * alphabet * (layers_of(blocks) + 2)
    return [jnp.zeros((d, d), dtype=jnp.float64) for _ in range(layers_of(blocks))]


def first_readout(blocks, alphabet, head, beta0):
    """Psi_l(0) = beta0 e_{l+1} (x) 1_k (x) I_N, blocks from 0."""
    T, depth = blocks * alphabet, layers_of(blocks)
    readout = np.zeros((depth + 2, T, alphabet))
    readout[head + 1] = beta0 * np.tile(np.eye(alphabet), (blocks, 1))
    return jnp.asarray(readout.reshape(-1, alphabet), dtype=jnp.float64)


def constructed(hidden, beta, upto=None):
    """Theorem 4: layer 1 sends (i, j) to (i, pi_i(j)), later layers compare block l with the next position's place."""
    blocks, alphabet = hidden.shape
    T, depth = blocks * alphabet, layers_of(blocks)
    weights = []
    for layer in range(1, depth + 1):
        W = np.zeros((depth + 2, T, depth + 2, T))
        for i, j in itertools.product(range(blocks), range(alphabet)):
            if layer == 1:
                W[0, i * alphabet + hidden[i][j], 0, i * alphabet + j] = beta
            else:
                W[0, (i + 1) % blocks * alphabet + j, layer, i * alphabet + j] = beta
        on = upto is None or layer <= upto
        weights.append(jnp.asarray(W.reshape(T * (depth + 2), -1) * on, dtype=jnp.float64))
    return weights


# --- exact gradients --------------------------------------------------------------------------------------------------


def population(hidden, head):
    """Every sequence, and the labels of head l (hop^{2^{l-1}}) at every token."""
    sequences = every_sequence(*hidden.shape)
    labels = np.array([hops_of(hidden.tolist(), sequence, 2 ** (head - 1)) for sequence in sequences.tolist()])
    return jnp.asarray(sequences, dtype=jnp.int32), jnp.asarray(labels, dtype=jnp.int32)


def population_loss(key_queries, readout, hidden, head):
    """The mean over all sequences and all queries."""
    sequences, labels = population(hidden, head)
    return jnp.mean(jax.vmap(lambda s, y: losses(key_queries, readout, s, y))(sequences, labels))


def key_query_gradient(hidden, layer, beta0, sharpness=800.0):
    """The population gradient in W_KQ^(l) under loss^(l), earlier layers ideal and this and later ones zero."""
    blocks, alphabet = hidden.shape
    weights = constructed(hidden, sharpness, upto=layer - 1)
    readout = first_readout(blocks, alphabet, layer, beta0)

    def loss(W):
        return population_loss([*weights[: layer - 1], W, *weights[layer:]], readout, hidden, layer)

    return np.asarray(jax.jit(jax.grad(loss))(weights[layer - 1]))


def readout_gradient(hidden, head, beta0, sharpness=800.0):
    """The population gradient in Psi_l, layers up to l ideal and later ones zero."""
    blocks, alphabet = hidden.shape
    weights = constructed(hidden, sharpness, upto=head)

    def loss(readout):
        return population_loss(weights, readout, hidden, head)

    return np.asarray(jax.jit(jax.grad(loss))(first_readout(blocks, alphabet, head, beta0)))


def blocks_of(gradient, tokens):
    """A (d, d) matrix as [row block, column block, T, T]."""
    depth = gradient.shape[0] // tokens
    return gradient.reshape(depth, tokens, depth, tokens).transpose(0, 2, 1, 3)
