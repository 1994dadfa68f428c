"""What the paper proves, as functions; printed and corrected forms stand side by side.

| statement | file |
| --- | --- |
| the link functions: ReQU units, remainders, the sharp constant of Lemma 4 | `links.py` |
| trivial products of tokens (proof of Theorem 5) | `census.py` |
| equations (7) to (10), their means and bounds | `expansion.py` |
| exact mean and noise of the gradient at W = 0, at every node (beyond the paper) | `population.py` |
| the leading-order noise law, and the error it causes (beyond the paper) | `noise.py` |
| concentration of the softmax, the error recursion of Theorem 5 | `recursion.py` |
| Lemmas 4, 6, 9, 10 and the bounds of Theorems 1 and 2 | `bounds.py` |
| Proposition 3, Theorem 2: variance and Gram matrix over all parities, by Walsh-Hadamard | `spectrum.py` |
| Theorems 1 and 2: descent against an oracle that hides the parity | `hiding.py` |
| Lemma 8 | `mean_parity.py` |
| the exponents of Theorem 2(2) | `exponents.py` |
| Theorem 7: updates by level, rounding, the constants of equation (11) | `staircase.py` |

Tokens are numbered from 0 here; V is the number of tokens that a node sees (m-1, or d_{h[m]-1} with the block mask).
"""
