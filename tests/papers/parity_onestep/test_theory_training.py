"""Claims that run the algorithm, at sizes that their ledger does not list."""

import dataclasses

import pytest

from stairwise.config import update
from stairwise.papers.parity_onestep import train
from stairwise.papers.parity_onestep.claims import onestep, running, staircase
from stairwise.papers.parity_onestep.config import Descent
from tests.papers.parity_onestep.test_theory_claims import check

pytestmark = pytest.mark.slow

ONE_STEP = {"task.bits": 48, "task.size": 8, "samples": 131_072}
INTEGERS = {"task.bits": 24, "task.size": 4, "samples": 400_000, "steps": 2, "rate.lam": 9.5}
SATURATED = {"task.bits": 24, "task.size": 8, "samples": 16_000, "block": 16_000, "steps": 3}


def test_one_step_learns_at_another_size():
    verdict = check("thm5", ONE_STEP)
    assert verdict.status == "holds", (verdict, verdict.details)


def test_claims_about_the_same_runs_share_them():
    config = update(onestep.ONE_STEP, ONE_STEP)
    other = Descent(task=config.task, samples=config.samples, rate=config.rate)
    assert running.outcome(config, 1) is running.outcome(other, 1)


@pytest.mark.parametrize(("id", "sizes"), [("thm5", ONE_STEP), ("thm7", INTEGERS), ("eq11", INTEGERS)])
def test_ascent_makes_the_theorem_fail(monkeypatch, id, sizes):
    """Inside the hypotheses a wrong algorithm is a failure, not an excuse."""
    right = train.learning_rate
    monkeypatch.setattr(train, "learning_rate", lambda *arguments: -right(*arguments))
    running._outcome.cache_clear()
    running._program.cache_clear()
    verdict = check(id, sizes)
    running._outcome.cache_clear()
    running._program.cache_clear()
    assert verdict.status == "fails"
    assert verdict.hypotheses_met


def test_the_error_law_holds_at_another_size_and_can_fail():
    assert check("error-law", {**ONE_STEP, "rate.lam": 9.0}).status == "holds"
    assert check("error-law", {**ONE_STEP, "allowed": 1e-6}).status == "fails"


def test_too_few_samples_are_outside_the_theorem():
    verdict = check("thm5", {**ONE_STEP, "samples": 2048})
    assert verdict.status == "outside"
    assert "n >= d^(2+eps)" in verdict.hypotheses


def test_an_oracle_is_borne_or_not_by_its_strength():
    assert check("thm5-oracle", ONE_STEP).status == "holds"
    verdict = check("thm5-oracle", {**ONE_STEP, "weak": 0.5})
    assert verdict.status == "outside"
    assert "C = weak moves the root by less than the target" in verdict.hypotheses


def test_integer_weights_climb_the_tree_and_have_the_form_of_equation_11():
    verdict = check("thm7", INTEGERS)
    assert verdict.status == "holds", (verdict, verdict.hypotheses, verdict.details)
    assert check("eq11", INTEGERS).status == "holds"
    assert check("thm7", {**INTEGERS, "target": 1e-9}).status == "fails"


def test_saturating_weights_climb_it_with_fewer_samples():
    assert check("thm7-saturating", SATURATED).status == "holds"
    verdict = check("eq11-saturating", SATURATED)
    assert verdict.status == "holds"
    assert any("children of level 3 have weight 10" in row.get("quantity", "") for row in verdict.details)


def test_without_rounding_the_weights_leave_equation_11_and_the_verdict_says_why():
    verdict = check("thm7-saturating", {**SATURATED, "quantiser.spacing": 0.0})
    assert not verdict.hypotheses_met
    assert "weights are rounded" in verdict.hypotheses


def test_children_near_a_half_integer_and_missing_steps_are_violated_hypotheses():
    straddling = dataclasses.replace(
        staircase.INTEGERS, samples=400_000, rate=dataclasses.replace(staircase.INTEGERS.rate, lam=9.6)
    )
    assert all(staircase.theorem_7(staircase.INTEGERS).values())
    assert not staircase.theorem_7(straddling)["eta0 keeps the weights of children off half-integers"]
    short = dataclasses.replace(staircase.INTEGERS, steps=2)
    assert not staircase.theorem_7(short)["a step for every level of the tree"]


def test_failure_rates_are_reported_without_a_verdict():
    for id in ("thm5-prob", "thm7-prob"):
        verdict = check(id, {"bits": (8,), "epsilon": 1.5, "repeats": 1})
        assert verdict.status == "reported"
        assert {row["d"] for row in verdict.details if "d" in row} == {8}
