"""The figures, drawn from stored records."""

from stairwise.papers.parity_onestep.figures import chain, hardness, learning, onestep, phase, seed_dots, sweeps

__all__ = ["chain", "hardness", "learning", "onestep", "phase", "seed_dots", "sweeps"]
