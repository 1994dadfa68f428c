"""Parity in one gradient step: chains of thought as a binary tree of products, with and without teacher forcing."""

from stairwise.lab.contract.paper import Paper
from stairwise.papers.parity_onestep.answers import ANSWERS
from stairwise.papers.parity_onestep.claims import LEDGER
from stairwise.papers.parity_onestep.data import TASK
from stairwise.papers.parity_onestep.presets import EXPERIMENTS
from stairwise.papers.parity_onestep.weights import CONSTRUCTIONS, TENSORS

PAPER = Paper(
    id="parity_onestep",
    title="Transformers Provably Solve Parity Efficiently with Chain of Thought",
    authors="J. Kim, T. Suzuki",
    year=2025,
    venue="ICLR",
    arxiv="2410.08633",
    summary="one gradient step learns any parity from chains of thought; without them it stays hidden",
    claims=tuple(LEDGER.claims),
    experiments=EXPERIMENTS,
    answers=ANSWERS,
    constructions=CONSTRUCTIONS,
    tensors=TENSORS,
    tasks=(TASK,),
)

fig_onestep, fig_staircase, fig_regimes = (PAPER.figure(f"fig-{name}") for name in ("onestep", "staircase", "regimes"))
fig_phase, fig_scaling, fig_dimension = (PAPER.figure(f"fig-{name}") for name in ("phase", "scaling", "dimension"))
fig_lam, fig_link, fig_noise, fig_oracle = (PAPER.figure(f"fig-{name}") for name in ("lam", "link", "noise", "oracle"))
fig4, fig5 = (PAPER.figure(name) for name in ("fig4", "fig5"))
