"""Sizes at which claims once raised, or failed without a word on why."""

import warnings

import jax
import pytest

from stairwise.config import ConfigError, update
from stairwise.papers.lego.claims.ledger import LEDGER

CLAIMS = {claim.id: claim for claim in LEDGER.claims if claim.check is not None}
INTRANSITIVE = "[[0,1,2],[1,0,2]]"
# claim, sizes, status, and the hypothesis that the verdict must name, if any
ODD = [
    ("dilution", {"scores": (15.0, 0.0, 15.0, 0.0)}, "holds", ""),
    ("lemB13", {"start": 0.99}, "holds", ""),
    ("lemB13", {"start": 0.9999}, "vacuous", ""),
    ("thmB1-scale", {"steps": 2000, "points": 100}, "fails", ""),  # descent has not ended
    ("thmB1-flow", {"scale": "largest"}, "outside", "steps move a feature by at most 0.1 mu"),
]


@pytest.mark.parametrize(("name", "sizes", "status", "hypothesis"), ODD)
def test_odd_sizes(name, sizes, status, hypothesis):
    claim = CLAIMS[name]
    with jax.enable_x64(True), warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        verdict = claim.at(update(claim.cases[0], sizes), 0)
    assert verdict.status == status
    assert any(hypothesis in named for named in verdict.hypotheses) if hypothesis else verdict.hypotheses_met


def test_the_theorems_on_features_name_what_a_small_size_leaves_out():
    for id, action in (("thmB1", "C3"), ("thmC1", "S3")):
        claim = CLAIMS[id]
        assert not claim.unmet(claim.cases[0])
        small = update(claim.cases[0], {"vocabulary": 256, "sigma0": 1e-4, "activation": "flat", "action": action})
        assert set(claim.unmet(small)) == {"sigma_0 = d^-1/2 (Assumption 3.3)", "the activation of Assumption B.2"}


def test_theorem_c1_is_asked_of_all_permutations_only():
    for id in ("thmC1", "thmC1-general"):
        claim = CLAIMS[id]
        assert not any(claim.unmet(case) for case in claim.cases)
        square = update(claim.cases[0], {"action": "D4", "neurons": 12})
        assert list(claim.unmet(square)) == ["the actions are all permutations (Assumption 5.1)"]
        assert not CLAIMS["thmC1-lift"].unmet(square)


@pytest.mark.parametrize("name", ["lemB12", "lemB13"])
def test_too_many_steps_are_one_line(name):
    with pytest.raises(
        ConfigError, match=r"start=1e-200, learning_rate=0.001 need about 10.* steps, which must be at most"
    ):
        update(CLAIMS[name].cases[0], {"start": 1e-200})


def test_few_variables_and_a_low_clip_are_named():
    """The runs themselves take longer than a test should."""
    claim = CLAIMS["stage2.1"]
    assert not claim.unmet(claim.cases[0])
    few = update(claim.cases[0], {"network.clip_factor": 0.1, "variables": 5})
    assert {"|X| >= 64", "C_B >= 3.5"} <= set(claim.unmet(few))
