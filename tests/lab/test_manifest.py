"""Manifests say what the code says, and what is answered from them imports no paper."""

import json
import subprocess
import sys

import pytest

from stairwise.config import ConfigError, leaves
from stairwise.lab import registry
from stairwise.lab.contract import manifest
from stairwise.lab.contract.verdict import STATUSES
from stairwise.lab.ledger import assumptions, errata
from stairwise.lab.ledger.checking import case_names

NEED_WEIGHTS = {"fig6", "fig7"}  # of large language models, which tests do not have


@pytest.mark.parametrize("id", manifest.built_in())
def test_the_manifest_of_a_paper_says_what_its_code_says(id):
    written = {name: value for name, value in manifest.read(id).items() if name != "statuses"}
    assert written == json.loads(json.dumps(manifest.describe(registry.paper(id)))), (
        "python -m stairwise.lab.ledger writes it anew"
    )


@pytest.mark.parametrize("id", manifest.built_in())
def test_expected_statuses_are_of_claims_and_cases_that_there_are(id):
    claims = {claim.id: claim for claim in registry.paper(id).claims}
    for claim, statuses in manifest.read(id)["statuses"].items():
        assert set(statuses) <= set(case_names(claims[claim].cases)), f"{id}/{claim}: manifest --statuses {id}"
        assert set(statuses.values()) <= set(STATUSES)
        assert "fails" not in statuses.values()
    quick = {claim.id for claim in claims.values() if claim.check and claim.tier == "instant"}
    assert quick - set(manifest.read(id)["statuses"]) - NEED_WEIGHTS == set(), f"manifest --statuses {id}"


def test_every_paper_has_a_manifest():
    assert manifest.built_in() == sorted(path.parent.name for path in manifest.PAPERS.glob("*/__init__.py"))


@pytest.mark.parametrize(
    ("target", "kinds", "said"),
    [
        ("selection/onlin", ("experiments", "figures"), "unknown experiment of selection: onlin; did you mean online?"),
        ("lego/thm99", ("claims",), "unknown claim of lego: thm99; did you mean thm"),
        ("selektion/online", ("experiments",), "unknown paper: selektion; did you mean selection?"),
    ],
)
def test_a_name_that_nothing_has_is_refused_with_the_nearest_one(target, kinds, said):
    with pytest.raises(ConfigError, match=r".") as refused:
        manifest.check_name(target, *kinds)
    assert str(refused.value).startswith(said)


def test_an_alias_of_a_claim_is_a_name_of_it():
    aliased = next(claim for claim in manifest.read("lego")["claims"] if claim["aliases"])
    manifest.check_name(f"lego/{aliased['aliases'][0]}", "claims")  # raises where it is none
    assert registry.paper("lego").claim(aliased["aliases"][0]).id == aliased["id"]


def test_importing_every_paper_and_the_facade_starts_no_backend_and_imports_neither_matplotlib_nor_scipy_stats():
    code = """
import sys
from stairwise.lab import registry
registry.papers()
import stairwise.paper
from jax._src import xla_bridge
assert not xla_bridge._backends, xla_bridge._backends
assert not {"matplotlib.pyplot", "scipy.stats"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_errata_page_is_the_one_that_the_claims_make():
    found = errata.page([manifest.read(id) for id in manifest.built_in()])
    assert errata.PAGE.read_text(encoding="utf-8") == found, "python -m stairwise.lab.ledger writes it"


def test_what_lacks_its_printed_proof_has_a_section_of_its_own_and_a_slip_names_both_claims():
    both = {"certificate": "", "aliases": [], "corrects": []}
    slip = {"id": "a-printed", "kind": "misprint", "says": "as printed: $x$", "means": "$y$", "corrected": "a"}
    gap = {"id": "b", "kind": "bound", "says": "$z$", "argument": "a step", "corrected": ""}
    claims = [{**both, **slip, "statement": ["Lemma 1"], "argument": ""}, {**both, **gap, "statement": ["Theorem 2"]}]
    page = errata.page([{"id": "tiny", "title": "Tiny", "claims": claims}])
    assert "| Lemma 1 (`tiny/a-printed`) | $x$ | $y$ (`tiny/a`) |" in page
    assert "### True, but not proved by the printed argument" in page
    assert "| Theorem 2 (`tiny/b`) | $z$ | a step |" in page


def test_what_is_corrected_and_what_corrects_it_name_each_other():
    for id in manifest.built_in():
        claims = {claim["id"]: claim for claim in manifest.read(id)["claims"]}
        for claim in claims.values():
            assert not claim["corrected"] or claim["id"] in claims[claim["corrected"]]["corrects"]
            assert all(claims[other]["corrected"] == claim["id"] for other in claim["corrects"])


def test_the_page_of_assumptions_is_the_one_that_the_stored_searches_make():
    found = assumptions.page([manifest.read(id) for id in manifest.built_in()])
    assert assumptions.PAGE.read_text(encoding="utf-8") == found, "python -m stairwise.lab.ledger writes it"


def test_every_stored_search_is_of_a_claim_and_names_its_fields():
    for id in manifest.built_in():
        for claim, found in assumptions.stored(id).items():
            fields = {leaf.path for leaf in leaves(registry.paper(id).claim(claim).cases[0])}
            assert all(finding["sizes"].keys() <= fields for finding in found["findings"]), f"{id}/{claim}"
