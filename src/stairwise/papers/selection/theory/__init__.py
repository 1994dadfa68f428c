"""What the paper proves, as functions; printed and corrected forms stand side by side.

| statement | file |
| --- | --- |
| Lemmas D.1, D.2, D.5 (3.2), eq. 6, Theorem 3.1 (D.4) and its proof, the sharp rate | `onehot.py` |
| Lemmas E.2-E.5, E.7 (3.4), E.15, Theorem 3.3 (E.6) and its proof, Corollary E.8 | `stochastic.py` |
| Definition A.1, Lemmas A.2, A.3 and its counterexample, rejection sampling, laws of encodings | `encodings.py` |
| Theorems 3.5 (C.1) and C.2, the optimal first layer | `fcn.py` |
| Theorem C.3 | `construction.py` |
| Corollary 3.6 (E.9), the loss at other lengths and subset sizes | `generalisation.py` |
| Definition 2.5, Lemmas D.2 and E.3: exact population losses of the model, by enumeration | `population.py` |

Here `task` gives the sizes T, q, d; times are in units of 1/eta, that is "time" means eta t.
"""
