"""Lemma 18 of Wen et al. (2025), in exact arithmetic: alpha-bar does not cancel over b2 at i = n+1."""

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
    """kappa_{1,i,b} on one embedding after a step of rate eta0 = 1: -sum_r 1(nu > 0) h_r W[r, d:], W = -gradient."""
    return sum(h * p[2 * q + b] * gradient(h, p, False)[key] for h, p in neurons)


# gamma and zeta are 0 here: as printed, kappa at i = n+2 has nothing on e_{S[n+1]}
found = [kappa(1, b, (secret[0], b1)) for b in (0, 1) for b1 in (0, 1)]
leak = F(1, 16 * m * (n + 1))
assert found == [leak, -leak, leak, -leak]
wanted = kappa(1, 0, (secret[1], 0))
assert wanted == F(1, 32 * m * (n + 2))
print(f"kappa at i = n+2 has {found[0]} eta0 on e_S[n+1],0, where 0 is printed; on e_S[n+2],0 it has {wanted} eta0")
