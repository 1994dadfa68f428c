"""Parity with and without a chain of thought: exponentially many samples against linearly many."""

from stairwise.lab.contract.paper import Paper
from stairwise.papers.parity_cot.answers import ANSWERS
from stairwise.papers.parity_cot.claims import LEDGER
from stairwise.papers.parity_cot.data import TASK
from stairwise.papers.parity_cot.presets import EXPERIMENTS
from stairwise.papers.parity_cot.weights import CONSTRUCTIONS, TENSORS

PAPER = Paper(
    id="parity_cot",
    title="From Sparse Dependence to Sparse Attention: Unveiling How Chain-of-Thought Enhances Transformer Sample"
    " Efficiency",
    authors="K. Wen, H. Zhang, H. Lin, J. Zhang",
    year=2025,
    venue="ICLR",
    arxiv="2410.05459",
    summary="parity takes exponentially many samples without a chain of thought, linearly many with it",
    claims=tuple(LEDGER.claims),
    experiments=EXPERIMENTS,
    answers=ANSWERS,
    constructions=CONSTRUCTIONS,
    tensors=TENSORS,
    tasks=(TASK,),
)
