"""What the paper proves, as functions; printed and corrected forms stand side by side.

| statement | file |
| --- | --- |
| Lemma 10, Remark 11: inner products as exact rationals, by counting, by sampling | `inner.py` |
| the Gram spectrum and the average-case query bound (beyond the paper) | `spectrum.py` |
| Theorem 5 as a calculator | `queries.py` |
| Lemma 12, Corollary 13: volumes and packings | `packing.py` |
| Remark 6, Section 7: samples and bits that information alone asks for | `counting.py` |
| Definitions 2 and 3 with full matrices | `literal.py` |
| losses and gradients over all examples, or a batch | `exact.py` |
| Lemmas 15, 18, 19, 23, 24, 28: population gradients, margins, the plateau | `population.py` |
| Lemmas 16, 20, 25: noise; sample size and learning rate | `noise.py` |
| Lemmas 17 to 37: perturbation bounds | `perturbation.py` |
| how far a network is from the ideal one | `streams.py` |
| Algorithms 1 and 2 to the letter | `descent.py` |
| Appendix E: value matrices | `values.py` |

Blocks of the stream and letters are numbered from 0 here, layers and heads from 1.
"""
