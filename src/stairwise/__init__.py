"""Stairwise: results on how transformers learn step-by-step reasoning, executable."""
