"""Every statement of the paper as a check: importing this package fills the ledger, and imports no JAX."""

from stairwise.papers.selection.claims.ledger import LEDGER

__all__ = ["LEDGER"]
