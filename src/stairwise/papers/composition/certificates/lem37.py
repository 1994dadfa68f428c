"""Lemma 37 for the first untrained layer itself: its gradient under a later loss does not vanish on ideal inputs.

k = 2 blocks of N = 3 letters, two layers, W_KQ = 0: attention is exactly uniform, so the printed bound is 0. The
derivative of loss^(2) in one entry of W_KQ^(1) is taken by a complex step, which loses no digits.
"""

import numpy as np

k, N, L, beta0 = 2, 3, 2, 1.0
T = k * N
hidden, sigma, query = np.array([[1, 2, 0], [0, 2, 1]]), np.array([[0, 2, 1], [2, 1, 0]]), 0


def loss(W1):
    """loss^(2) at one sample: block l+2 is block l+1 times the attention of layer l, and head 2 reads block 4."""
    place, value = np.eye(T), np.eye(T)[:, [i * N + sigma[i][j] for i in range(k) for j in range(N)]]
    weights = np.exp(place.T @ W1 @ place)
    third = value @ (weights / weights.sum(axis=0))
    fourth = third @ np.full((T, T), 1 / T)  # layer 2 has W_KQ = 0
    logits = beta0 * fourth[:, query].reshape(k, N).sum(axis=0)
    j = sigma[0][hidden[0][query]]
    label = sigma[1][hidden[1][j]]
    return np.log(np.exp(logits).sum()) - logits[label]


def derivative(entry):
    W = np.zeros((T, T), dtype=complex)
    W[entry] = 1e-30j
    return loss(W).imag / 1e-30


largest = max(abs(derivative((p, q))) for p in range(T) for q in range(T))
formula = beta0 * (1 - 1 / N) / T**2
assert abs(largest - formula) < 1e-15
assert largest > 0.01
print(f"Lemma 37: gradient of layer 1 under loss 2 is {largest:.6f} = beta0 (1 - 1/N)/(kN)^2, where the bound is 0")
