"""Lemma 8 as printed, for k = Theta(d): at k = d the mean parity is +-1 at every input."""

from fractions import Fraction
from itertools import combinations, product
from math import prod

for d in (4, 6, 8, 10):
    k = d  # k = Theta(d)
    subsets = list(combinations(range(d), k))
    means = [Fraction(sum(prod(x[j] for j in p) for p in subsets), len(subsets)) for x in product((1, -1), repeat=d)]
    assert all(abs(mean) == 1 for mean in means)
print("Lemma 8 as printed: |E_p p(x)| = 1 at every x for k = d = 4, 6, 8, 10; it needs d-k = Theta(d) as well")
