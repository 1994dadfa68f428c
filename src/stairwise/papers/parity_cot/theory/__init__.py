"""What the paper proves, as functions; printed and corrected forms stand side by side.

`stairwise where parity_cot "Lemma 18"` says which function is which statement's. Positions are counted from 0 in the
code; the paper's i is position + 1, and its queries i = n+1, ..., n+k are the last k positions.
"""
