"""Proposition 3 as printed, for the loss E(h-f)^2: a model whose gradient varies more than E||grad f||^2/|H|."""

from fractions import Fraction
from itertools import combinations, product

d, k = 4, 2
cube = list(product((1, -1), repeat=d))
parities = [[x[a] * x[b] for x in cube] for a, b in combinations(range(d), k)]


def inner(p, q):
    return Fraction(sum(a * b for a, b in zip(p, q, strict=True)), len(cube))


# the class is orthonormal; f = sum_p theta_p p at theta = 0, so that grad f is the list of all parities
assert all(inner(p, q) == (p is q) for p in parities for q in parities)
bound = sum(inner(p, p) for p in parities) / len(parities)  # E||grad f||^2 / |H|
gradients = [[-2 * inner(h, p) for p in parities] for h in parities]  # of E(h-f)^2 in theta
mean = [sum(column) / len(parities) for column in zip(*gradients, strict=True)]
variance = sum(sum((g - m) ** 2 for g, m in zip(row, mean, strict=True)) for row in gradients) / len(parities)
assert variance > bound
print(f"Proposition 3 as printed: the variance is {variance}, above E||grad f||^2/|H| = {bound}")
