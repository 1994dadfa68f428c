"""What the paper proves, as functions; printed and corrected forms stand side by side.

| statement | file |
| --- | --- |
| Table 1, Lemmas 6 and 7 | `statistics.py` |
| Lemmas 12, 14, 18, 20, 21, 23, 25, 26: closed forms of the three steps | `gradients.py` |
| the right-hand sides of Lemmas 4, 10, 13, 15, 16, 19, 22, 30, 31, 32 | `bounds.py` |
| Assumption 2 and Lemma 5 in log space | `hyperparameters.py` |
| Theorem 2: its calculator, and Gaussian elimination | `memory.py` |
| few bits (the last sentences of Theorems 1 and 3) | `precision.py` |
| a run of the three steps with everything kept | `trajectory.py` |

Positions are counted from 0 in the code; the paper's i is position + 1, and its queries i = n+1, ..., n+k are the
last k positions.
"""
