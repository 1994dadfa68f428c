"""Lemma A.3 of "Transformers Provably Learn Sparse Token Selection" (ICML 2024) as printed is false: off y, |<e_i,
e_y>| may exceed delta/(1-2 delta). Needs nothing but Python; all numbers are exact.
"""

from fractions import Fraction
from itertools import product

Q, BLOCKS = 5, 256  # d_e = 2^6 * 256 = 2^14; v is the majority of x_1..x_5 in 30 of 256 blocks, and r in the others
points = [(x, r, block) for block in range(BLOCKS) for r in (1, -1) for x in product((1, -1), repeat=Q)]
named = [[x[i] for x, _, _ in points] for i in range(Q)]  # e_1..e_5 times sqrt(d_e): the named positions y
v = [(1 if sum(x) > 0 else -1) if block < 30 else r for x, r, block in points]  # e_6 times sqrt(d_e)
inner = lambda a, b: Fraction(sum(s * t for s, t in zip(a, b, strict=True)), len(points))  # noqa: E731

assert all(inner(named[i], named[j]) == (i == j) for i in range(Q) for j in range(Q))
(c,) = {inner(v, each) for each in named}
# The Gram matrix is I but for c between e_6 and each named one. So E_y^T E_y = I, e_y is their sum, and
overlap = Q * c  # = <e_6, e_y>. For disjoint A, B the block G_AB is one row of at most Q entries c: its norm is at most
delta_squared = Q * c**2  # delta^2, attained; ||G_AA - I|| is at most sqrt(Q - 1) c, which is less.
above = Fraction(983, 10_000)  # a rational upper bound on delta
assert delta_squared < above**2
assert above < Fraction(1, 10)
allowed = above / (1 - 2 * above)
assert overlap > allowed
print(f"delta < {float(above)}: |<e_6, e_y>| = {float(overlap):.4f} > {float(allowed):.4f} > delta/(1-2 delta)")
