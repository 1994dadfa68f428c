"""The paper's figures and ours, drawn from stored records."""

from stairwise.papers.composition.figures import after_steps, algorithms, encoder, sweeps

__all__ = ["after_steps", "algorithms", "encoder", "sweeps"]
