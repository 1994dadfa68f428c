"""The ledger of the theory: every statement once, at sizes of its own and of the user, with one line for bad sizes."""

import importlib
import json

import jax
import pytest

from stairwise.lab.config import ConfigError, update
from stairwise.papers.parity_onestep.claims.ledger import LEDGER

# the statements of the paper, and what the specification adds to them, that are not figures
IDS = (
    *("tree", "link", "link-requ", "tf-fixpoint", "masks", "thm1", "prop3", "thm2-var", "thm2-gram", "thm2-oracle"),
    *("thm2-L2", "thm2-sup", "thm2-exponents", "lem8", "lem4", "eq6", "eq7", "eq8", "eq9", "eq10", "triple-census"),
    *("lem9", "thm5", "thm5-oracle", "lem6", "lem10", "eq11", "thm7", "sep-remark", "lem10-informative"),
    *("thm5-softmax", "thm5-recursion", "thm5-prob", "thm7-prob", "lem6-exponent", "rem-quant", "rem-whp"),
)
PRINTED = {
    *("thm1-printed", "tf-fixpoint-printed", "prop3-printed", "lem8-printed", "thm2-oracle-printed", "eq10-printed"),
    *("lem6-printed", "lem10-printed", "thm7-separation-printed", "thm7-constants-printed", "filter-printed"),
    "rem-quant-printed",
}
OURS = {
    *("exact-gradient", "noise-law", "error-law", "support-law", "lem9-large", "filter", "thm7-constants"),
    *("thm7-saturating", "eq11-saturating"),
}
TRAINED = {
    *("thm5", "thm5-oracle", "thm5-prob", "error-law", "thm7", "thm7-saturating", "eq11", "eq11-saturating"),
    "thm7-prob",
}

ANOTHER = {"task.bits": 13, "task.size": 6}
SMALL = {"task.bits": 9, "task.size": 4}
# for each claim one size that its ledger does not list
OTHER_SIZES = {
    "link": {"link.name": "requ", "link.slope": 2.01},
    "link-requ": {"link.slope": 2.003},
    "tf-fixpoint": {**ANOTHER, "task.tree": "chain", "link.name": "requ", "link.slope": 3.5},
    "tf-fixpoint-printed": {**ANOTHER, "samples": 3},
    "thm1": {**SMALL, "queries": 7, "width": 3},
    "thm1-printed": {"task.bits": 31, "task.size": 9},
    "prop3": {**SMALL, "width": 3, "scale": 2.0},
    "prop3-printed": SMALL,
    "thm2-var": {**SMALL, "samples": 300},
    "thm2-gram": {**SMALL, "samples": 300},
    "thm2-oracle": {**SMALL, "queries": 7, "samples": 77, "accuracy": 1.5},
    "thm2-oracle-printed": {**SMALL, "queries": 7},
    "thm2-L2": {**SMALL, "queries": 7},
    "thm2-sup": {**SMALL, "queries": 7, "samples": 50, "accuracy": 1.0},
    "rem-whp": {**SMALL, "queries": 7, "samples": 100},
    "thm2-exponents": {"epsilon": 0.4, "gradient": 1.25},
    "thm7-separation-printed": {"epsilon": 2.5},
    "lem8": {"task.bits": 101, "task.size": 37},
    "lem8-printed": {"task.bits": 11, "task.size": 11},
    "lem4": {**ANOTHER, "link.name": "requ", "link.slope": 3.3, "scales": (0.5, 9.0)},
    "eq6": {**ANOTHER, "mask": "block", "link.name": "cos", "samples": 7},
    "eq7": {**ANOTHER, "mask": "block", "samples": 333},
    "eq8": {**ANOTHER, "task.tree": "chain", "samples": 333},
    "eq9": {**ANOTHER, "link.name": "requ", "link.slope": 3.0, "samples": 333},
    "eq10": {**ANOTHER, "link.name": "requ", "link.slope": 3.0, "samples": 333},
    "eq10-printed": {"epsilon": 12.0, "bits": (50, 500)},
    "exact-gradient": {"task.bits": 11, "task.size": 7, "mask": "block"},
    "lem6": {"task.bits": 5, "task.size": 3, "link.name": "cos", "starts": 3, "steps": 20},
    "lem6-printed": {"link.name": "cos", "levels": 2},
    "lem6-exponent": {"slopes": (3.7, 2.2), "levels": 5},
    "lem9": {**ANOTHER, "samples": 700, "repeats": 10},
    "lem9-large": {"task.bits": 18, "task.size": 6, "samples": 900, "repeats": 2},
    "lem10": {"task.bits": 100, "task.size": 37, "rows": 250, "repeats": 5},
    "lem10-printed": {"task.bits": 300, "task.size": 8, "repeats": 5},
    "lem10-informative": {"task.bits": 10, "task.size": 7, "inputs": 5, "repeats": 500},
    "noise-law": {"task.bits": 20, "task.size": 9, "samples": 1500, "repeats": 20},
    "support-law": {"task.bits": 40, "task.size": 9, "repeats": 8},
    "thm5-softmax": {"task.bits": 30, "task.size": 12, "lam": 8.0, "samples": 5000},
    "thm5-recursion": {"task.bits": 20, "task.size": 16, "link.name": "requ", "lam": 13.0},
    "filter": {"task.bits": 300, "task.size": 11, "eps0": 1.2},
    "filter-printed": {"task.bits": 300, "task.size": 11, "eps0": 0.8},
    "thm7-constants": {"task.bits": 21, "task.size": 20, "eta0": 0.3, "link.name": "cos"},
    "thm7-constants-printed": {"task.bits": 21, "task.size": 20, "eta0": 0.3},
    "rem-quant": {"entries": 500, "scale": 3.0},
    "rem-quant-printed": {"entries": 500, "scale": 3.0},
    "sep-remark": {"task.bits": 33, "task.size": 7, "extra": 3, "repeats": 40},
}


def theory():
    import stairwise.papers.parity_onestep.claims  # noqa: F401  fills the ledger

    return {claim.id: claim for claim in LEDGER.claims if claim.check is not None}


def check(id, sizes, seed=1):
    claim = theory()[id]
    with jax.enable_x64(claim.precision == 64):
        return claim.check(update(claim.cases[0], sizes), seed)


def test_every_statement_is_claimed_exactly_once():
    claims = theory()
    names = [name for claim in LEDGER.claims for name in (claim.id, *claim.aliases)]
    assert len(names) == len(set(names))
    assert len(IDS) == len(set(IDS)) == 37  # 46 of the ledger, less nine figures
    assert set(claims) == {*IDS, *PRINTED, *OURS}


def test_what_is_ours_says_so():
    claims = theory()
    for id in ("exact-gradient", "noise-law", "error-law", "support-law"):
        assert claims[id].says.startswith("beyond the paper")
    for id in ("thm7-saturating", "eq11-saturating"):
        assert claims[id].says.startswith("extension, not Theorem 7")
    for id in ("thm7", "eq11"):
        assert claims[id].cases[0].quantiser.kind == "integer"
    for id in PRINTED:
        assert claims[id].says.startswith("as printed")


@pytest.mark.parametrize("id", sorted({*IDS, *PRINTED, *OURS} - TRAINED))
def test_the_claim_has_its_status_at_a_size_of_the_users_own(id):
    verdict = check(id, OTHER_SIZES.get(id, ANOTHER))
    json.dumps([dict(row) for row in verdict.details], allow_nan=False)  # it must fit into the store
    assert verdict.status == ("refuted" if id in PRINTED else "holds"), (verdict, verdict.details)
    if id in PRINTED:
        assert verdict.note


def test_the_known_values_at_the_sizes_of_the_ledger():
    assert check("prop3-printed", {}).measured == pytest.approx(3.94286, abs=5e-6)
    assert check("prop3-printed", {}).details[0]["variance with 1/2"] == pytest.approx(0.98571, abs=5e-6)
    assert check("lem9", {"repeats": 1}).details[0]["kappa"] == pytest.approx(0.2507, abs=5e-5)
    informative = check("lem10-informative", {"inputs": 8})
    assert "exact" in informative.details[1]
    assert informative.details[1]["exact"] == pytest.approx(0.16802, abs=5e-6)
    assert check("lem8", {"task.bits": 256, "task.size": 128}).hypotheses_met


@pytest.mark.parametrize("inputs", [1, 2])
def test_a_bound_of_one_on_a_chance_is_vacuous(inputs):
    verdict = check("lem10-informative", {"inputs": inputs, "repeats": 50})
    assert (verdict.status, verdict.required) == ("vacuous", pytest.approx(1.0))


def test_a_tree_of_two_bits_is_solved_before_the_first_step_and_that_breaks_nothing():
    verdict = check("thm7", {"task.bits": 2, "task.size": 2, "samples": 256})
    found = [row["step at which each level is solved"] for row in verdict.details if "seed" in row]
    assert found
    assert set(found) == {"0"}
    assert verdict.status == "holds", (verdict, verdict.details)


@pytest.mark.parametrize(
    ("id", "sizes", "named"),
    [
        ("prop3", {**SMALL, "samples": 100}, "samples=100 must be 0"),
        ("prop3-printed", {"task.bits": 6, "task.size": 6}, "leaves a single parity"),
        ("thm1", {"task.bits": 9, "task.size": 8, "queries": 2}, "min(k, d-k)=1 must be of order task.bits=9"),
        ("thm1", {**SMALL, "queries": 2, "samples": 50}, "samples=50 must be 0"),
        ("lem10", {"task.bits": 30, "task.size": 9, "task.tree": "chain"}, "task.tree=chain must be balanced"),
        ("filter", {"task.bits": 300, "task.size": 11, "eps0": 0.9}, "eps0=0.9 must lie in (1, 2)"),
        ("filter", {"task.bits": 12, "task.size": 4}, "task.bits=12 must be large"),
        ("filter", {"task.bits": 300, "task.size": 11, "inputs": 2}, "inputs=2 must be more"),
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
        ("thm2-gram", {**SMALL, "samples": 20}),
        ("thm2-var", {**SMALL, "samples": 20}),
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
        ("tree", {"task.size": 3, "task.subset": (0, 3, 3)}, "task.subset=3 must not be repeated"),
        ("tree", {"task.bits": 1}, "task.bits=1 must be at least 2"),
        ("link", {"link.name": "requ", "link.slope": 2.0}, "link.slope=2.0 must be above 2"),
        ("prop3", {"task.bits": 18}, "task.bits=18 must be at most 16 for the whole cube"),
        ("thm2-var", {"task.bits": 17, "task.size": 2}, "task.bits=17 must be at most 16 for the whole cube"),
        ("thm2-L2", {"task.bits": 9, "task.size": 9}, "task.size=9 must be below task.bits=9 (a single parity)"),
        ("thm1-printed", {"task.bits": 1000}, "task.bits=1000 must be at most 512"),
        ("eq7", {"task.bits": 2**13, "samples": 2**19}, "samples=524288 times task.bits+task.size-1=8199 must be at"),
        ("eq10-printed", {"bits": (50, 50)}, "bits=(50, 50) must hold at least two values"),
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
    ("lem4", "bounds", "forced_gradient", lambda right: right / 10, {}),
    ("lem9", "bounds", "interaction", lambda right: right / 3, {"repeats": 5}),
    ("lem10", "bounds", "level_means", lambda right: right / 10, {"repeats": 5}),
    ("lem10-informative", "bounds", "uninformative_bound", lambda right: right / 2, {}),
    ("lem10-informative", "bounds", "uninformative_chance", lambda right: right / 2, {"inputs": 8}),
    ("thm2-gram", "bounds", "overlap", lambda right: right / 4, {}),
    ("thm2-var", "bounds", "gradient_variance", lambda right: right / 1e4, {}),
    ("thm2-L2", "bounds", "hidden_losses", lambda right: right._replace(squared=right.squared + 0.1), {"queries": 5}),
    ("thm1", "bounds", "zero_one_error", lambda right: 0.51, {"queries": 5}),
    ("eq7", "expansion", "seven_mean", lambda right: right * 1.001, {"samples": 50}),
    ("eq8", "expansion", "eight_mean", lambda right: right * 1.001, {"samples": 50}),
    ("eq9", "expansion", "nine_bound", lambda right: right / 1e3, {"samples": 50}),
    ("eq10", "expansion", "ten_bound", lambda right: right / 1e3, {"samples": 50}),
    ("exact-gradient", "population", "first_node_poly4", lambda right: right._replace(other=0.0), {}),
    ("noise-law", "population", "node_spread", lambda right: right._replace(difference=right.difference * 1.3), {}),
    ("thm5-recursion", "recursion", "disturbance", lambda right: right / 2, {"task.bits": 20, "task.size": 8}),
    ("support-law", "noise", "support_samples", lambda right: right / 20, {"task.bits": 32, "task.size": 16}),
    ("triple-census", "census", "trivial_quadruples", lambda right: right[1:], {}),
    ("lem8", "mean_parity", "even_count_printed", lambda right: right + 1, {"task.bits": 9, "task.size": 4}),
    ("thm2-exponents", "exponents", "samples_needed", lambda right: right + 1, {}),
)


@pytest.mark.parametrize(("id", "module", "name", "spoil", "sizes"), WRONG, ids=lambda part: str(part)[:24])
def test_a_wrong_formula_makes_its_claim_fail(monkeypatch, id, module, name, spoil, sizes):
    theory()
    home = importlib.import_module(f"stairwise.papers.parity_onestep.theory.{module}")
    right = getattr(home, name)
    monkeypatch.setattr(home, name, lambda *args, **kwargs: spoil(right(*args, **kwargs)))
    assert check(id, sizes).status == "fails"
