"""Finding a statement: by any way of writing it, from the manifest, with the lines of its check and its formulas."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stairwise.cli import main
from stairwise.config import ConfigError
from stairwise.lab import registry
from stairwise.lab.contract import latex, manifest
from stairwise.lab.ledger import where

CLAIMS = [
    {"id": "thm3.1", "aliases": ["thmD4"], "statement": ["Theorem 3.1", "Theorem D.4"]},
    {"id": "thm3.1-stages", "aliases": [], "statement": ["Theorem 3.1, proof"]},
    {"id": "lemE1", "aliases": [], "statement": ["Lemma E.1"]},
    {"id": "lemE15", "aliases": [], "statement": ["Lemma E.15"]},
    {"id": "lemE15-printed", "aliases": [], "statement": ["Lemma E.15"]},
    {"id": "eq7", "aliases": [], "statement": ["eq. (7)"]},
    {"id": "cor3.6", "aliases": [], "statement": ["Corollary 3.6"]},
    {"id": "old-one", "aliases": [], "statement": []},
]


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("Theorem 3.1", ["thm3.1", "thm3.1-stages"]),
        ("theorem d.4", ["thm3.1"]),
        ("thmD4", ["thm3.1"]),
        ("Lemma E.15", ["lemE15", "lemE15-printed"]),
        ("lemE15", ["lemE15", "lemE15-printed"]),
        ("lem E.1", ["lemE1"]),
        ("eq. 7", ["eq7"]),
        ("Equation (7)", ["eq7"]),
        ("eq 7", ["eq7"]),
        ("Corollaries 3.6", ["cor3.6"]),
        ("old-one", ["old-one"]),
    ],
)
def test_a_statement_is_found_however_it_is_written(written, found):
    assert [claim["id"] for claim in where.find({"id": "tiny", "claims": CLAIMS}, written)] == found


def test_a_statement_that_is_not_there_is_one_line_with_the_nearest():
    with pytest.raises(ConfigError) as refused:
        where.find({"id": "tiny", "claims": CLAIMS}, "Lemma E.16")
    assert str(refused.value) == (
        "unknown statement of tiny: Lemma E.16; did you mean Lemma E.1 or Lemma E.15?"
        " (stairwise list tiny --claims names them)"
    )


def test_a_function_is_found_with_its_line_and_its_first_words():
    found = where.place("stairwise.lab.ledger.where:place")
    assert found.file == Path(where.__file__)
    assert found.file.read_text().splitlines()[found.line - 1].startswith("def place(")
    assert found.about.startswith("Where ")
    method = where.place("stairwise.lab.contract.claims:Claim.unmet")
    assert "def unmet" in method.file.read_text().splitlines()[method.line - 1]


def test_where_answers_in_half_a_second_without_jax():
    code = """
import sys
from stairwise.cli import main
assert main(["where", "selection", "Lemma E.15", "--json"]) == 0
assert "jax" not in sys.modules
"""
    times = []
    for _ in range(3):
        began = time.monotonic()
        found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
        times.append(time.monotonic() - began)
    assert min(times) < 2  # 0.3 s where nothing else runs
    claims = json.loads(found.stdout)
    assert claims[0]["claim"] == "selection/lemE15"
    assert claims[0]["check"]["file"].endswith("claims/stochastic.py")


def test_every_check_and_formula_of_every_paper_is_where_the_manifest_says():
    for paper in map(manifest.read, manifest.built_in()):
        for claim in paper["claims"]:
            for reference in (claim["check"], *claim["of"]):
                found = where.place(reference)
                line = found.file.read_text().splitlines()[found.line - 1]
                name = found.name.rpartition(".")[2]
                assert line.strip().startswith((f"def {name}", f"class {name}")), (claim["id"], reference)


def test_where_prints_claim_check_and_formula(capsys):
    assert main(["where", "selection", "thm", "3.5"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("selection/thm3.5")
    assert "claims/fcn.py:" in out


def test_printed_and_corrected_statements_are_linked_both_ways(capsys):
    assert main(["where", "selection", "lemA3"]) == 0
    assert "  corrected: selection/lemA3-corrected\n" in capsys.readouterr().out
    assert main(["where", "selection", "lemA3-corrected"]) == 0
    assert "  corrects: selection/lemA3\n" in capsys.readouterr().out
    assert main(["where", "composition", "thm8"]) == 0
    assert "true, but not by the printed argument: its proof uses Lemmas 31 and 37" in capsys.readouterr().out


@pytest.mark.parametrize("id", manifest.built_in())
def test_the_map_of_a_paper_is_the_one_that_its_claims_make(id):
    folder = manifest.PAPERS / id
    page = (folder / "README.md").read_text()
    assert where.with_map(page, manifest.read(id), folder) == page, "python -m stairwise.lab.ledger writes it anew"


def test_a_paper_whose_claims_all_have_statements_has_a_generated_map():
    for paper in registry.papers():
        if paper.claims and paper.id in manifest.built_in():
            assert where.BEGIN in (manifest.PAPERS / paper.id / "README.md").read_text()


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (r"loss $\le \varepsilon$ after $T^2 d/(\eta\varepsilon)$ steps", "loss ≤ ε after T² d/(ηε) steps"),
        (r"$\frac{\delta}{1-2\delta}$", "δ/(1-2δ)"),
        (r"$|\langle e_i, e_y\rangle| \le \sqrt{q}\,\delta/(1-\delta)$", "|⟨eᵢ, e_y⟩| ≤ √q δ/(1-δ)"),
        (r"$E_y^\top E_y$ and $(E_y^\top E_y)^{-1}\mathbf{1}$", "E_yᵀ E_y and (E_yᵀ E_y)⁻¹1"),
        (r"$T^{(2-2\delta)/(1-3\delta)}$", "T^((2-2δ)/(1-3δ))"),
        (r"$\mathbb{E}_y \|S\|^2$, $\tilde{O}(n)$, $\alpha^*$", "𝔼_y ‖S‖², Õ(n), α^*"),
        ("costs 5 dollars", "costs 5 dollars"),
    ],
)
def test_latex_is_shown_as_unicode_in_a_terminal(written, shown):
    assert latex.plain(written) == shown
