"""What the paper proves, as functions; printed and corrected forms stand side by side.

The README's map, and `stairwise where parity_onestep "Lemma 6"`, lead from a statement to its function and its check.

Tokens are numbered from 0 here; V is the number of tokens that a node sees (m-1, or d_{h[m]-1} with the block mask).
"""
