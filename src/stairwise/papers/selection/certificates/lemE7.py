"""Lemma E.7 of "Transformers Provably Learn Sparse Token Selection" (ICML 2024): the printed increment of alpha has a
plus before its last term, and gradient descent has a minus. Needs nothing but Python; all numbers are exact.

On the family V = alpha [I 0] the loss is (d/2) ||Y/q - alpha S||^2 (Lemma E.3), with S = s on y and (1-qs)/(T-q) off
y. V moves by -eta times its gradient, so alpha moves by -(eta/d) dL/dalpha.
"""

from fractions import Fraction

T, q, d, s, alpha = 4, 2, 1, Fraction(1, 3), Fraction(4, 5)
other = (1 - q * s) / (T - q)


def loss(alpha):
    return Fraction(d, 2) * (q * (Fraction(1, q) - alpha * s) ** 2 + (T - q) * (alpha * other) ** 2)


h = Fraction(1, 1000)
slope = (loss(alpha + h) - loss(alpha - h)) / (2 * h)  # exact: the loss is quadratic in alpha
true = -slope / d
printed = s * (1 - q * alpha * s + alpha * (1 - q * s) ** 2 / ((T - q) * s))
corrected = s * (1 - q * alpha * s - alpha * (1 - q * s) ** 2 / ((T - q) * s))
assert true == corrected != printed
print(f"T={T}, q={q}, s={s}, alpha={alpha}: alpha moves by eta times {true}, not {printed}")
