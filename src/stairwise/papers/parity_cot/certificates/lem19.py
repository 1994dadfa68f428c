"""Lemma 19 of Wen et al. (2025) at Assumption 2's sizes: the mean of Delta is farther off than the bound."""

from math import log, sqrt

n, delta, eps = 1e70, 0.1, 1.0
L = log(n / delta)
k = n / L**5
d, m, B = k * L**1.1, 2 * k, 1.28e7 / eps**2 * n * L**20
assert d < n  # Lemma 5.1
assert n * k > B
# in units of eta0: at j = S[n+1] and i > n+1 the mean of Delta is 1/(16m(n+1)) (lem18.py), where 0 is printed
leak = 1 / (16 * m * (n + 1))
bound = 10 / (m * n) * sqrt(n / B * k / d) * (log(300 * m / delta) + log(n) + log(B))
assert leak > bound
print(f"n = 1e70: Delta is off by {leak:.3g} eta0 in the mean, and Lemma 19 allows {bound:.3g} eta0")
