"""The figures, drawn from stored records."""

from stairwise.papers.lego.figures import attention, common, lengths, map, theory

__all__ = ["attention", "common", "lengths", "map", "theory"]
