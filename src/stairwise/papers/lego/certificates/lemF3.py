"""Lemma F.3: Lambda sums over predicates 1..L_k and answers 0, 1, not over predicates 1, 2 and answers 0..L_k - 1.

L_k = 3, all scores equal: the context of step 2 has predicates 1, 2, 3 and answers 0, 1, each with attention 1/5.
Exact rational arithmetic, S_3 on three values, features of Theorem C.1 for V(phi) = 9: V = 10 or -8, 8 or -10.
"""

from fractions import Fraction
from itertools import permutations, product

ALPHA, BETA, SHARE = Fraction(10), Fraction(8), Fraction(1, 5)
of_action = lambda g, j, y: ALPHA if g[y] == j else -BETA  # noqa: E731
of_value = lambda value, y: BETA if value == y else -ALPHA  # noqa: E731

largest = Fraction(0)
for g1, g2, g3 in product(permutations(range(3)), repeat=3):
    for y0, j, y in product(range(3), repeat=3):
        y1 = g1[y0]
        shown = [of_action(g, j, y) for g in (g1, g2, g3)] + [of_value(v, y) for v in (y0, y1)]
        Lambda = SHARE * sum(shown)  # Definition 3.5
        printed = SHARE * (sum(shown[:2]) + sum(shown[3:]))  # answer 2 is not in the context: no attention
        largest = max(largest, abs(Lambda - printed))
assert largest == 2
print(f"Lambda differs from the printed sum by up to {largest} where V(phi) = 9: predicate 3 is left out")
