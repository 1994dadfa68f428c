"""The list that every claim is entered in."""

from stairwise.lab.contract import Ledger

LEDGER = Ledger()
