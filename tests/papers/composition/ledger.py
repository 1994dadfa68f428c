"""What the tests of the ledger share: how a claim is run at other sizes."""

import jax

from stairwise.config import update
from stairwise.papers.composition.claims import LEDGER


def claim_of(id):
    return next(claim for claim in LEDGER.claims if id in (claim.id, *claim.aliases))


def check(id, sizes, seed=1):
    claim = claim_of(id)
    with jax.enable_x64(claim.precision == 64):
        return claim.at(update(claim.cases[0], sizes), seed)
