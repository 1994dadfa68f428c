"""The figures, drawn from stored records."""

from stairwise.papers.parity_onestep.figures import chain, common, hardness, learning, onestep, phase, sweeps

__all__ = ["chain", "common", "hardness", "learning", "onestep", "phase", "sweeps"]
