"""Sizes at which claims once raised, or failed without a word on why."""

import warnings

import jax
import pytest

from stairwise.lab.config import ConfigError, update
from stairwise.papers.lego.claims.dynamics import clip_above_log, many_variables
from stairwise.papers.lego.claims.ledger import LEDGER

CLAIMS = {claim.id: claim for claim in LEDGER.claims if claim.check is not None}
INTRANSITIVE = "[[0,1,2],[1,0,2]]"
# claim, sizes, status, and the hypothesis that the verdict must name, if any
ODD = [
    ("factB3", {"action": "C1", "neurons": 1}, "vacuous", ""),
    ("lemC1", {"action": INTRANSITIVE, "draws": 50}, None, "must be transitive"),
    ("dilution", {"scores": (15.0, 0.0, 15.0, 0.0)}, "holds", ""),
    ("lemB13", {"start": 0.99}, "holds", ""),
    ("lemB13", {"start": 0.9999}, "vacuous", ""),
    ("lemB12", {"start": 0.9999}, "vacuous", "rate=0.001 must go to 0"),
    ("lemB12", {"start": 0.9, "rate": 1.0}, "vacuous", "rate=1 must go to 0"),
    ("thm4.1-regular", {"actions": ("C3",)}, "vacuous", "action=C3 must not be commutative"),
    ("thm4.1-regular", {"actions": ("S3",)}, "vacuous", "action=S3 must be free"),
    ("fig4", {"task.length": 1}, "vacuous", "task.length=1 must be at least 2"),
    ("fig4", {"task.action": "C1"}, "vacuous", "task.action=C1 must have at least 2 values"),
    ("fig4", {"task.action": "[[0,1],[0,1]]"}, "vacuous", "must have two actions that differ"),
    ("fig4", {"scores": (1.0, -5.0, 1.0, -5.0)}, "vacuous", "must be at least 3.3"),
    ("thmB1", {"steps": 2000, "seeds": 1}, "vacuous", "steps=2000 must be enough for descent to end"),
    ("lemB5", {"steps": 2000}, "vacuous", "steps=2000 must be enough for descent to end"),
    ("lemB6", {"steps": 2000}, None, "steps=2000 must be enough for descent to end"),
    ("lemB10", {"steps": 2000}, "vacuous", "steps=2000 must be enough for descent to end"),
    ("defB3-curriculum", {"seeds": 1, "scale": "largest"}, None, "rate=0.02 must be small: the first step moves"),
    ("fig3", {"scores": (0.0, 0.0, 0.0, 0.0)}, "vacuous", "must put at least .4"),
]


@pytest.mark.parametrize(("name", "sizes", "status", "hypothesis"), ODD)
def test_odd_sizes(name, sizes, status, hypothesis):
    claim = CLAIMS[name]
    with jax.enable_x64(True), warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        verdict = claim.check(update(claim.cases[0], sizes), 0)
    assert verdict.status == (status or verdict.status) != "fails"
    assert any(hypothesis in named for named in verdict.hypotheses) if hypothesis else verdict.hypotheses_met


def test_confounders_below_zero_are_no_failure_of_theorem_b1():
    """Small steps leave one neuron to each pair, and confounders that nothing lifts again."""
    claim = CLAIMS["thmB1"]
    with jax.enable_x64(True):
        verdict = claim.check(update(claim.cases[0], {"scale": "relative", "seeds": 1}), 0)
    assert (verdict.status, verdict.hypotheses_met) == ("holds", True)
    found = next(row for row in verdict.details if "cancellation/B" in row)
    assert found["least share"] > 0.99
    assert found["cancellation/B"] > 0.02 > 0 >= found["uncancelled/B"]
    assert "below zero" in verdict.note


@pytest.mark.slow
def test_the_features_of_six_values_are_those_of_theorem_b1_once_descent_has_ended():
    claim = CLAIMS["thmB1"]
    with jax.enable_x64(True):
        verdict = claim.check(update(claim.cases[0], {"action": "C6", "steps": 80_000, "seeds": 1}), 0)
    assert (verdict.status, verdict.hypotheses_met) == ("holds", True)


@pytest.mark.slow
def test_the_curriculum_of_six_values_is_that_of_the_flow():
    claim = CLAIMS["defB3-curriculum"]
    with jax.enable_x64(True):
        verdict = claim.check(update(claim.cases[0], {"action": "C6", "steps": 60_000, "seeds": 1}), 0)
    assert (verdict.status, verdict.hypotheses_met, verdict.measured) == ("holds", True, 1.0)


@pytest.mark.parametrize("name", ["lemB12", "lemB13"])
def test_too_many_steps_are_one_line(name):
    with pytest.raises(ConfigError, match=r"start=1e-200, rate=0.001 need about 10.* steps, which must be at most"):
        update(CLAIMS[name].cases[0], {"start": 1e-200})


def test_few_variables_and_a_low_clip_are_named():
    """The runs themselves take longer than a test should."""
    case = CLAIMS["stage2.1"].cases[0]
    assert not clip_above_log(case) + many_variables(case)
    assert clip_above_log(update(case, {"network.clip_factor": 0.1}))
    assert many_variables(update(case, {"variables": 5}))
