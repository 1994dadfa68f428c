"""Theorem D.4 of "Transformers Provably Learn Sparse Token Selection" (ICML 2024), proof: the least growth of C that is
printed "for all t" is not met by gradient descent. Needs nothing but Python.

Section D.2 gives the update of alpha and C; the proof says that C grows by (eta/8)(1-qs)^2/(q(T-1)(Tqs^2-2qs+1)) or
more at every step. It takes q(T-q)s^2 to be at least Tqs^2-2qs+1, and it is that less (1-qs)^2.
"""

from math import exp

T, q, d = 200, 3, 5
eta, alpha, C = 1 / (20 * d**2), 0.0, 0.0
worst = 1.0
for _ in range(600_000):
    s = 1 / (q + (T - q) * exp(-C))
    D = T * q * s**2 - 2 * q * s + 1
    grown = eta * alpha * d / (T - 1) * s * (1 - q * s) * (1 + q * alpha * (1 - T * s) / (T - q))
    printed = eta / 8 * (1 - q * s) ** 2 / (q * (T - 1) * D)
    if alpha >= 0.99:  # Phase II, for every epsilon that the theorem allows
        worst = min(worst, grown / printed)
    alpha, C = alpha + eta * s * (1 - alpha * D / ((T - q) * s)), C + grown
assert worst < 0.64
print(f"T={T}, q={q}, d={d}: in Phase II C grows by as little as {worst:.3f} times the printed least")
