"""k-fold composition: what no gradient sees at once is learned from easy-to-hard data, one layer a step."""

from stairwise.lab.contract.paper import Paper
from stairwise.papers.composition.answers import ANSWERS
from stairwise.papers.composition.claims import LEDGER
from stairwise.papers.composition.data import TASK
from stairwise.papers.composition.presets import EXPERIMENTS
from stairwise.papers.composition.weights import CONSTRUCTIONS, TENSORS

PAPER = Paper(
    id="composition",
    title="Learning Compositional Functions with Transformers from Easy-to-Hard Data",
    authors="Z. Wang, E. Nichani, A. Bietti, A. Damian, D. Hsu, J. D. Lee, D. Wu",
    year=2025,
    venue="COLT",
    summary="k-fold composition is hidden from gradients, and learned by curricula or mixtures of shorter hops",
    claims=tuple(LEDGER.claims),
    experiments=EXPERIMENTS,
    answers=ANSWERS,
    constructions=CONSTRUCTIONS,
    tensors=TENSORS,
    tasks=(TASK,),
)

fig3_left, fig3_mid, fig3_right = (PAPER.figure(f"fig3-{panel}") for panel in ("left", "mid", "right"))
fig_staircase, fig_threshold, fig_sharing = (
    PAPER.figure(f"fig-{name}") for name in ("staircase", "threshold", "sharing")
)
fig_repetition, fig_values, fig_sparse = (PAPER.figure(f"fig-{name}") for name in ("repetition", "values", "sparse"))
fig_any_blocks, fig_hardness = (PAPER.figure(f"fig-{name}") for name in ("any-blocks", "hardness"))
