"""Claims that run the algorithm, at sizes that their ledger does not list."""

import dataclasses

import numpy as np

from stairwise.papers.parity_onestep.claims import onestep, running, staircase
from stairwise.papers.parity_onestep.config import Quantiser
from tests.papers.parity_onestep.test_theory_claims import check, theory

LEARNED = {"task.bits": 48, "task.size": 8, "samples": 65_536, "seeds": 2}
INTEGERS = {"task.bits": 24, "task.size": 4, "samples": 300_000, "steps": 2, "rate.lam": 9.0, "seeds": 1}
SATURATED = {"task.bits": 24, "task.size": 8, "samples": 16_000, "block": 16_000, "steps": 3, "seeds": 1}


def test_one_step_learns_at_another_size_with_all_seeds_listed():
    verdict = check("thm5", LEARNED)
    assert verdict.status == "holds", (verdict, verdict.details)
    assert verdict.hypotheses_met
    assert [row["seed"] for row in verdict.details if "seed" in row] == [1, 2]


def test_too_few_samples_are_named_and_speak_not_against_the_theorem():
    verdict = check("thm5", {**LEARNED, "samples": 2048, "seeds": 1})
    assert any("samples=2048" in hypothesis for hypothesis in verdict.hypotheses)
    assert verdict.status == "vacuous"


def test_an_oracle_is_borne_or_not_by_its_strength():
    sizes = {"task.bits": 48, "task.size": 8, "samples": 131_072, "seeds": 1}
    assert check("thm5-oracle", sizes).status == "holds"
    assert check("thm5-oracle", {**sizes, "weak": 0.5}).status == "fails"


def test_the_error_law_holds_at_another_size_and_can_fail():
    sizes = {"task.bits": 40, "task.size": 8, "samples": 32_768, "seeds": 2}
    assert check("error-law", sizes).status == "holds"
    assert check("error-law", {**sizes, "allowed": 1e-6}).status == "fails"


def test_integer_weights_climb_the_tree_and_have_the_form_of_equation_11():
    verdict = check("thm7", {**INTEGERS, "target": 0.05})
    assert verdict.status == "holds", (verdict, verdict.hypotheses, verdict.details)
    assert check("eq11", INTEGERS).status == "holds"


def test_saturating_weights_climb_it_with_fewer_samples():
    assert check("thm7-saturating", SATURATED).status == "holds"
    verdict = check("eq11-saturating", SATURATED)
    assert verdict.status == "holds"
    assert "[10.] [10.] [10.]" in verdict.details[1]["child weights by level"]


def test_without_rounding_the_staircase_falls_and_says_why():
    verdict = check("thm7", {**INTEGERS, "quantiser.spacing": 0.0})
    assert verdict.status == "vacuous"
    assert any("weights are rounded" in hypothesis for hypothesis in verdict.hypotheses)


def test_children_near_a_half_integer_are_a_violated_hypothesis():
    config = theory()["thm7"].cases[0]
    straddling = dataclasses.replace(config, samples=400_000, rate=dataclasses.replace(config.rate, lam=9.6))
    assert staircase.hypotheses(config, 0) == ()
    assert any("tears children of level 1" in hypothesis for hypothesis in staircase.hypotheses(straddling, 0))


def test_failure_rates_are_reported_without_a_verdict():
    for id in ("thm5-prob", "thm7-prob"):
        verdict = check(id, {"bits": (8,), "epsilon": 1.5, "seeds": 2})
        assert verdict.status == "reported"
        assert {row["d"] for row in verdict.details} == {8}


def test_claims_about_the_same_runs_share_them():
    config = dataclasses.replace(onestep.THEOREM_5, samples=4096, seeds=1)
    other = running.Runs(task=config.task, samples=4096, rate=config.rate, seeds=1)
    assert running.outcomes(config, 0)[0] is running.outcomes(other, 0)[0]
    assert Quantiser(10.0, 1.0).kind == "saturating"


def test_the_predicted_error_bounds_that_of_the_runs():
    config = dataclasses.replace(onestep.THEOREM_5, samples=65_536, seeds=2)
    root, worst = onestep.predicted_errors(config, 0)
    rows = running.finals(config, 0, "root sup", "nodes sup")
    assert max(row["root sup"] for row in rows) <= root
    assert np.max([row["nodes sup"] for row in rows]) <= worst
