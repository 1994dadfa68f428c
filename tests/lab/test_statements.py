"""Facts about the lists of numbered statements: they and the claims name the same ones, and the page is up to date."""

import pytest

from stairwise.cli import main
from stairwise.lab.contract.manifest import built_in, read
from stairwise.lab.ledger import statements

PAPERS = [id for id in built_in() if statements.listed(id)]


def test_the_five_papers_have_lists():
    assert PAPERS == ["composition", "lego", "parity_cot", "parity_onestep", "selection"]


@pytest.mark.parametrize("paper", PAPERS)
def test_every_numbered_statement_that_a_claim_names_is_listed_once(paper):
    names = [each["name"] for each in statements.listed(paper)]
    assert len(set(names)) == len(names)
    assert statements.claims_about(read(paper)).keys() <= set(names)


@pytest.mark.parametrize("paper", PAPERS)
def test_every_listed_statement_has_a_claim_or_says_why_not(paper):
    about = statements.claims_about(read(paper))
    for each in statements.listed(paper):
        assert each.keys() <= {"name", "section", "what", "state", "why"}
        if each["name"] not in about:
            assert each["state"] in ("no statement of its own", "illegible", "no check yet")
            assert each["what"]
            assert each["why"]


def test_the_page_is_what_the_lists_and_the_claims_give():
    assert statements.PAGE.read_text(encoding="utf-8") == statements.page([read(id) for id in built_in()])


def test_a_claim_about_many_statements_is_not_a_check_of_each():
    many = {"kind": "bound", "statement": [f"Lemma {n}" for n in range(1, 6)]}
    assert statements.state({}, [many]) == "shared check"
    assert statements.state({}, [many, {"kind": "exact", "statement": ["Lemma 1", "Equation 2"]}]) == "own check"
    assert statements.state({"state": "illegible"}, []) == "illegible"


def test_a_claim_that_cannot_fail_is_no_check():
    number = {"kind": "reported", "statement": ["Lemma 1"]}
    assert statements.state({}, [number]) == "measured only"
    assert statements.state({}, [number, {"kind": "rate", "statement": ["Lemma 1"]}]) == "own check"


def test_a_list_is_drafted_from_text_with_sections_and_titles():
    text = (
        "1 Introduction\n1. an item\nTheorem 1 (Main (easy) part). Let\n\nA Proofs\nA.1 More\n*Lemma A.2.* If\nby it\n"
    )
    assert list(statements.drafted(text)) == [
        {"name": "Theorem 1", "section": "1", "what": "Main (easy) part"},
        {"name": "Lemma A.2", "section": "A.1"},
    ]


def test_a_statement_without_a_check_is_answered_with_what_it_is(capsys):
    assert main(["where", "selection", "Definition D.3"]) == 0
    said = capsys.readouterr().out
    assert "One-hot positional encoding" in said
    assert "no statement of its own" in said
    assert main(["where", "selection", "Definition", "D.3", "--json"]) == 0
    assert '"section": "D.1"' in capsys.readouterr().out
    assert main(["where", "selection", "Lemma 99"]) == 2
