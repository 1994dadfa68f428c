"""The filter of Section 3.3 with eps0 <= 1: a zeroed level is at distance 1 from -1, so the level after it is open."""

from itertools import product

# k = 8 bits at W = 0 (nothing is trained), phi = -1 + 4 t^2 - 2 t^4; tokens of level l see all tokens below
k, eps0 = 8, 0.9
inputs = [x for x in product((1, -1), repeat=k) if sum(x) in (0, 2, -2)]  # unlabelled inputs, nearly balanced
assert all(any(x[j] == 1 for x in inputs) for j in range(k))


def phi(t):
    return -1 + 4 * t**2 - 2 * t**4


tokens, gates = [list(x) for x in inputs], [True]
for level in (1, 2, 3):
    nodes = k >> level
    outputs = [phi(sum(row) / len(row)) if gates[-1] else 0.0 for row in tokens]
    uninformative = max(abs(u + 1) for u in outputs) < eps0  # all nodes of a level are alike at W = 0
    gates.append(not uninformative)
    tokens = [row + [u] * nodes for row, u in zip(tokens, outputs, strict=True)]
# level 1 is near -1, so level 2 is zeroed, as it should be; level 2 outputs 0, so level 3 is open again
assert gates[:3] == [True, False, True], gates
print(f"the filter with eps0 = {eps0}: levels 1, 2, 3 are open, closed, open again, although nothing is trained")
