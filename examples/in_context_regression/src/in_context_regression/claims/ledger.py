"""The list that every claim is entered in."""

from stairwise.paper import Ledger

LEDGER = Ledger()
