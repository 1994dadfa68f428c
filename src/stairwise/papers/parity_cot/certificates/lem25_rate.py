"""Lemma 25's proof of Wen et al. (2025): eta0 + eta1 < 5 n eta2 (Lemma 5.8) does not give its last inequality."""

from fractions import Fraction as F

n, m, eta2 = 1000, 20, F(1)
rates = 4 * n * eta2  # eta0 + eta1
assert rates < 5 * n * eta2
left, right = rates / (20 * m * n) + eta2 / (200 * m), eta2 / (100 * m)
assert left > right
most = n * eta2 / 10  # what the printed terms need; with the right mean 1/(4m(n+1)) it is (n+1) eta2 / 50
assert most / (20 * m * n) + eta2 / (200 * m) == right
print(f"eta0 + eta1 = 4 n eta2: {left} eta2 is not below {right} eta2; n eta2 / 10 is needed")
