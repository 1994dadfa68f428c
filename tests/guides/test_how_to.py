"""The how-to pages: every command they print is one, and every block of code runs as printed, one after another."""

import re
import shlex

import pytest

from stairwise.cli import main
from stairwise.lab.contract.verdict import STATUSES
from tests.guides.page import blocks, commands, parsed, text

PAGES = ("claims", "change-an-assumption", "read-a-verdict", "own-claim-sizes", "store-and-resume", "queries")


def how_to(page: str) -> str:
    return text(f"how-to/{page}")


@pytest.mark.parametrize("page", [*PAGES, "live", "parts"])
def test_every_command_is_one(page):
    found = [command for language, block in blocks(how_to(page)) if not language for command in commands(block)]
    assert found
    for command in found:
        parsed(command)


def test_the_table_of_statuses_has_all_of_them_in_their_order():
    assert tuple(re.findall(r"^\| `([a-z-]+)` \|", how_to("read-a-verdict"), re.MULTILINE)) == STATUSES


def test_what_is_refused_is_refused_in_the_words_of_the_page(capsys):
    rows = re.findall(r"^\| `stairwise (.+?)` \| `(.+?)` \|$", how_to("own-claim-sizes"), re.MULTILINE)
    assert len(rows) == 2
    for command, answer in rows:
        assert main(shlex.split(command)) == 2
        assert capsys.readouterr().err == f"stairwise: {answer}\n"


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=pytest.mark.slow if page == "change-an-assumption" else ()) for page in PAGES]
)
def test_everything_on_the_page_runs_one_after_another(page, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("STAIRWISE_STORE", str(tmp_path / "store"))
    said = ""
    for language, block in blocks(how_to(page)):
        if language == "python":
            exec(compile(block, page, "exec"), {})
        else:
            for command in commands(block):
                assert main(command) == 0, capsys.readouterr().err
        said += capsys.readouterr().out
    promises = {
        "claims": ["holds  chance 0.03841  required <= 0.1353  margin 3.52x"],
        "change-an-assumption": ["not met: first layer narrower than T d", "outside"],
        "read-a-verdict": ["refuted  |<e_i, e_y>| 0.2197  required <= 0.1223  margin 0.557x", "holds", "skipped"],
        "own-claim-sizes": ["holds 6", "{'task.length': 32} holds", "6 of 6 trials of selection/online are not in"],
        "queries": ["85 1", "40.16", "parities that are left"],
        "store-and-resume": ["4 trials in", "6 trials in", "stochastic", "damaged                0"],
    }
    for promise in promises[page]:
        assert promise in said


def test_listing_a_paper_names_every_claim_that_verify_takes(capsys, tmp_path):
    from stairwise.papers import selection

    assert main(["list", "selection", "--claims", "--store", str(tmp_path / "none")]) == 0
    said = capsys.readouterr().out.split()
    assert {claim.name for claim in selection.PAPER.claims} <= set(said)


def test_a_dry_run_of_verify_says_what_it_would_check_and_leaves_no_store(capsys, tmp_path):
    store = tmp_path / "store"
    assert main(["verify", "selection/thm3.5", "--task.length", "8,10", "--dry-run", "--store", str(store)]) == 0
    said = capsys.readouterr().out
    assert "selection/thm3.5" in said
    assert said.endswith("2 checks, none of which was run\n")
    assert not store.exists()


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("verify selection --task.length 12 --dry-run", "selection/appA2: task.length=12 has"),
        ("verify lego/thm4.1", "unknown claim of lego: thm4.1; did you mean thm4.1-regular or thm4.1-acc"),
        ("figure selection/fig2 --steps 300 --seeds 1", "--preset quick --seeds 1 --steps 300 --run"),
        ("verify parity_onestep/thm5 --forcing false --mask block", "forcing=false must be true (Theorem 5"),
    ],
)
def test_a_refusal_says_which_claim_and_what_to_type_instead(command, words, capsys, tmp_path):
    assert main([*shlex.split(command), "--store", str(tmp_path)]) == 2
    assert words in capsys.readouterr().err


def test_the_hint_of_a_skipped_claim_repeats_the_sizes_that_were_asked_for(capsys, tmp_path):
    assert main(["verify", "selection/fig2", "--steps", "300", "--store", str(tmp_path / "store")]) == 0
    assert "stairwise verify selection/fig2 --steps 300 --run" in " ".join(capsys.readouterr().out.split())
