"""Sparse token selection: attention learns to select, fully connected nets cannot, stochastic positions generalise."""

from stairwise.lab.contract.paper import Paper
from stairwise.papers.selection.answers import ANSWERS
from stairwise.papers.selection.claims import LEDGER
from stairwise.papers.selection.data import TASK
from stairwise.papers.selection.presets import EXPERIMENTS
from stairwise.papers.selection.weights import CONSTRUCTIONS, TENSORS

PAPER = Paper(
    id="selection",
    title="Transformers Provably Learn Sparse Token Selection While Fully-Connected Nets Cannot",
    authors="Z. Wang, S. Wei, D. Hsu, J. D. Lee",
    year=2024,
    venue="ICML",
    arxiv="2406.06893",
    summary="attention learns to select; stochastic positions generalise in length",
    claims=tuple(LEDGER.claims),
    experiments=EXPERIMENTS,
    answers=ANSWERS,
    constructions=CONSTRUCTIONS,
    tensors=TENSORS,
    tasks=(TASK,),
)

fig1, fig2, fig3, fig4 = (PAPER.figure(f"fig{n}") for n in (1, 2, 3, 4))
fig5, fig6, fig7, fig8 = (PAPER.figure(f"fig{n}") for n in (5, 6, 7, 8))
