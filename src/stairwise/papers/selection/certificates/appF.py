"""Appendix F of "Transformers Provably Learn Sparse Token Selection" (ICML 2024) says that encodings which are
sampled with a threshold on pairwise inner products satisfy RIP. At the paper's T=200, q=3, d_e=170, delta is far
above the 1/10 that Theorem 3.3 needs, at every threshold that rejection sampling can meet. Needs NumPy; inner
products are exact integers.
"""

import numpy as np

T, q, width = 200, 3, 170
rng = np.random.default_rng(0)
for threshold in (0.2, 0.25, 0.3, 0.35):
    signs = rng.choice([-1, 1], (T, width))
    while True:  # rows that are too close to an earlier one are drawn again
        close = (np.abs(np.tril(signs @ signs.T, -1)) > threshold * width).any(axis=1)
        if not close.any():
            break
        signs[close] = rng.choice([-1, 1], (int(close.sum()), width))
    gram = signs @ signs.T - width * np.eye(T, dtype=int)
    # Definition A.1 with |A| = 1 and |B| = 2q: delta is at least the norm of one row of G at 2q other positions
    delta = np.sqrt(np.sort(gram**2, axis=1)[:, -2 * q :].sum(axis=1).max()) / width
    print(f"threshold {threshold}: delta >= {delta:.3f}")
    assert delta > 0.3
