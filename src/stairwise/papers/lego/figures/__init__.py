"""The figures, drawn from stored records."""

from stairwise.papers.lego.figures import attention, inductions, length_curves, lengths, map, theory

__all__ = ["attention", "inductions", "length_curves", "lengths", "map", "theory"]
