"""Every statement of the paper as a check: importing this package fills the ledger."""

from importlib import import_module

from stairwise.papers.parity_onestep.claims.ledger import LEDGER

# in the order in which the ledger lists them
for _part in (
    "tree",
    "links",
    "chain",
    "samples",
    "hardness",
    "hiding",
    "queries",
    "gradients",
    "expansion",
    "chained",
    "concentration",
    "attention",
    "onestep",
    "filter",
    "staircase",
    "figures",
    "learning",
):
    import_module(f"{__name__}.{_part}")

__all__ = ["LEDGER"]
