"""Every statement of the paper as a check: importing this package fills the ledger."""

from importlib import import_module

from stairwise.papers.selection.claims.ledger import LEDGER

# in the order in which the ledger lists them
for _part in (
    "definitions",
    "encodings",
    "onehot",
    "onehot_descent",
    "stochastic",
    "stochastic_descent",
    "induction",
    "fcn",
    "generalisation",
    "widths",
    "figures",
):
    import_module(f"{__name__}.{_part}")

__all__ = ["LEDGER"]
