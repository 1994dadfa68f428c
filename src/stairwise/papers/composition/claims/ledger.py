"""The list that every claim of the paper is entered in."""

from stairwise.lab.contract.claims import Ledger

LEDGER = Ledger()
