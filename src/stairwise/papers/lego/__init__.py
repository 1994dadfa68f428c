"""LEGO state tracking: a chain of group actions, attention that concentrates, and how far it carries in length."""

from stairwise.lab.contract.paper import Paper
from stairwise.papers.lego.answers import ANSWERS
from stairwise.papers.lego.claims import LEDGER
from stairwise.papers.lego.data import TASK
from stairwise.papers.lego.presets import EXPERIMENTS
from stairwise.papers.lego.weights import CONSTRUCTIONS, TENSORS

PAPER = Paper(
    id="lego",
    title="Transformers Provably Learn Chain-of-Thought Reasoning with Length Generalization",
    authors="Y. Huang, Z. Wen, A. Singh, Y. Chi, Y. Chen",
    year=2025,
    venue="",
    summary="one layer learns to track states by attending to two clauses; how sharply decides how far it extrapolates",
    claims=tuple(LEDGER.claims),
    experiments=EXPERIMENTS,
    answers=ANSWERS,
    constructions=CONSTRUCTIONS,
    tensors=TENSORS,
    tasks=(TASK,),
)

fig1a, fig1b, fig1a_map = (PAPER.figure(f"fig1{part}") for part in ("a", "b", "a-map"))
fig2, fig5, fig6, fig7 = (PAPER.figure(f"fig{number}") for number in (2, 5, 6, 7))
fig_positions, fig_controls = (PAPER.figure(f"fig-{name}") for name in ("positions", "controls"))
