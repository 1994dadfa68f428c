"""The last display in the proof of Corollary E.9 of "Transformers Provably Learn Sparse Token Selection" (ICML 2024)
lacks epsilon and a factor 1/q2 in its first term. Needs nothing but Python; all numbers are exact.

The term is (d/2) T2/((T2-q2) q2) (r x)^2, with r x the bound on 1 - q2 s at the test sizes: r = q1 (T2-q2)/(q2
(T1-q1)) and x^2 = q1 (T1-q1) epsilon/(d T1).
"""

from fractions import Fraction

T1, q1, T2, q2, d = 200, 3, 400, 5, 5
epsilon = Fraction(d * T1, 200 * (T1 - q1) * q1)  # half of the largest that the theorem allows
r = Fraction(q1 * (T2 - q2), q2 * (T1 - q1))
x_squared = q1 * (T1 - q1) * epsilon / (d * T1)
true = Fraction(d, 2) * Fraction(T2, (T2 - q2) * q2) * r**2 * x_squared
printed = Fraction(T2 * (T2 - q2) * q1**3, 2 * q2**2 * T1 * (T1 - q1))
corrected = Fraction(T2 * (T2 - q2) * q1**3, 2 * q2**3 * T1 * (T1 - q1)) * epsilon
assert true == corrected != printed
assert true != printed * epsilon  # the power of q2 is wrong too
print(f"the first term is {float(true):.3g}, not {float(printed):.3g}")
