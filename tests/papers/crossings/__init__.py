"""The tests of the crossings, and how they ask for a verdict on hand-made runs."""

from collections.abc import Sequence
from typing import Any

from stairwise.lab.contract.verdict import Verdict
from stairwise.papers.crossings import PAPER


def judged(claim: str, records: Sequence[Any]) -> Verdict:
    return PAPER.claim(claim).judged(records)
