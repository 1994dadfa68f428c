"""Lemma 34, a step of its proof: leaks of at most delta in every layer do not keep every block within delta.

Two layers over four tokens, in rational arithmetic. Every column of attention has mass 1 - delta on the right key and
delta on another one; each block is the one before it times the attention.
"""

from fractions import Fraction

delta, tokens = Fraction(1, 1000), 4


def attention(right, wrong):
    """Keys by queries: query q looks at right(q), and leaks to wrong(q)."""
    keys = range(tokens)
    return [[(1 - delta) * (p == right(q)) + delta * (p == wrong(q)) for q in keys] for p in keys]


def times(A, B):
    return [[sum(a * B[p][q] for p, a in enumerate(row)) for q in range(tokens)] for row in A]


first = attention(lambda q: q, lambda q: (q + 1) % tokens)
second = attention(lambda q: q, lambda q: (q + 2) % tokens)
block = times(times([[Fraction(p == q) for q in range(tokens)] for p in range(tokens)], first), second)
error = max(abs(block[p][q] - (p == q)) for p in range(tokens) for q in range(tokens))
assert error == 2 * delta - delta**2 > delta
print(f"Lemma 34: two layers that leak {delta} each leave a block {error} off, not {delta}")
