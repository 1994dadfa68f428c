"""Every statement of the paper as a check: importing this package fills the ledger, and imports no JAX."""

from stairwise.papers.selection.claims.ledger import LEDGER

from stairwise.papers.selection.claims import figures  # noqa: E402, F401

__all__ = ["LEDGER"]
