"""Every statement of the paper as a check: importing this package fills the ledger."""

from importlib import import_module

from stairwise.papers.lego.claims.ledger import LEDGER

# in the order in which the ledger lists them
for _part in (
    "definitions",
    "groups",
    "gradients",
    "first_step",
    "retrieval",
    "retrieval_descent",
    "start",
    "tensor_power",
    "features",
    "phases",
    "emerging",
    "reduction",
    "bootstrapped",
    "refined",
    "refined_gradients",
    "routing",
    "dynamics",
    "readings",
    "longer",
    "logits",
    "pushes",
    "inductions",
    "lengths",
    "rot",
    "attention",
    "figures",
):
    import_module(f"{__name__}.{_part}")

__all__ = ["LEDGER"]
