"""The list that every claim of the paper is entered in."""

from stairwise.lab.contract import Ledger

LEDGER = Ledger()
