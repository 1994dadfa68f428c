"""Lemma 31: at step 2 the gradient of W_KQ^(2) under loss^(3) does not vanish on ideal inputs.

k = 4 blocks of N = 2 letters, three layers. Layer 1 is ideal, layers 2 and 3 have W_KQ = 0, so the stream is ideal and
the printed bound is 0. The derivative in one entry of W_KQ^(2) is taken by a complex step, which loses no digits.
"""

import numpy as np

k, N, beta0, query = 4, 2, 1.0, 0
T = k * N
hidden = np.array([[1, 0], [0, 1], [1, 0], [1, 0]])
sigma = np.array([[0, 1], [1, 0], [1, 0], [0, 1]])
hop = [i * N + sigma[i][hidden[i][j]] for i in range(k) for j in range(N)]
third = np.eye(T)[:, hop]  # what an ideal layer 1 writes: E(i, hop_i^1(j)) at token (i, j)


def loss(W2):
    """loss^(3) at one sample; W2 is the block (1, 3) of W_KQ^(2), which scores places against what layer 1 wrote."""
    weights = np.exp(np.eye(T) @ W2 @ third)
    fourth = third @ (weights / weights.sum(axis=0))
    fifth = fourth @ np.full((T, T), 1 / T)  # layer 3 has W_KQ = 0
    logits = beta0 * fifth[:, query].reshape(k, N).sum(axis=0)
    letter = query
    for i in range(4):
        letter = sigma[i][hidden[i][letter]]
    return np.log(np.exp(logits).sum()) - logits[letter]


def derivative(entry):
    W = np.zeros((T, T), dtype=complex)
    W[entry] = 1e-30j
    return loss(W).imag / 1e-30


largest = max(abs(derivative((p, q))) for p in range(T) for q in range(T))
assert abs(largest - beta0 * (1 - 1 / N) / T**2) < 1e-15
print(f"Lemma 31: gradient of layer 2 under loss 3 is {largest:.6f} on ideal inputs, where the bound is 0")
