"""Crossings: what one paper's idea does to another paper's task. Each has a hypothesis written before it was run.

A crossing is a folder of its own: `config`, `__init__` (presets, and hypotheses as claims), `train` and `figures`.
"""

from stairwise.lab.contract.paper import Paper
from stairwise.papers.crossings import (
    atlas,
    depth,
    filter,
    positions,
    repetition,
    retrieval,
    sparsity,
    supervisions,
    variance,
)

CROSSINGS = (supervisions, sparsity, variance, retrieval, positions, repetition, filter, depth, atlas)

PAPER = Paper(
    id="crossings",
    title="Crossings: one paper's idea on another paper's task",
    authors="The Stairwise developers",
    year=2026,
    venue="this library",
    summary="hypotheses about what carries over between the papers, each written before its experiment was run",
    claims=tuple(claim for crossing in CROSSINGS for claim in crossing.LEDGER.claims),
    experiments=tuple(experiment for crossing in CROSSINGS for experiment in crossing.EXPERIMENTS),
)
