"""Every statement of the paper as a check: importing this package fills the ledger, and imports no JAX."""

from importlib import import_module
from importlib.util import find_spec

from stairwise.papers.composition.claims.ledger import LEDGER

# in the order in which the ledger lists them
for _part in (
    "definitions",
    "constructions",
    "hardness",
    "packing",
    "gradients",
    "readouts",
    "values",
    "noise",
    "curriculum",
    "mixture",
    "figures",
):
    if find_spec(f"{__name__}.{_part}"):
        import_module(f"{__name__}.{_part}")

__all__ = ["LEDGER"]
