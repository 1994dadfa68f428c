"""In-context linear regression: linear self-attention learns one step of preconditioned gradient descent."""

from stairwise.paper import Paper

from in_context_regression.claims import LEDGER
from in_context_regression.presets import EXPERIMENTS

PAPER = Paper(
    id="in-context-regression",
    title="Trained Transformers Learn Linear Models In-Context",
    authors="R. Zhang, S. Frei, P. L. Bartlett",
    year=2024,
    venue="JMLR",
    summary="linear attention learns one preconditioned gradient step, and a shift of the covariance breaks it",
    claims=tuple(LEDGER.claims),
    experiments=EXPERIMENTS,
)
