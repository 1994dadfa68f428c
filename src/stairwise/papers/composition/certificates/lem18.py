"""Lemma 18: the gradient of Psi_1 has a second block, which is not printed.

k = 2 blocks of N = 3 letters, pi_1 the identity, layer 1 ideal, in rational arithmetic. With Z = e^{beta0} + N - 1 the
residual e_y - softmax is (N e_y - 1)/Z, so -Z times the gradient is the mean of x (N e_y - 1)^T over all inputs and
queries, x the column of the residual stream. Block 2 of x is E(i, sigma_i(j)): the token's own value is still there.
"""

from fractions import Fraction
from itertools import permutations, product

k, N = 2, 3
hidden = [(0, 1, 2), (1, 2, 0)]
inputs = list(product(permutations(range(N)), repeat=k))
second = {}  # block 2 of -Z k times the gradient: [position, letter shown, letter answered]
for sigma in inputs:
    for i, j in product(range(k), range(N)):
        y = sigma[i][hidden[i][j]]
        for s in range(N):
            place = (i, sigma[i][j], s)
            second[place] = second.get(place, 0) + Fraction(N * (s == y) - 1, len(inputs) * N)

wanted = {(s, t): (s == t) - Fraction(1, N) for s in range(N) for t in range(N)}  # I - U
for i, share in ((0, Fraction(1)), (1, Fraction(-1, N - 1))):  # c_i = (f_i - 1)/(N - 1)
    assert all(second[i, s, t] == share * wanted[s, t] for s, t in wanted)
assert second[0, 0, 0] == Fraction(2, 3)
print(
    "Lemma 18: block 2 of the gradient of Psi_1 is c_i (I - U), as large as the printed block where pi_i moves nothing"
)
