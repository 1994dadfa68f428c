"""Every statement of the paper as a check: importing this package fills the ledger."""

from importlib import import_module

from stairwise.papers.parity_onestep.claims.ledger import LEDGER

# in the order in which the ledger lists them
for _part in (
    "tree",
    "links",
    "chain",
    "hardness",
    "hiding",
    "gradients",
    "expansion",
    "chained",
    "concentration",
    "attention",
    "onestep",
    "filter",
    "staircase",
    "figures",
):
    import_module(f"{__name__}.{_part}")

__all__ = ["LEDGER"]
