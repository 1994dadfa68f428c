"""The ledger of the theory: what each claim says at sizes of its own and of the user, and one line for bad sizes."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import jax
import pytest

from stairwise.config import ConfigError, update
from stairwise.papers.parity_onestep import PAPER
from stairwise.papers.parity_onestep import claims as package
from stairwise.papers.parity_onestep.claims.ledger import LEDGER

CERTIFICATES = Path(str(package.__file__)).parents[1] / "certificates"

ANOTHER = {"task.bits": 13, "task.size": 6}
SMALL = {"task.bits": 9, "task.size": 4}
# for each claim one size that its ledger does not list
OTHER_SIZES = {
    "thm2-queries": {"size": 4, "tolerance": 0.3, "bits": (8, 9, 10, 11), "more_bits": (9, 10, 11, 12)},
    "link": {"link.name": "requ", "link.slope": 2.01},
    "link-requ": {"link.slope": 2.003},
    "tf-fixpoint": {**ANOTHER, "task.tree": "chain", "link.name": "requ", "link.slope": 3.5},
    "tf-fixpoint-printed": {**ANOTHER, "samples": 3},
    "triple-census": ANOTHER,
    "thm1": {"queries": 5, "width": 3},
    "thm1-any": {"task.bits": 31, "task.size": 9},
    "prop3": {**SMALL, "width": 3, "scale": 2.0},
    "prop3-printed": SMALL,
    "thm2-var": {**SMALL, "samples": 300},
    "thm2-gram": {**SMALL, "samples": 300},
    "thm2-overlap": {**SMALL, "samples": 300},
    "thm2-correlation": {"task.bits": 9, "task.size": 4, "samples": (50, 500, 5000, 50_000)},
    "thm2-oracle": {**SMALL, "queries": 7, "samples": 77, "accuracy": 1.5},
    "thm2-oracle-printed": {**SMALL, "queries": 7, "accuracy": 1.5},
    "thm2-L2": {**SMALL, "queries": 7},
    "thm2-sup": {**SMALL, "queries": 7, "samples": 50, "accuracy": 1.0},
    "thm2-optimal": {**SMALL, "queries": 1},
    "thm2-1": {"task.bits": 12, "queries": 2, "width": 4},
    "eq5": {**SMALL, "queries": 7, "samples": 100},
    "rem-whp": {**SMALL, "parities": 7},
    "thm2-exponents": {"gradient": 0.4, "accuracy": 1.25},
    "thm5-separation": {"epsilon": 2.5},
    "thm7-separation": {"epsilon": 2.5, "slope": 2.7},
    "lem8": {"task.bits": 101, "task.size": 37},
    "lem8-rate": {"bits": (20, 40, 80, 160), "share": 0.4},
    "lem8-printed": {"bits": (11, 23, 45)},
    "lem4": {**ANOTHER, "link.name": "requ", "link.slope": 3.3, "scales": (0.5, 9.0)},
    "eq1": {**ANOTHER, "scale": 0.5},
    "eq4": {**ANOTHER, "samples": 7},
    "eq4-samples": {**ANOTHER, "samples": 3},
    "eq6": {**ANOTHER, "mask": "block", "link.name": "cos", "samples": 7},
    "eq7": {"task.bits": 9, "task.size": 6, "mask": "block", "kappa": 0.3},
    "eq8": {"task.bits": 9, "task.size": 6, "task.tree": "chain", "kappa": 0.3},
    "eq9": {"task.bits": 9, "task.size": 6, "link.name": "requ", "link.slope": 3.0, "kappa": 0.7},
    "eq10": {"task.bits": 9, "task.size": 6, "link.name": "requ", "link.slope": 3.0, "kappa": 0.7},
    "eq10-printed": {"epsilon": 12.0, "bits": (50, 500, 5000)},
    "eq10-total": {"epsilon": 4.0, "bits": (200, 2000, 20_000)},
    "exact-gradient": {"task.bits": 11, "task.size": 7, "mask": "block"},
    "lem6": {"task.bits": 5, "task.size": 4, "link.name": "cos", "starts": 3, "steps": 20},
    "lem6-path": {"task.bits": 9, "task.size": 4},
    "lem6-printed": {"link.name": "cos", "levels": 2},
    "lem6-exponent": {"slope": 2.2},
    "lem9": {**ANOTHER, "samples": 700, "repeats": 4},
    "lem9-large": {"task.bits": 18, "task.size": 6, "samples": 900, "repeats": 2},
    "lem9-rate": {"epsilon": 1.8, "bits": (150, 300, 500)},
    "lem10": {"task.bits": 100, "task.size": 32, "rows": 250, "repeats": 5},
    "lem10-rate": {"power": 1.5},
    "lem10-printed": {"task.bits": 300, "task.size": 8, "repeats": 5},
    "lem10-informative": {"task.bits": 10, "task.size": 7, "inputs": 6},
    "noise-law": {"task.bits": 8, "task.size": 5},
    "support-law": {"task.bits": 40, "task.size": 9, "repeats": 8},
    "thm5-rate": {"bits": (100, 200, 400), "size": 2},
    "thm5-softmax": {"bits": (100, 200, 400), "size": 2},
    "thm5-size": {"epsilon": 2.5},
    "thm5-recursion": {"task.bits": 20, "task.size": 16, "link.name": "requ", "lam": 13.0},
    "thm5-fixpoint": {"delta": 0.01, "constant": 5.0},
    "filter": {"task.bits": 300, "task.size": 11, "eps0": 1.2},
    "filter-printed": {"task.bits": 300, "task.size": 11, "eps0": 0.8},
    "eq11-induction": {"task.bits": 9, "task.size": 4},
    "thm7-constants": {"task.bits": 40, "task.size": 16, "eta0": 0.3, "link.name": "cos"},
    "thm7-constants-printed": {"task.bits": 21, "task.size": 20, "eta0": 0.3},
    "rem-quant": {"entries": 500, "scale": 3.0},
    "sep-remark": {"task.bits": 33, "task.size": 7, "extra": 3, "repeats": 40},
}


def theory():
    return {claim.id: claim for claim in LEDGER.claims if claim.check is not None}


def check(id, sizes, seed=1):
    claim = theory()[id]
    with jax.enable_x64(claim.precision == 64):
        return claim.at(update(claim.cases[0], sizes), seed)


def test_claims_have_names_of_their_own():
    names = [name for claim in LEDGER.claims for name in (claim.id, *claim.aliases)]
    assert len(names) == len(set(names))


def test_what_is_ours_says_so_and_what_is_printed_too():
    for claim in theory().values():
        if claim.statement[0].startswith("ours"):
            assert claim.says.startswith(("beyond the paper", "extension, not Theorem 7")), claim.id
        if claim.kind in ("refuted", "misprint"):
            assert claim.says.startswith("as printed"), claim.id
            assert claim.corrected in theory()
    for id in ("thm7", "eq11"):
        assert all(case.quantiser.kind == "integer" for case in theory()[id].cases)


def test_theorem_1_is_read_as_its_authors_qualify_it():
    claim = PAPER.claim("thm1-printed")
    assert claim.id == "thm1"
    assert claim.kind == "bound"
    assert r"\hat p \in P" in claim.says
    for withdrawn in ("rem-quant-printed", "thm7-separation-printed"):
        with pytest.raises(ConfigError):
            PAPER.claim(withdrawn)


@pytest.mark.parametrize("certificate", sorted(CERTIFICATES.glob("*.py")), ids=lambda path: path.stem)
def test_a_certificate_runs_without_the_package_and_says_one_line(certificate):
    done = subprocess.run([sys.executable, "-I", certificate], capture_output=True, text=True, check=True)
    assert len(done.stdout.splitlines()) == 1
    assert "stairwise" not in certificate.read_text()


def test_every_refutation_has_its_certificate():
    named = {claim.certificate for claim in LEDGER.claims if claim.kind == "refuted"}
    assert named == {f"certificates/{path.name}" for path in CERTIFICATES.glob("*.py")}


def cheap():
    """The theory claims that train nothing."""
    return sorted(id for id, claim in theory().items() if claim.precision == 64)


@pytest.mark.parametrize("id", cheap())
def test_the_claim_has_its_status_at_a_size_of_the_users_own(id):
    verdict = check(id, OTHER_SIZES.get(id, ANOTHER))
    json.dumps([dict(row) for row in verdict.details], allow_nan=False)  # it must fit into the store
    kind = theory()[id].kind
    assert verdict.status == (kind if kind in ("refuted", "misprint") else "holds"), (verdict, verdict.details)


def test_the_known_values_at_the_sizes_of_the_ledger():
    assert check("prop3-printed", {}).measured == pytest.approx(3.94286, abs=5e-6)
    assert check("lem8", {"task.bits": 256, "task.size": 128}).hypotheses_met
    found = {row["quantity"]: row for row in check("lem10-informative", {"inputs": 8}).details}
    assert found["chance"]["measured"] == pytest.approx(0.16802, abs=5e-6)
    assert found["chance"]["required"] == pytest.approx(47 / 256)


@pytest.mark.parametrize("inputs", [1, 2])
def test_a_bound_of_one_on_a_chance_is_vacuous(inputs):
    assert check("lem10-informative", {"inputs": inputs}).status == "vacuous"


def test_a_tree_of_two_bits_is_solved_before_the_first_step_and_that_breaks_nothing():
    verdict = check("thm7", {"task.bits": 2, "task.size": 2, "samples": 256})
    assert {row["quantity"]: row["measured"] for row in verdict.details if "quantity" in row}[
        "level 1 is solved exactly from step 0 on"
    ] == 1


@pytest.mark.parametrize(
    ("id", "bits", "size"), [("lem8", 4, 2), ("lem8", 5, 4), ("thm7-constants", 2, 2), ("thm7-constants", 4, 4)]
)
def test_the_smallest_sizes_are_no_exception(id, bits, size):
    assert check(id, {"task.bits": bits, "task.size": size}).status == "holds"


@pytest.mark.parametrize(
    ("id", "sizes", "named"),
    [
        ("prop3", {**SMALL, "samples": 100}, "x is uniform on the cube"),
        ("prop3-printed", {"task.bits": 6, "task.size": 6}, "|P| > 1"),
        ("thm1", {"task.bits": 9, "task.size": 8, "queries": 2}, "k and d-k of order d"),
        ("thm1", {**SMALL, "queries": 2, "samples": 50}, "the population loss"),
        ("thm2-1", {"task.bits": 10, "task.size": 2, "width": 1, "queries": 1}, "d >= 12"),
        ("thm2-var", {**SMALL, "samples": 20}, "n > 4d"),
        ("thm7-constants", {"task.bits": 64, "link.name": "requ", "link.slope": 2.1}, "phi is quadratic up to 1/5"),
        ("lem10", {"task.bits": 30, "task.size": 9, "task.tree": "chain"}, "k = 2^v"),
        ("filter", {"task.bits": 300, "task.size": 11, "eps0": 0.9}, "1 < eps0 < 2"),
        ("filter", {"task.bits": 12, "task.size": 4, "eps0": 1.01}, "untrained tokens"),
        ("filter", {"task.bits": 300, "task.size": 11, "inputs": 2}, "every token must be 1"),
        ("eq10-total", {"epsilon": 12.0}, "eps <= 8"),
    ],
)
def test_hypotheses_that_the_sizes_violate_are_named(id, sizes, named):
    verdict = check(id, sizes)
    assert verdict.status == "outside"
    assert any(hypothesis.startswith(named) for hypothesis in verdict.hypotheses), verdict.hypotheses


@pytest.mark.parametrize(
    ("id", "sizes"),
    [
        ("lem9", {**SMALL, "samples": 20, "repeats": 2}),
        ("thm5-recursion", {"task.bits": 20, "task.size": 16, "lam": 4.0}),
    ],
)
def test_a_bound_that_nothing_could_break_is_vacuous(id, sizes):
    verdict = check(id, sizes)
    assert verdict.status == "vacuous"
    assert verdict.note


@pytest.mark.parametrize(
    ("id", "sizes", "line"),
    [
        ("tree", {"task.bits": 8, "task.size": 9}, "task.size=9 must be at most bits=8"),
        ("tree", {"task.size": 3, "task.secret": (0, 3, 3)}, "task.secret=3 must not be repeated"),
        ("tree", {"task.bits": 1}, "task.bits=1 must be at least 2"),
        ("link", {"link.name": "requ", "link.slope": 2.0}, "link.slope=2.0 must be above 2"),
        ("prop3", {"task.bits": 18}, "task.bits=18 must be at most 16 for the whole cube"),
        ("thm2-var", {"task.bits": 17, "task.size": 2}, "task.bits=17 must be at most 16 for the whole cube"),
        ("thm2-L2", {"task.bits": 9, "task.size": 9}, "task.size=9 must be below task.bits=9 (a single parity)"),
        ("thm1-any", {"task.bits": 1000}, "task.bits=1000 must be at most 512"),
        ("eq7", {"task.bits": 24}, "task.bits=24 must be at most 16 for the whole cube"),
        ("eq10-printed", {"bits": (50, 50)}, "bits=(50, 50) must be three sizes or more"),
        ("triple-census", {"task.bits": 600}, "task.bits=600 and task.size=8 make 607 tokens"),
        ("lem9", {"task.bits": 200, "task.size": 100}, "task.bits=200 and task.size=100 make 45000 pairs of tokens"),
        ("thm5", {"steps": 2}, "steps=2 must be 1, with teacher forcing (Theorem 5)"),
        ("thm5", {"rate.lam": 0.0}, "rate.lam=0.0 must be above 0"),
        ("thm7", {"forcing": True}, "forcing must be false and mask block (Theorem 7)"),
        ("thm7", {"augmentation.eps0": 2.5}, "augmentation.eps0=2.5 must be below 2"),
        ("thm5-prob", {"bits": (512,), "epsilon": 2.0}, "bits=512 makes 6.87e+10 samples"),
    ],
)
def test_sizes_that_cannot_be_checked_are_refused_in_one_line(id, sizes, line):
    with pytest.raises(ConfigError) as refused:
        check(id, sizes)
    assert str(refused.value).startswith(line)
    assert "\n" not in str(refused.value)


WRONG = (
    ("lem4", "bounds", "forced_gradient", lambda right: right / 2, {}),
    ("lem9", "bounds", "interaction", lambda right: right / 2**0.5, {"repeats": 3}),
    ("lem9", "bounds", "interaction", lambda right: right * 2**0.5, {"repeats": 3}),
    ("lem10", "bounds", "level_means", lambda right: right / 2, {"repeats": 5}),
    ("lem10-rate", "bounds", "level_means", lambda right: right / 2, {}),
    ("lem10-informative", "bounds", "uninformative_bound", lambda right: right / 2, {}),
    ("lem10-informative", "bounds", "uninformative_chance", lambda right: right / 2, {"inputs": 8}),
    ("thm2-gram", "bounds", "overlap", lambda right: right**2, {"samples": 1000}),
    ("thm2-var", "bounds", "gradient_variance", lambda right: right / 2, {}),
    ("thm2-L2", "bounds", "hidden_squared", lambda right: right + 0.1, {"queries": 5}),
    ("thm2-sup", "bounds", "hidden_sup", lambda right: right**2 / 2, {"queries": 5}),
    ("thm1-any", "bounds", "zero_one_error", lambda right: 0.5 - 2 * (0.5 - right), {}),
    ("rem-whp", "bounds", "cheap_share", lambda right: right**2, {}),
    ("rem-whp", "bounds", "unlucky_share", lambda right: right / 2, {}),
    ("eq5", "bounds", "loss_after", lambda right: 2 - right, {"queries": 5}),
    ("eq7", "expansion", "seven_mean", lambda right: right * 1.001, {}),
    ("eq7", "expansion", "seven_fluctuation", lambda right: right / 2, {"task.bits": 64, "kappa": 1.0}),
    ("eq8", "expansion", "eight_mean", lambda right: right * 1.001, {}),
    ("eq8", "expansion", "eight_fluctuation", lambda right: right / 2, {"task.bits": 64, "kappa": 1.0}),
    ("eq9", "expansion", "nine_bound", lambda right: right / 2, {"task.bits": 64, "kappa": 1.0}),
    ("eq9", "expansion", "fourth_moment_bound", lambda right: right / 2, {"task.bits": 64, "kappa": 1.0}),
    ("eq10", "expansion", "ten_bound", lambda right: right / 2, {"task.bits": 64, "kappa": 1.0}),
    ("exact-gradient", "population", "first_node_poly4", lambda right: right._replace(other=0.0), {}),
    ("noise-law", "population", "node_spread", lambda right: right._replace(difference=right.difference * 1.01), {}),
    ("thm5-recursion", "recursion", "disturbance", lambda right: right / 2, {"task.bits": 20, "task.size": 8}),
    ("thm5-softmax", "recursion", "split_bound", lambda right: right / 2, {"bits": (64, 128, 256), "size": 2}),
    ("support-law", "noise", "support_samples", lambda right: right / 20, {"task.bits": 32, "task.size": 16}),
    ("triple-census", "census", "trivial_quadruples", lambda right: right[1:], {}),
    ("lem6-path", "bounds", "chain_derivative", lambda right: right / 2, {"task.bits": 4, "task.size": 4}),
    ("lem8", "mean_parity", "even_count_printed", lambda right: right + 1, {"task.bits": 9, "task.size": 4}),
    ("lem8", "mean_parity", "power_bound", lambda right: right**2, {"task.bits": 32, "task.size": 8}),
    ("thm2-exponents", "exponents", "samples_needed", lambda right: right + 1, {}),
    ("thm7-constants", "staircase", "level_constants", lambda right: right / 2, {}),
)


@pytest.mark.parametrize(("id", "module", "name", "spoil", "sizes"), WRONG, ids=lambda part: str(part)[:24])
def test_a_wrong_formula_makes_its_claim_fail(monkeypatch, id, module, name, spoil, sizes):
    theory()
    home = importlib.import_module(f"stairwise.papers.parity_onestep.theory.{module}")
    right = getattr(home, name)
    monkeypatch.setattr(home, name, lambda *args, **kwargs: spoil(right(*args, **kwargs)))
    assert check(id, sizes).status == "fails"
