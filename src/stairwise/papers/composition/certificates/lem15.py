"""Lemma 15, score table for a permutation that is not the identity: two entries are others than printed.

k = 2 blocks of N = 3 letters, pi_1 a cycle (f = 0 fixed points), in rational arithmetic: g_1 is the mean over all
inputs of (sum_p X_{(p, sigma_p^{-1}(y))} - (1/N) sum of all X) X_q^T; scores are X^T g_1 X_q, times k N^2.
"""

from fractions import Fraction
from itertools import permutations, product

k, N = 2, 3
tokens = [(i, j) for i in range(k) for j in range(N)]
hidden = [(1, 2, 0), (1, 0, 2)]
inputs = list(product(permutations(range(N)), repeat=k))
entries = {}  # g_1[place of the key row, place of the query column], places in the two blocks of X


def places(sigma, token):
    return [(1, *token), (2, token[0], sigma[token[0]][token[1]])]


for sigma in inputs:
    for i, j in tokens:
        y = sigma[i][hidden[i][j]]
        for key in tokens:
            weight = (sigma[key[0]][key[1]] == y) - Fraction(1, N)
            for row, column in product(places(sigma, key), places(sigma, (i, j))):
                entries[row, column] = entries.get((row, column), 0) + weight / (len(inputs) * len(tokens))

sigma, query, f = inputs[7], (0, 2), 0
score = {
    key: k * N**2 * sum(entries.get(pair, 0) for pair in product(places(sigma, key), places(sigma, query)))
    for key in tokens
}
right, own = score[0, hidden[0][2]], score[query]
assert own == f - 2 != f - 1
assert right == N - 1 - Fraction(f - 1, N - 1) != N - 1
print(f"Lemma 15: the right key scores {right} and the own key {own}, where the table has {N - 1} and {f - 1}")
