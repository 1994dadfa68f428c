"""Every statement as a check: importing this package fills the ledger, and imports no JAX."""

from importlib import import_module

from in_context_regression.claims.ledger import LEDGER

for _part in ("exact", "optimum", "figures"):  # in the order in which the ledger lists them
    import_module(f"{__name__}.{_part}")

__all__ = ["LEDGER"]
