"""Every statement of the paper as a check: importing this package fills the ledger."""

from importlib import import_module

from stairwise.papers.composition.claims.ledger import LEDGER

# in the order in which the ledger lists them
for _part in (
    "definitions",
    "constructions",
    "hardness",
    "queries",
    "packing",
    "gradients",
    "readouts",
    "values",
    "noise",
    "samples",
    "curriculum",
    "mixture",
    "sensitivity",
    "figures",
):
    import_module(f"{__name__}.{_part}")

__all__ = ["LEDGER"]
