"""Lemma 21 of Wen et al. (2025), in exact arithmetic: the secret key's score goes with 1/i'^2, not with 1/i'."""

from fractions import Fraction as F
from itertools import product

n, k, secret = 3, 2, (0, 1)  # inputs, steps, S[n+1] and S[n+2] (counted from 0)
m = 4**k  # every pattern of 1(nu_{r,i,b} > 0) once with h = 1/(2m), once with h = -1/(2m)
neurons = [(F(s, 2 * m), p) for s in (1, -1) for p in product((0, 1), repeat=2 * k)]
batch = []  # every input once, with its chain
for x in product((0, 1), repeat=n):
    batch.append([*x, 0, x[secret[0]], x[secret[0]] ^ x[secret[1]]])


def gradient(h, p, one_hot):
    """dL/dW[r, d:] on every e_{j,b}, embeddings being orthonormal: attention is 1/i on all keys, or 1 on S[i]."""
    found = dict.fromkeys(product(range(n + k), (0, 1)), F(0))
    for b in batch:
        for q in range(k):
            i = n + q  # the paper's i - 1
            for j in [secret[q]] if one_hot else range(i + 1):
                share = F(1) if one_hot else F(1, i + 1)
                found[j, b[j]] += p[2 * q + b[i]] * h * (-1) ** b[i + 1] * share / len(batch)
    return found


def kappa(q, b, key):
    return sum(h * p[2 * q + b] * slopes[h, p][key] for h, p in neurons)


slopes = {(h, p): gradient(h, p, False) for h, p in neurons}
q, b2 = 1, 0  # i' = n+2
i, j = n + q, secret[q]
table = {(p, b1): kappa(q, b2, (p, b1)) for p in range(i + 1) for b1 in (0, 1)}
scores = [F(0), F(0)]  # of the secret key's two embeddings after a step of rate eta1 = 1, by Lemma 20
for b in batch:
    if b[i] == b2:
        w = [table[p, b[p]] for p in range(i + 1)]
        scores[b[j]] += F((-1) ** b[i + 1], i + 1) * (w[j] - sum(w) / (i + 1)) / len(batch)
printed = F(1, 8 * m * (i + 1) * 16)  # eta0 eta1 alpha-bar^2 / (8 B^2 m i')
assert all(abs(score - printed) > F(1, 2000 * m * n**2) for score in scores)
assert printed / (i + 1) < F(1, 128 * m * n**2)  # with i'^2 it is below eta0 eta1 / (128 m n^2), since i' > n
print(f"scores {scores[0]} and {scores[1]} (times eta0 eta1), where {printed} is printed")
