"""The figures, drawn from stored records."""

from stairwise.papers.lego.figures import attention, common, inductions, lengths, map, theory

__all__ = ["attention", "common", "inductions", "lengths", "map", "theory"]
