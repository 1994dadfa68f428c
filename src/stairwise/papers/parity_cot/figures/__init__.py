"""The figures, drawn from stored records."""

from stairwise.papers.parity_cot.figures import (
    attention,
    beyond,
    common,
    complexity,
    grids,
    language,
    passes,
    theorem3,
    traces,
)

__all__ = ["attention", "beyond", "common", "complexity", "grids", "language", "passes", "theorem3", "traces"]
