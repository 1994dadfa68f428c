"""Lemma 26's proof of Wen et al. (2025), in exact arithmetic: the attention part puts out eps/24, not eps/3."""

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


eps = F(1)
eta2 = 4 * eps * m / 3  # as Lemma 25's proof has it
bit, secret_bit, q = 0, 1, 1  # b[i+1] = 1, at i = n+2
found = sum(h * p[2 * q + bit] * -eta2 * gradient(h, p, True)[secret[q], secret_bit] for h, p in neurons)
assert found == eta2 / (32 * m) == eps / 24
assert abs(found - eps / 3) > eps / 150
print(f"the output is {found} eps, where eps/3 within eps/150 is printed")
