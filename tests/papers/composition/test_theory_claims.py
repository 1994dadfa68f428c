"""The ledger of the theory at sizes of the user's own, its refusals, and what breaks a claim."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from stairwise.config import ConfigError
from stairwise.papers.composition.claims import LEDGER
from tests.papers.composition.ledger import check, claim_of

HOME = Path(importlib.import_module("stairwise.papers.composition").__file__).parent
ABOUT_PRINT = {"refuted": "refuted", "misprint": "misprint"}

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
    "thm9-uniform": {"task.blocks": 4, "task.alphabet": 4, "task.moved": 3, "sequences": 3},
    "thm9-printed": {"task.blocks": 4, "task.alphabet": 4, "task.moved": 1, "sequences": 3},
    "lem10": {"task.blocks": 5, "task.alphabet": 2, "task.any_blocks": True, "pairs": 5},
    "lem10-printed": {"task.blocks": 4, "task.alphabet": 3},
    "rem11": {"task.blocks": 1, "task.alphabet": 5, "pairs": 5},
    "sq-spectrum": {"task.blocks": 2, "task.alphabet": 4},
    "thm5-average": {"task.blocks": 1, "task.alphabet": 5, "queries": 3},
    "thm5-queries": {"task.blocks": 1, "task.alphabet": 5},
    "appB-center": {"task.blocks": 1, "task.alphabet": 5},
    "appB-gd": {"task.blocks": 1, "task.alphabet": 5},
    "thm5": {"blocks": 4, "alphabet": 40, "r": 4, "tolerance": 0.3},
    "thm5-printed": {"blocks": 4, "alphabet": 77},
    "thm5-tolerance-printed": {"blocks": 4, "alphabet": 77},
    "thm5-small": {"blocks": 12, "alphabet": 4},
    "lem12": {"blocks": 6, "alphabet": 11, "r": 4},
    "cor13": {"blocks": 3, "alphabet": 37},
    "rem6": {"task.blocks": 4, "task.alphabet": 3, "repeats": 60},
    "sec7-size": {"task.blocks": 2, "task.alphabet": 4, "precision": 3},
    "margin-pop": {"blocks": 2, "alphabet": 7},
    "lem15-scores": {"blocks": 2, "alphabet": 6},
    "lem15-printed": {"blocks": 2, "alphabet": 6},
    "lem16": {"task.blocks": 2, "task.alphabet": 6, "samples": (2000, 9000)},
    "lem20": {"task.blocks": 2, "task.alphabet": 6, "samples": (2000, 9000)},
    "lem25": {"task.blocks": 4, "task.alphabet": 4, "samples": (2000, 9000)},
    "sample-rule": {"task.blocks": 2, "task.alphabet": 6, "test_examples": 15},
    "appE": {"task.blocks": 1, "task.alphabet": 4},
}


def test_claims_have_names_of_their_own_and_old_names_are_still_known():
    names = [name for claim in LEDGER.claims for name in (claim.id, *claim.aliases)]
    assert len(names) == len(set(names))
    assert {"thm14", "lem29-const", "lem37-const"} <= set(names)


def test_what_is_printed_and_what_is_ours_says_so():
    for claim in LEDGER.claims:
        assert claim.says.startswith("as printed") == (claim.kind in ABOUT_PRINT), claim.id
        if claim.kind in ABOUT_PRINT:
            claim_of(claim.corrected)
    assert all(
        claim.says.startswith("beyond") for claim in LEDGER.claims if claim.id in ("any-k", "margin-pop", "plateau")
    )


@pytest.mark.parametrize(
    "claim", [claim for claim in LEDGER.claims if claim.check is not None], ids=lambda claim: claim.id
)
def test_a_case_meets_all_hypotheses(claim):
    assert any(not claim.unmet(case) for case in claim.cases)


@pytest.mark.parametrize("claim", [claim for claim in LEDGER.claims if claim.certificate], ids=lambda claim: claim.id)
def test_the_certificate_of_a_refutation_runs_without_this_package(claim):
    script = HOME / claim.certificate
    assert "stairwise" not in script.read_text()
    found = subprocess.run([sys.executable, "-I", script], capture_output=True, text=True, check=True)
    assert len(found.stdout.splitlines()) == 1


@pytest.mark.parametrize("id", sorted(OTHER_SIZES))
def test_the_claim_has_its_status_at_a_size_of_the_users_own(id):
    verdict = check(id, OTHER_SIZES[id])
    json.dumps([dict(row) for row in verdict.details], allow_nan=False)  # it must fit into the store
    assert verdict.status == ABOUT_PRINT.get(claim_of(id).kind, "holds"), (verdict, verdict.details)


@pytest.mark.parametrize(
    ("id", "sizes", "named"),
    [
        ("sq-spectrum", {"task.alphabet": 2}, "N >= 3"),
        ("lem10-printed", {"task.blocks": 1}, "k >= 2"),
        ("thm4-printed", {"task.blocks": 2}, "k >= 4"),
        ("thm9-printed", {"task.moved": 0}, "m >= 1"),
        ("thm9-uniform", {"task.moved": 0}, "m >= 1"),
        ("thm5", {"tolerance": 0.01}, "tau^2 > (2r/N)^{k/2}"),
        ("thm7", {"samples": 100}, "M >= k^2 N^4 d^2"),
        ("thm9", {"margin": 1.0, "task.blocks": 2}, "the margin is large: L kN e^-margin is small"),
        ("thm7", {"learning_rate": 10.0}, "eta >= 2 k^2 N^3 log(2kN/eps)/beta0"),
        ("thm8", {"epsilon": 0.5}, "eps <= 1/(k^6 N^6)"),
        ("lem29", {"betas": (3.0, 4.0, 5.0)}, "eps log(1/eps) <= 1/(kNL)^6"),
        ("sample-rule", {"task.alphabet": 2}, "N >= 5"),
        ("thm14-chance", {"few": 800}, "k >= 2, and 200 samples at most where runs should fail"),
        ("thm5-growth", {"tolerance": 0.75}, "tau^2 < (1 - 1/N)/2: a query tells two functions apart"),
    ],
)
def test_hypotheses_that_the_sizes_do_not_meet_are_named(id, sizes, named):
    from stairwise.config import update

    claim = claim_of(id)
    assert named in claim.unmet(update(claim.cases[0], sizes))


@pytest.mark.parametrize(
    ("id", "sizes"),
    [
        ("lem12", {"alphabet": 6, "r": 3}),
        ("cor13", {"alphabet": 23}),
        ("cor13", {"alphabet": 8}),
        ("lem10", {"samples": 1}),
    ],
)
def test_a_bound_that_says_nothing_is_vacuous(id, sizes):
    verdict = check(id, sizes)
    assert verdict.status == "vacuous", verdict
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
        ("thm5", {"blocks": 64}, "r=4 with blocks=64 asks for more than 2000 functions"),
        ("thm5-small", {"blocks": 3}, "blocks=3 must be even"),
        ("thm7", {"task.blocks": 64}, "task.blocks*task.alphabet=192 must be at most 64"),
        ("lem37", {"first": 3}, "first=3 must be below the number of layers 3"),
        ("lem37", {"first": 2}, "first=2 must be at most 1 for a layer between it and the last"),
        ("lem31", {"step": 3}, "step=3 must be 2"),
        ("lem33", {"step": 2}, "step=2 must be at least 3"),
        ("lem35", {"step": 5}, "step=5 must be at most the number of layers 4"),
        ("rem11", {"samples": 10}, "samples=10 must be 0"),
        ("rem6", {"task.alphabet": 2}, "task.alphabet=2 must be at least 3"),
        ("lem29", {"betas": (10.0,)}, "betas=(10.0,) must be at least three sharpnesses"),
        ("lem21", {"task.blocks": 1}, "task.blocks=1 must be at least 2 for stage 2"),
        ("lem16", {"samples": (1,)}, "samples=1 must be at least 2"),
    ],
)
def test_sizes_that_cannot_be_checked_are_refused_in_one_line(id, sizes, line):
    with pytest.raises(ConfigError) as refused:
        check(id, sizes)
    assert str(refused.value).startswith(line)
    assert "\n" not in str(refused.value)


def test_the_sample_rule_falls_short_at_two_letters_which_are_outside_it():
    verdict = check("sample-rule", {"task.blocks": 4, "task.alphabet": 2, "test_examples": 40})
    assert verdict.status == "outside"
    assert "false here" in verdict.note


WRONG = (
    ("lem10", "inner", "inner_product", lambda right: right + 1, {}),
    ("sq-spectrum", "spectrum", "gram_eigenvalue", lambda right: right * 2, {}),
    ("sq-spectrum", "spectrum", "gram_multiplicity", lambda right: right - 1, {}),
    ("thm5-average", "spectrum", "gram_eigenvalue", lambda right: right / 2, {}),
    ("thm5-average", "spectrum", "gram_eigenvalue", lambda right: right * 2, {}),
    ("thm5-average", "spectrum", "average_queries", lambda right: -right, {}),
    ("thm5-average", "spectrum", "average_queries", lambda right: right**2, {}),
    ("thm5", "queries", "most_ruled_out", lambda right: right / 1.2, {}),
    ("thm5", "queries", "fewest_queries", lambda right: right * 3, {}),
    ("thm5", "queries", "least_loss", lambda right: right * 1.1, {}),
    ("thm5-queries", "queries", "answers", lambda right: -right, {}),
    ("appB-center", "queries", "centre", lambda right: -right, {}),
    ("appB-gd", "queries", "gradient_parts", lambda right: (right[0], -right[1]), {}),
    ("thm5-small", "queries", "vacuous_for_every_r", lambda right: not right, {}),
    ("thm5-small", "queries", "sq_bound", lambda right: right._replace(log10_queries=2 * right.log10_queries), {}),
    ("lem12", "packing", "overlap_bound_sharp", lambda right: right * 0.99, {}),
    ("lem12", "packing", "volume", lambda right: right + 1, {}),
    ("lem12", "packing", "volume_bound", lambda right: right * 2, {}),
    ("lem12", "packing", "overlap_bound", lambda right: right * 2, {}),
    ("cor13", "packing", "squared_distance", lambda right: right / 2, {}),
    ("cor13", "packing", "log_packing_size", lambda right: right**0.5, {}),
    ("cor13", "packing", "log_packing_size", lambda right: right + 1, {}),
    ("rem6", "counting", "fewest_samples", lambda right: right * 3, {"repeats": 30}),
    ("rem6", "counting", "enough_samples", lambda right: right - 1, {"repeats": 60}),
    ("sec7-size", "counting", "smallest_width", lambda right: right**2, {}),
    ("margin-pop", "population", "population_margin", lambda right: right * 1.01, {}),
    ("lem15-scores", "population", "first_scores", lambda right: dict.fromkeys(right, 0.0), {}),
    ("lem16", "noise", "entry_std", lambda right: right * 1.4, {"samples": (2000,)}),
    ("lem16", "noise", "concentration_bound", lambda right: right / 20, {"samples": (2000,)}),
    ("thm4", "perturbation", "construction_error", lambda right: right * 0.99, {"task.blocks": 2, "betas": (16.0,)}),
    ("thm4", "perturbation", "construction_error", lambda right: right * 1.2, {"task.blocks": 2, "betas": (16.0,)}),
    ("thm4", "perturbation", "construction_error", lambda right: right + 10, {"task.blocks": 2, "betas": (16.0,)}),
)


@pytest.mark.parametrize(("id", "module", "name", "spoil", "sizes"), WRONG, ids=lambda part: str(part)[:24])
def test_a_wrong_formula_makes_its_claim_fail(monkeypatch, id, module, name, spoil, sizes):
    home = importlib.import_module(f"stairwise.papers.composition.theory.{module}")
    right = getattr(home, name)
    monkeypatch.setattr(home, name, lambda *args, **more: spoil(right(*args, **more)))
    assert check(id, sizes).status == "fails"
