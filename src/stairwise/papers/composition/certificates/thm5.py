"""Theorem 5, end of its proof: with r = log N the number of queries is not of order N^{(k/2) log N}.

The proof's own expression is q = (1/2) ((log N)! log N/(2N))^{k/2}. Since (log N)! <= (log N)^{log N} = N^{log log N},
it is at most N^{(k/2) log log N}, and its share of the printed exponent tends to 0.
"""

from math import lgamma, log

k, shares = 16, []
for power in (8, 16, 32, 64, 128, 256):
    r = power * log(10)  # log N
    proven = k / 2 * (lgamma(r + 1) + log(r) - log(2) - r) - log(2)
    printed = k / 2 * r * r
    assert proven <= k / 2 * r * log(r)
    shares.append(proven / printed)
assert shares == sorted(shares, reverse=True)
assert shares[0] < 0.1
print(f"Theorem 5: log q is {shares[0]:.3f} of what is printed at N = 1e8, and {shares[-1]:.3f} at N = 1e256")
