"""Lemma E.15 of "Transformers Provably Learn Sparse Token Selection" (ICML 2024) as printed, S_y(i) >= 1/(q + (T-q)
exp(-C (1-3 delta)/(1-2 delta))) for every E with RIP, is false. Needs nothing but Python.

Encodings: Hadamard columns e_1..e_5 (y names them), a sign vector e_6 with inner product c with each of them
(lemA3.py builds it exactly), and 15 Hadamard columns that are orthogonal to all of these. So delta = sqrt(5) c.
"""

from math import comb, exp, sqrt

T, q, C = 21, 5, 30.0
c = comb(4, 2) / 2**4 * 30 / 256  # <e_6, e_i> for i in y: the majority of five signs agrees with each by 3/8
delta = sqrt(q) * c
assert delta < 1 / 10
overlaps = [q * c] + [0.0] * (T - q - 1)  # <e_i, e_y> off y; it is 1 on y
total = sum(exp(C * (g - 1)) for g in overlaps)
leak = total / (q + total)  # 1 - q S_y(i)
decay = (T - q) * exp(-C * (1 - 3 * delta) / (1 - 2 * delta))
allowed = decay / (q + decay)  # 1 - q times the printed lower bound
assert leak > 1.1 * allowed
print(f"delta = {delta:.4f}, C = {C:g}: 1 - q S_y(i) = {leak:.3g} > {allowed:.3g}, the largest that the lemma allows")
