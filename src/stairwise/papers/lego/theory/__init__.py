"""What the paper proves, as functions; printed and corrected forms stand side by side.

| statement | file |
| --- | --- |
| Definition 3.5 with 5d-wide vectors, and the notation (13), (22), (23) | `literal.py` |
| all chains, or a handful of them, as a population | `chains.py` |
| gradients by autodiff | `exact.py` |
| Facts A.1, D.1, E.1, F.1 and Lemmas D.1 to F.2: gradients of W and Q | `gradients.py` |
| Lemmas A.1, A.2, Facts B.1, C.2: gradients on T^1, entry by entry | `first_step.py` |
| Appendix A as a run: the variable token | `retrieval.py` |
| Facts B.2 to B.4, Lemmas B.11, C.1: logit bounds, the start, tails | `start.py` |
| Theorems B.1, C.1: what the features become, and how they grow | `features.py`, `phases.py` |
| Lemmas B.12, B.13: the tensor power method | `tensor_power.py` |
| Lemmas D.3 to F.8: Lambda and refined gradients on the ideal FFN | `refined.py` |
| the events of Appendices D, E, F | `events.py` |
| two-step chains up to relabelling | `orbits.py` |
| Section 6.2.1: dilution; how far it carries | `dilution.py`, `lengths.py` |

Values, classes and clauses are numbered from 0 here, steps l and slots from 1 where a docstring says so.
"""
