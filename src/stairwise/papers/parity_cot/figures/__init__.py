"""The figures, drawn from stored records."""

from stairwise.papers.parity_cot.figures import (
    attention,
    beyond,
    complexity,
    grids,
    gsm8k,
    passes,
    run_dots,
    theorem3,
    traces,
)

__all__ = ["attention", "beyond", "complexity", "grids", "gsm8k", "passes", "run_dots", "theorem3", "traces"]
