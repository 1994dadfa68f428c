"""What the paper proves, as functions; printed and corrected forms stand side by side.

`stairwise where composition "Lemma 29"` leads from a statement to its function. Blocks of the stream and letters are
numbered from 0 here, layers and heads from 1.
"""
