"""The paper's figures and ours, drawn from stored records."""

from stairwise.papers.composition.figures import algorithms, common, encoder, sweeps

__all__ = ["algorithms", "common", "encoder", "sweeps"]
