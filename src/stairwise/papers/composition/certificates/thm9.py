"""Theorem 9: the printed readout p_k (x) I counts the answer twice where block k is among those that move.

k = 2 blocks of N = 3 letters, block 2 moves (m = 1), in whole numbers: p_1 = (0, -1, 0) and p_2 = (1, 1, 0), the angles
being pi and 2 pi. In the limit of hard attention the last block of token (1, x) is p_2 (x) e_{f(sigma, x)}.
"""

N = 3
codes = {1: (0, -1, 0), 2: (1, 1, 0)}
hidden, sigma = {1: (0, 1, 2), 2: (1, 2, 0)}, {1: (2, 0, 1), 2: (1, 0, 2)}
for x in range(N):
    f = sigma[2][hidden[2][sigma[1][hidden[1][x]]]]
    last = [[code * (letter == f) for letter in range(N)] for code in codes[2]]
    printed = [sum(code * row[letter] for code, row in zip(codes[2], last, strict=True)) for letter in range(N)]
    corrected = [
        sum(code * row[letter] for code, row in zip((0, *codes[2][1:]), last, strict=True)) for letter in range(N)
    ]
    assert printed == [2 * (letter == f) for letter in range(N)]
    assert corrected == [int(letter == f) for letter in range(N)]
print("Theorem 9: the printed readout gives 2 e_f where block k moves; without the support's coordinates it gives e_f")
