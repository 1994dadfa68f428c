"""Claims that run the algorithm, at sizes that their ledger does not list."""

import dataclasses

import pytest

from stairwise.lab.config import update
from stairwise.papers.parity_onestep.claims import onestep, running, staircase
from tests.papers.parity_onestep.test_theory_claims import check, theory

pytestmark = pytest.mark.slow

ONE_STEP = {"task.bits": 48, "task.size": 8, "samples": 131_072, "seeds": 2}
INTEGERS = {"task.bits": 24, "task.size": 4, "samples": 400_000, "steps": 2, "rate.lam": 9.5, "seeds": 1}
SATURATED = {"task.bits": 24, "task.size": 8, "samples": 16_000, "block": 16_000, "steps": 3, "seeds": 1}


def test_one_step_learns_at_another_size_with_all_seeds_listed():
    verdict = check("thm5", ONE_STEP)
    assert verdict.status == "holds", (verdict, verdict.details)
    assert verdict.hypotheses_met
    assert [row["seed"] for row in verdict.details if "seed" in row] == [1, 2]


def test_the_predicted_error_bounds_that_of_the_runs():
    config = update(onestep.THEOREM_5, ONE_STEP)
    root, worst = onestep.predicted_errors(config, 1)
    rows = running.finals(config, 1, "root sup", "nodes sup")
    assert 0 < max(row["root sup"] for row in rows) <= root <= worst
    assert max(row["nodes sup"] for row in rows) <= worst


def test_claims_about_the_same_runs_share_them():
    config = update(onestep.THEOREM_5, ONE_STEP)
    other = running.Runs(task=config.task, samples=config.samples, rate=config.rate, seeds=1)
    assert running.outcomes(config, 1)[0] is running.outcomes(other, 1)[0]


def test_the_error_law_holds_at_another_size_and_can_fail():
    assert check("error-law", ONE_STEP).status == "holds"
    assert check("error-law", {**ONE_STEP, "allowed": 1e-6}).status == "fails"


def test_too_few_samples_are_named_and_speak_not_against_the_theorem():
    verdict = check("thm5", {**ONE_STEP, "samples": 2048, "seeds": 1})
    assert any("samples=2048" in hypothesis for hypothesis in verdict.hypotheses)
    assert verdict.status == "vacuous"


def test_an_oracle_is_borne_or_not_by_its_strength():
    assert check("thm5-oracle", {**ONE_STEP, "seeds": 1}).status == "holds"
    verdict = check("thm5-oracle", {**ONE_STEP, "seeds": 1, "weak": 0.5})
    assert verdict.status == "vacuous"
    assert any("weak=0.5 moves the root" in hypothesis for hypothesis in verdict.hypotheses)


def test_integer_weights_climb_the_tree_and_have_the_form_of_equation_11():
    verdict = check("thm7", {**INTEGERS, "target": 0.05})
    assert verdict.status == "holds", (verdict, verdict.hypotheses, verdict.details)
    assert check("eq11", INTEGERS).status == "holds"
    leaking = check("thm7", {**INTEGERS, "target": 1e-9})
    assert leaking.status == "vacuous"
    assert any("leaks an error of about" in hypothesis for hypothesis in leaking.hypotheses)


def test_saturating_weights_climb_it_with_fewer_samples():
    assert check("thm7-saturating", SATURATED).status == "holds"
    verdict = check("eq11-saturating", SATURATED)
    assert verdict.status == "holds"
    assert "[10.] [10.] [10.]" in verdict.details[1]["child weights by level"]


def test_without_rounding_the_weights_leave_equation_11_and_the_verdict_says_why():
    verdict = check("eq11-saturating", {**SATURATED, "quantiser.spacing": 0.0})
    assert verdict.status == "vacuous"
    assert any("weights are rounded" in hypothesis for hypothesis in verdict.hypotheses)


def test_children_near_a_half_integer_and_missing_steps_are_violated_hypotheses():
    config = theory()["thm7"].cases[0]
    straddling = dataclasses.replace(config, samples=400_000, rate=dataclasses.replace(config.rate, lam=9.6))
    assert staircase.hypotheses(config, 0) == ()
    assert any("tears children of level 1" in hypothesis for hypothesis in staircase.hypotheses(straddling, 0))
    short = dataclasses.replace(config, steps=2)
    assert "steps=2 must be at least the height 3 of the tree" in staircase.hypotheses(short, 0)


def test_failure_rates_are_reported_without_a_verdict():
    for id in ("thm5-prob", "thm7-prob"):
        verdict = check(id, {"bits": (8,), "epsilon": 1.5, "seeds": 1})
        assert verdict.status == "reported"
        assert {row["d"] for row in verdict.details} == {8}
