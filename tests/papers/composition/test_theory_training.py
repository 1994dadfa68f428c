"""Claims about runs of Algorithms 1 and 2: one run of each, at a size that no ledger lists."""

import json
import math

import pytest

from stairwise.papers.composition.claims import curriculum
from stairwise.papers.composition.claims.running import Run
from stairwise.papers.composition.theory import population
from tests.papers.composition.ledger import IDS, OURS, PRINTED, check
from tests.papers.composition.test_theory_claims import OTHER_SIZES
from tests.papers.composition.test_theory_network import NETWORK

pytestmark = pytest.mark.slow

RUN = {"samples": 9216, "rate": 1.3e5, "beta0": 0.9, "sequences": 90}
TRAINED = (
    *("thm7", "plateau", "lem21", "lem26", "thm8", "lem31", "lem31-printed", "lem32", "lem33", "lem34", "lem37"),
)
SLOW = {"lem35"}  # eight blocks: half a minute


def test_every_claim_of_the_ledger_is_run_at_another_size():
    assert {*OTHER_SIZES, *NETWORK, *TRAINED, *SLOW} == {*IDS, *PRINTED, *OURS}


@pytest.mark.slow
@pytest.mark.parametrize("id", TRAINED)
def test_the_claim_has_its_status_at_a_size_of_the_users_own(id):
    verdict = check(id, RUN)
    json.dumps([dict(row) for row in verdict.details], allow_nan=False)  # it must fit into the store
    assert verdict.status == ("refuted" if id in PRINTED else "holds"), (verdict, verdict.details)


def test_too_few_samples_and_too_small_steps_are_named():
    found = Run(samples=100, rate=10.0, beta0=2.0).violated()
    assert [line.partition("=")[0] for line in found] == ["beta0", "samples", "rate"]


def test_too_small_a_step_is_no_evidence_against_the_lemma():
    verdict = check("lem21", {**RUN, "rate": 500.0})
    assert not verdict.hypotheses_met
    assert verdict.status in ("holds", "vacuous")


@pytest.mark.parametrize("id", ["lem32", "lem34"])
def test_attention_that_leaks_nothing_is_within_the_bound(id):
    assert check(id, {"task.blocks": 2, "task.alphabet": 2}).status == "holds"


def test_plateaus_of_too_few_samples_are_no_evidence():
    verdict = check("plateau", {"task.blocks": 2, "task.alphabet": 2, "samples": 3})
    assert verdict.status == "vacuous"
    assert "samples=3" in verdict.hypotheses[0]


def test_a_wrong_plateau_is_noticed(monkeypatch):
    monkeypatch.setattr(population, "plateau", lambda alphabet, beta0: math.log(alphabet) - 0.5)
    assert check("plateau", RUN).status == "fails"


def test_layers_that_move_are_noticed(monkeypatch):
    monkeypatch.setattr(curriculum, "STILL", 0.0)
    assert check("lem26", RUN).status == "fails"
