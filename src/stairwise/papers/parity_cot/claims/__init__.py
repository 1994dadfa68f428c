"""Every statement of the paper as a check: importing this package fills the ledger."""

from importlib import import_module

from stairwise.papers.parity_cot.claims.ledger import LEDGER

# in the order in which the ledger lists them
for _part in (
    "definitions",
    "embeddings",
    "construction",
    "hardness",
    "hyperparameters",
    "statistics",
    "first_step",
    "correlations",
    "second_step",
    "third_step",
    "theorem3",
    "batches",
    "figures",
    "passes",
    "beyond",
    "language_models",
):
    import_module(f"{__name__}.{_part}")

__all__ = ["LEDGER"]
