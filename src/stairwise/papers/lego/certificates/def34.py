"""Definition 3.4: x^q/(q rho^{q-1}) on (-rho, rho] with a constant below is not continuously differentiable for even q.

Exact rational arithmetic at q = 4, rho = 1: the one-sided difference quotients at -rho tend to -1 from the right, and
are 0 from the left whatever the constant. On (-rho, 0) the function falls.
"""

from fractions import Fraction


def power(x: Fraction) -> Fraction:
    return x**4 / 4


for digits in range(1, 9):
    step = Fraction(1, 10**digits)
    slope = (power(-1 + step) - power(Fraction(-1))) / step
    assert abs(slope + 1) < 2 * step
assert power(Fraction(-1, 4)) < power(Fraction(-1, 2)) < power(Fraction(-3, 4))
print(f"slope at -rho: 0 from the left, {float(slope):.6f} from the right; it falls on (-rho, 0)")
