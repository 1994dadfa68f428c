"""Lemma 23 of Wen et al. (2025), in exact arithmetic: one-hot attention leaves no 1/i, alpha-bar/B is 1/4 or 1/2."""

from fractions import Fraction as F
from itertools import product

n, k, secret = 8, 2, (0, 1)  # inputs, steps, S[n+1] and S[n+2] (counted from 0)
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


h, p = F(1, 2 * m), (1, 0, 1, 0)  # a neuron with nu_{i,0} > 0 > nu_{i,1} at both steps
found = [gradient(h, p, True)[j, 0] for j in secret]
assert found == [h / 2, h / 4]
printed = [h / (n + 1), h / (n + 2)]  # h_r (1/i) 1(nu_{r,i,b2} > 0) (-1)^{b1+b2}
assert all(abs(one - two) > h / 10 for one, two in zip(found, printed, strict=True))
print(
    f"n = {n}: the gradient on e_S[i],0 is {found[0]} and {found[1]}, where {printed[0]} and {printed[1]} are printed"
)
