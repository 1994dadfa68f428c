"""The ledger of the theory: every statement once, at sizes of its own and of the user, with one line for bad sizes."""

import importlib
import json

import pytest

from stairwise.lab.config import ConfigError
from stairwise.papers.composition.claims.ledger import LEDGER
from tests.papers.composition.ledger import FIGURES, IDS, OURS, PRINTED, check, theory

# for each claim of this file a size that its ledger does not list
OTHER_SIZES = {
    "task-fold": {"task.blocks": 5, "task.alphabet": 2, "task.any_blocks": True},
    "task-cyc": {"task.blocks": 1, "task.alphabet": 5},
    "def2": {"task.blocks": 2, "task.alphabet": 4, "scale": 3.0},
    "def3": {"task.blocks": 3, "task.alphabet": 3, "task.any_blocks": True},
    "fig2": {"task.blocks": 2, "task.alphabet": 6, "beta": 30.0, "sequences": 7},
    "thm4": {"task.blocks": 4, "task.alphabet": 3, "betas": (17.0, 25.0), "sequences": 4},
    "thm4-printed": {"task.blocks": 4, "task.alphabet": 4},
    "any-k": {"task.blocks": 5, "task.alphabet": 3, "betas": (35.0,), "sequences": 3},
    "thm9": {"task.blocks": 4, "task.alphabet": 4, "task.moved": 2, "sequences": 3},
    "thm9-printed": {"task.blocks": 4, "task.alphabet": 4, "task.moved": 1, "sequences": 3},
    "lem10": {"task.blocks": 5, "task.alphabet": 2, "task.any_blocks": True, "pairs": 5},
    "lem10-printed": {"task.blocks": 4, "task.alphabet": 3},
    "rem11": {"task.blocks": 1, "task.alphabet": 5, "pairs": 5},
    "sq-spectrum": {"task.blocks": 2, "task.alphabet": 4},
    "thm5-average": {"task.blocks": 1, "task.alphabet": 5, "queries": 3},
    "appB-center": {"task.blocks": 1, "task.alphabet": 5},
    "thm5": {"blocks": 40, "alphabet": 321},
    "thm5-printed": {"blocks": 4, "alphabet": 77},
    "thm5-small": {"blocks": 12, "alphabet": 4},
    "lem12": {"blocks": 6, "alphabet": 11, "r": 4},
    "lem12-printed": {"alphabet": 7},
    "cor13": {"blocks": 3, "alphabet": 37},
    "rem6": {"task.blocks": 4, "task.alphabet": 3, "repeats": 60},
    "sec7-size": {"blocks": 12, "alphabet": 7, "precision": 3},
    "margin-pop": {"blocks": 2, "alphabet": 7},
    "lem15-scores": {"blocks": 2, "alphabet": 6},
    "lem15-printed": {"blocks": 2, "alphabet": 6},
    "lem16": {"task.blocks": 2, "task.alphabet": 6, "samples": (2000, 9000)},
    "lem20": {"task.blocks": 2, "task.alphabet": 6, "samples": (2000, 9000)},
    "lem25": {"task.blocks": 4, "task.alphabet": 4, "samples": (2000, 9000)},
    "sample-rule": {"task.blocks": 2, "task.alphabet": 6, "sequences": 15},
    "appE": {"task.blocks": 1, "task.alphabet": 4},
}


def test_every_statement_is_claimed_exactly_once():
    names = [name for claim in LEDGER.claims for name in (claim.id, *claim.aliases)]
    assert set(theory()) == {*IDS, *PRINTED, *OURS}
    assert len(names) == len(set(names))
    assert "thm14" in names
    assert len({*IDS, *FIGURES}) == len(IDS) + len(FIGURES) == 52
    assert {claim.id for claim in LEDGER.claims if claim.judge is not None} >= set(FIGURES)


def test_what_is_printed_and_what_is_ours_says_so():
    claims = theory()
    for id in PRINTED:
        assert claims[id].says.startswith("as printed")
    for id in OURS - {"lem15-scores"}:
        assert claims[id].says.startswith("beyond the paper")


@pytest.mark.parametrize("id", sorted(OTHER_SIZES))
def test_the_claim_has_its_status_at_a_size_of_the_users_own(id):
    verdict = check(id, OTHER_SIZES[id])
    json.dumps([dict(row) for row in verdict.details], allow_nan=False)  # it must fit into the store
    assert verdict.status == ("refuted" if id in PRINTED else "holds"), (verdict, verdict.details)
    if id in PRINTED and id != "lem10-printed":
        assert verdict.note


@pytest.mark.parametrize(
    ("id", "sizes", "named"),
    [
        ("sq-spectrum", {"task.alphabet": 2}, "task.alphabet=2 must be at least 3"),
        ("lem10-printed", {"task.blocks": 1}, "task.blocks=1 must be at least 2"),
        ("thm4-printed", {"task.blocks": 2}, "task.blocks=2 must be at least 4"),
        ("thm5-small", {"alphabet": 10}, "alphabet=10 must be at most 6"),
    ],
)
def test_hypotheses_that_the_sizes_violate_are_named(id, sizes, named):
    verdict = check(id, sizes)
    assert not verdict.hypotheses_met
    assert any(named in hypothesis for hypothesis in verdict.hypotheses), verdict.hypotheses
    assert verdict.status in ("holds", "vacuous")


@pytest.mark.parametrize(
    ("id", "sizes"),
    [
        ("thm5", {"alphabet": 5}),
        ("thm5", {"alphabet": 100, "r": 4}),
        ("lem12", {"alphabet": 6, "r": 3}),
        ("cor13", {"alphabet": 23}),
    ],
)
def test_a_bound_that_says_nothing_is_vacuous(id, sizes):
    verdict = check(id, sizes)
    assert verdict.status == "vacuous"
    assert verdict.note


@pytest.mark.parametrize(
    ("id", "sizes", "line"),
    [
        ("lem10", {"task.blocks": 8}, "task.blocks=8 of task.alphabet=3 letters have more than 20000 sequences"),
        ("lem15", {"task.blocks": 16}, "task.blocks=16 of task.alphabet=3 letters have more than 20000 sequences"),
        ("lem15", {"task.blocks": 3}, "task.blocks=3 must be a power of two unless any_blocks is set"),
        ("lem15", {"task.blocks": 3, "task.any_blocks": True}, "task.blocks=3 must be a power of two"),
        ("mix-zero", {"task.blocks": 3, "task.any_blocks": True}, "task.blocks=3 must be a power of two"),
        ("value-signal", {"task.blocks": 3, "task.any_blocks": True}, "task.blocks=3 must be a power of two"),
        ("lem19", {"task.blocks": 1}, "task.blocks=1 must be at least 2 for layer 2"),
        ("lem24", {"task.blocks": 2}, "task.blocks=2 must be at least 4 for layer 3"),
        ("lem28", {"task.blocks": 2}, "task.blocks=2 must be at least 4 for head 3"),
        ("lem15", {"task.hidden": (0, 1, 2, 0, 0, 1)}, "task.hidden: row 1 = [0, 0, 1] must be a permutation of 0..2"),
        ("thm9", {"task.moved": 9}, "task.moved=9 must be at most blocks=8"),
        ("thm9", {"task.moved": -1}, "task.moved=-1 must be at least 0"),
        ("thm4", {"task.blocks": 512}, "task.blocks*task.alphabet=2560 must be at most 512"),
        ("lem12", {"r": 12}, "r=12 must be at most alphabet=9"),
        ("lem12", {"blocks": 64}, "r=4 with blocks=64 asks for more than 2000 functions"),
        ("thm7", {"task.blocks": 64}, "task.blocks*task.alphabet=192 must be at most 64"),
        ("lem37-const", {"first": 3}, "first=3 must be below the number of layers 3"),
        ("lem37-const", {"first": 2}, "first=2 must be at most 1 for a layer between it and the last"),
        ("lem35", {"task.blocks": 4}, "task.blocks=4 must be at least 8 for a later layer"),
        ("rem11", {"samples": 10}, "samples=10 must be 0"),
        ("rem6", {"task.alphabet": 2}, "task.alphabet=2 must be at least 3"),
        ("lem29", {"betas": (10.0,)}, "betas=(10.0,) must be at least two sharpnesses"),
        ("lem32", {"task.blocks": 1}, "task.blocks=1 must be at least 2 for step 2"),
        ("lem16", {"samples": (1,)}, "samples=1 must be at least 2"),
    ],
)
def test_sizes_that_cannot_be_checked_are_refused_in_one_line(id, sizes, line):
    with pytest.raises(ConfigError) as refused:
        check(id, sizes)
    assert str(refused.value).startswith(line)
    assert "\n" not in str(refused.value)


def test_the_sample_rule_says_that_it_falls_short_at_two_letters():
    verdict = check("sample-rule", {"task.blocks": 4, "task.alphabet": 2, "sequences": 40})
    assert verdict.status == "not-reproduced"
    assert "too few: the last layer's margin is sqrt(factor (N-1)/2) = 4 deviations of the noise" in verdict.note


SMALL = {"task.blocks": 2, "task.alphabet": 2}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("id", "sizes", "status", "said"),
    [
        ("thm5-small", {"blocks": 1000, "alphabet": 5}, "holds", ""),
        ("thm5", {"blocks": 2, "alphabet": 13, "r": 6}, "vacuous", "r=6 needs 2 (2r/N)^{k/2} < 1 (tau^2)"),
        ("cor13", {"alphabet": 8}, "vacuous", "r=1"),
        ("lem10", {"samples": 1}, "vacuous", "samples=1 must be at least 5"),
        ("lem10", {"samples": 5, "task.blocks": 8}, "holds", ""),
        ("lem16", {"task.blocks": 1, "task.alphabet": 2}, "holds", ""),
        ("lem16", {"task.blocks": 2, "task.alphabet": 3}, "holds", ""),
        ("lem20", SMALL, "holds", ""),
        ("thm9", {"margin": 10.0, "task.blocks": 2, "task.moved": 1}, "holds", ""),
        ("thm9", {"margin": 1.0, "task.blocks": 2, "task.moved": 1}, "vacuous", "margin=1 must be larger"),
        ("lem29", {"task.blocks": 2, "betas": (0.5, 1.0, 2.0)}, "vacuous", "must be at most 0.1"),
    ],
)
def test_odd_sizes_have_a_verdict_that_says_why(id, sizes, status, said):
    verdict = check(id, sizes)
    json.dumps([dict(row) for row in verdict.details], allow_nan=False)
    assert verdict.status == status, verdict
    assert said in "; ".join((verdict.note, *verdict.hypotheses))


WRONG = (
    ("lem10", "inner", "inner_product", lambda right: right + 1, {}),
    ("sq-spectrum", "spectrum", "gram_eigenvalue", lambda right: right * 2, {}),
    ("thm5-average", "spectrum", "gram_eigenvalue", lambda right: right / 2, {}),
    ("lem12", "packing", "overlap_bound", lambda right: right / 100, {}),
    ("rem6", "counting", "fewest_samples", lambda right: right * 3, {"repeats": 30}),
    ("rem6", "counting", "enough_samples", lambda right: right // 2, {"repeats": 60}),
    ("margin-pop", "population", "population_margin", lambda right: right * 1.01, {}),
    ("lem15-scores", "population", "first_scores", lambda right: dict.fromkeys(right, 0.0), {}),
    ("lem16", "noise", "entry_std", lambda right: right * 1.4, {"samples": (2000,)}),
    ("lem16", "noise", "concentration_bound", lambda right: right / 20, {"samples": (2000,)}),
    ("thm4", "perturbation", "construction_error", lambda right: right * 0.99, {"task.blocks": 2, "betas": (16.0,)}),
)


@pytest.mark.parametrize(("id", "module", "name", "spoil", "sizes"), WRONG, ids=lambda part: str(part)[:24])
def test_a_wrong_formula_makes_its_claim_fail(monkeypatch, id, module, name, spoil, sizes):
    theory()
    home = importlib.import_module(f"stairwise.papers.composition.theory.{module}")
    right = getattr(home, name)
    monkeypatch.setattr(home, name, lambda *args, **more: spoil(right(*args, **more)))
    assert check(id, sizes).status == "fails"
