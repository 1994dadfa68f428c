"""Attention learns to find the marked token, and the whole course of learning is a closed form.

To change: what the paper is called and who wrote it. Nothing that is imported here may import JAX, so that
`stairwise list` stays instant.
"""

from stairwise.paper import Paper

from stairwise.skeleton.paper.claims import LEDGER
from stairwise.skeleton.paper.presets import EXPERIMENTS

PAPER = Paper(
    id="marked-token",
    title="Attention finds the marked token",
    authors="A. Author, B. Author",
    year=2026,
    venue="-",
    summary="one query learns to attend to the marked token; its loss and its descent are closed forms",
    claims=tuple(LEDGER.claims),
    experiments=EXPERIMENTS,
)
