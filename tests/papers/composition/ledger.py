"""What the tests of the ledger share: the ids, and how a claim is run at other sizes."""

import jax

from stairwise.lab.config import update
from stairwise.papers.composition.claims.ledger import LEDGER

# the statements of the paper, and what the specification adds to them
IDS = (
    *("task-fold", "task-cyc", "thm4", "thm9", "thm5", "lem10", "rem11", "lem12", "cor13", "sq-spectrum", "lem15"),
    *("lem19", "lem24", "lem18", "lem23", "lem28", "lem36", "lem16", "lem20", "lem25", "lem17", "lem22", "lem27"),
    *("lem21", "lem26", "lem29", "lem31", "lem33", "lem37", "margin-pop", "thm7", "thm8", "appE", "lem30", "lem32"),
    *("lem34", "lem35", "lem29-const", "lem37-const", "lem20-pert", "lem25-pert", "mix-zero", "rem6", "appB-center"),
    *("sec7-size", "sec5.4-mtp", "def2", "def3", "fig2"),
)
FIGURES = ("fig3-left", "fig3-mid", "fig3-right")
PRINTED = {
    *("thm4-printed", "thm9-printed", "thm5-printed", "lem10-printed", "lem12-printed", "lem15-printed"),
    *("lem18-printed", "lem31-printed", "lem34-printed", "lem37-printed"),
}
OURS = {"any-k", "thm5-average", "thm5-small", "lem15-scores", "value-signal", "sample-rule", "plateau"}


def theory():
    import stairwise.papers.composition.claims  # noqa: F401  fills the ledger

    return {claim.id: claim for claim in LEDGER.claims if claim.check is not None}


def check(id, sizes, seed=1):
    claim = theory()[id]
    with jax.enable_x64(claim.precision == 64):
        return claim.check(update(claim.cases[0], sizes), seed)
