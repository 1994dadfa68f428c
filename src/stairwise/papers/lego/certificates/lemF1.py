"""Lemmas F.1 and F.5: off its diagonal Q43 gets a term from every other predicate, not from predicate 1 alone.

S_3 on three values, chains of L = 3, step 2, features of Theorem C.1 for B = 12, all scores 0. Entry (x_1, x_2) of Q43
is the score of predicate 3 alone; the printed lemmas leave it without a gradient.
"""

from itertools import permutations, product

import numpy as np

GROUP, B, C = list(permutations(range(3))), 12.0, 5 / 4
alpha, beta = 2 * B * C / (1 + C), 2 * B / (1 + C)


def loss(score: float) -> float:
    """The mean loss of the value token at step 2, with this score on predicate 3 and 0 on all other clauses."""
    attention = np.exp([0.0, 0.0, score, 0.0, 0.0])
    attention /= attention.sum()
    total = 0.0
    for y0, *actions in product(range(3), GROUP, GROUP, GROUP):
        y1 = actions[0][y0]
        Lambda = np.zeros((3, 3))  # neuron y of class j
        for weight, g in zip(attention[:3], actions, strict=True):
            Lambda += weight * np.array([[alpha if g[y] == j else -beta for y in range(3)] for j in range(3)])
        for weight, value in zip(attention[3:], (y0, y1), strict=True):
            Lambda += weight * np.array([beta if y == value else -alpha for y in range(3)])
        F = np.minimum(np.maximum(Lambda, 0).sum(axis=1), B)  # the limit rho -> 0 of the smoothed ReLU
        total += np.log(np.exp(F).sum() + 20) - F[actions[1][y1]]  # and 20 classes that are no values
    return total / (3 * 6**3)


slope = (loss(1e-4) - loss(-1e-4)) / 2e-4
assert abs(slope) > 0.1, slope
print(f"dLoss/dQ43 at (x_1, x_2) is {slope:.4f}; Lemmas F.1 and F.5 as printed have no term there")
