"""Lemma 25 of Wen et al. (2025), in exact arithmetic: step 3 moves a neuron by a quarter of what is printed."""

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


eta2 = F(1)
h, p = F(1, 2 * m), (1, 0, 1, 0)  # nu_{i,0} > 0 > nu_{i,1}: the indicator of Lemma 25 is 1, the sign is +
found = -eta2 * gradient(h, p, True)[secret[1], 0]
printed = -h * eta2  # -sign(nu h_r) eta2 / (2m), which is -2 eps / 3 at eta2 = 4 eps m / 3
assert found == printed / 4
two_steps = eta2 / (200 * m)  # the most that the proof leaves to the first two steps
assert abs(found - printed) - two_steps > eta2 / (100 * m)
print(f"step 3 moves it by {found} eta2, where {printed} eta2 is printed, within {eta2 / (100 * m)} eta2")
