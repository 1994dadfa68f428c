"""The ledger of the theory: every statement once, at sizes of its own and of the user, with one line for bad sizes."""

import pkgutil

import jax
import pytest

from stairwise.lab.config import ConfigError, update
from stairwise.papers.selection.claims.ledger import LEDGER

# the statements of the paper and ours that need no training run, with the names under which they also go
IDS = {
    "def-sts": (),
    "def-qsa": (),
    "appA2": (),
    "def-onehot": (),
    "def-nearorth": (),
    "def2.5": (),
    "defA1-rip": (),
    "lemA2": (),
    "lemA3": (),
    "lemA3-corrected": (),
    "appF-pairwise-rip": (),
    "lemD1": (),
    "lemD2": ("lemE3",),
    "lemD5": ("lem3.2",),
    "eq6": (),
    "thm3.1": ("thmD4",),
    "thm3.1-stages": (),
    "sharp-rate": (),
    "ih1": (),
    "alpha-star": (),
    "lemE2": (),
    "lemE4": (),
    "lemE5": (),
    "lemE7": ("lem3.4",),
    "lemE10": (),
    "lemE11": (),
    "lemE12": (),
    "lemE13": (),
    "lemE14": (),
    "lemE15": (),
    "thm3.3": ("thmE6",),
    "ih2": (),
    "corE8": (),
    "corE8-interval": (),
    "corE16": (),
    "cor3.6": ("corE9",),
    "ood-ratio": (),
    "thm3.5": ("thmC1",),
    "fcn-exact": (),
    "thmC2": (),
    "thmC3": (),
}
PRINTED = {
    "lemD2-printed",
    "thm3.1-threshold-printed",
    "lemE2-printed",
    "lemE7-printed",
    "thmC2-printed",
    "cor3.6-informal",
    "corE9-display-printed",
}
REFUTED = PRINTED | {"lemA3", "appF-pairwise-rip"}

ANOTHER = {"task.length": 11, "task.sparsity": 2, "task.width": 3}
TINY = {"task.length": 3, "task.sparsity": 2, "task.width": 2, "value_scale": 1.4, "attention_scale": 0.9}
DRAWN = {**ANOTHER, "task.width": 1, "encoding_width": 14, "encodings": 3}
# for each claim one size that its ledger does not list
OTHER_SIZES = {
    "appA2": {"task.length": 4, "task.sparsity": 1, "task.width": 2},
    "def-nearorth": {**ANOTHER, "encoding_width": 40, "threshold": 0.5},
    "def2.5": DRAWN,
    "defA1-rip": {"task.length": 7, "task.sparsity": 3, "encoding_width": 96},
    "lemA2": {"task.length": 7, "task.sparsity": 3, "encoding_widths": (128, 512, 2048)},
    "lemA3": {"task.length": 17, "task.sparsity": 4, "encoding_width": 2**11},
    "lemA3-corrected": {"task.length": 7, "task.sparsity": 3, "encoding_width": 640},
    "appF-pairwise-rip": {"task.length": 12, "task.sparsity": 2, "encoding_width": 96, "threshold": 0.3},
    "lemD1": {**ANOTHER, "encoding_width": 9, "examples": 2},
    "lemD2": {"task.length": 5, "task.sparsity": 3, "value_scale": -0.4, "query_token": 0.5},
    "lemD2-printed": {"token_scale": -0.4, "value_scale": 1.1},
    "lemD5": {"task.length": 5, "task.sparsity": 3, "query_token": 0.5, "steps": 60, "learning_rate": 0.4},
    "eq6": {**ANOTHER, "horizon": 7.0, "learning_rate": 0.004},
    "lemE2": DRAWN,
    "lemE2-printed": TINY,
    "lemE4": DRAWN,
    "lemE5": DRAWN,
    "lemE7": {**TINY, "steps": 12},
    "lemE7-printed": TINY,
    "lemE12": TINY,
    "lemE13": TINY,
    "lemE14": TINY,
    "lemE10": {**ANOTHER, "encoding_width": 13},
    "lemE11": {**ANOTHER, "encoding_width": 13},
    "lemE15": {**ANOTHER, "encoding_width": 30, "attention_scale": 3.0},
    "thm3.3": {"task.length": 60, "task.sparsity": 2, "encoding_width": 128, "encodings": 6},
    "ih2": {"task.length": 36, "task.sparsity": 2, "encodings": 6, "steps": 1500},
    "corE8": {"task.length": 90, "task.width": 240, "encodings": 2, "accuracy": 0.2},
    "corE8-interval": {"task.length": 33, "accuracy": 0.9},
    "corE16": {"task.length": 60, "task.sparsity": 2, "encodings": 6},
    "cor3.6": {"task.length": 64, "test_length": 97, "test_sparsity": 4},
    "cor3.6-informal": {"task.length": 64, "test_length": 128},
    "ood-ratio": {"task.length": 64, "test_length": 97, "test_sparsity": 4},
    "corE9-display": {"task.length": 64, "test_length": 97},
    "corE9-display-printed": {"task.length": 64, "test_length": 97},
    "thm3.5": {"task.length": 7, "task.sparsity": 3, "task.width": 2, "first_width": 9},
    "fcn-exact": {"task.length": 5, "task.sparsity": 3, "task.width": 2},
    "thmC2": {"task.length": 7, "task.sparsity": 3, "first_width": 6},
    "thmC2-printed": {"task.length": 7, "task.sparsity": 3},
    "thmC3": {**ANOTHER, "encoding_width": 90, "threshold": 0.5, "epsilon": 0.3},
}


def theory():
    import stairwise.papers.selection.claims  # noqa: F401  fills the ledger

    return {claim.id: claim for claim in LEDGER.claims if claim.check is not None}


def check(id, sizes, seed=1):
    claim = theory()[id]
    with jax.enable_x64(True):
        return claim.check(update(claim.cases[0], sizes), seed)


def test_every_statement_is_claimed_exactly_once():
    import stairwise.papers.selection.claims  # noqa: F401  fills the ledger

    names = [name for claim in LEDGER.claims for name in (claim.id, *claim.aliases)]
    assert len(names) == len(set(names))
    claims = theory()
    assert set(IDS) <= set(claims)
    assert {id: claims[id].aliases for id in IDS} == IDS
    assert set(claims) - set(IDS) == PRINTED | {"thm3.1-threshold", "corE9-display"}


@pytest.mark.parametrize("id", sorted({*IDS, *PRINTED, "thm3.1-threshold", "corE9-display"}))
def test_the_claim_has_its_status_at_a_size_of_the_users_own(id):
    verdict = check(id, OTHER_SIZES.get(id, ANOTHER))
    assert verdict.status == ("refuted" if id in REFUTED else "holds"), (verdict, verdict.details)
    if id in REFUTED:
        assert verdict.details or verdict.note


def test_the_averaged_claims_have_the_known_values_at_their_own_sizes():
    row = check("def2.5", {}).details[0]
    assert (row["L_in"], row["L_out"]) == pytest.approx((0.045087, 0.055520), abs=5e-7)
    row = check("lemE7-printed", {}).details[0]
    assert (row["-grad V"], row["printed"]) == pytest.approx((0.12675, 0.16868), abs=5e-6)


@pytest.mark.parametrize(
    ("id", "sizes", "named"),
    [
        ("thm3.1", {"task.length": 10, "task.sparsity": 3}, "task.sparsity=3 must be below task.length/4=2.5"),
        ("thm3.1", {"task.sparsity": 1}, "task.sparsity=1 must be at least 2"),
        ("ih1", {"accuracy": 1.5}, "accuracy=1.5 must be below 1"),
        ("lemD5", {"query_token": 0.5, "steps": 5}, "query_token=0.5 must be 0"),
        ("lemE14", {"encodings": 3}, "encodings=3 must be 0"),
        ("thm3.3", {"task.length": 24, "encodings": 2}, "must be below 1/10"),
        ("cor3.6", {"test_length": 150}, "test_length=150 must be at least task.length=200"),
        ("thm3.5", {"first_width": 6}, "first_width=6 must be below task.length*task.width=6"),
        ("thmC2", {"first_width": 14}, "first_width=14 must be at most (T-q+1)d-1=13"),
        ("thmC3", {"task.length": 30, "encoding_width": 12, "threshold": 0.9}, "must be at most 1/2"),
    ],
)
def test_hypotheses_that_the_sizes_violate_are_named(id, sizes, named):
    verdict = check(id, sizes)
    assert not verdict.hypotheses_met
    assert any(named in hypothesis for hypothesis in verdict.hypotheses), verdict.hypotheses
    assert verdict.status in ("holds", "vacuous")


def test_a_false_conclusion_outside_the_hypotheses_says_nothing():
    assert check("thm3.5", {"first_width": 6}).status == "vacuous"
    assert check("thmC2", {"first_width": 14}).status == "vacuous"
    assert check("lemE14", {"encodings": 3}).status == "vacuous"


@pytest.mark.parametrize(
    ("id", "sizes", "line"),
    [
        ("thm3.1", {"task.length": 1}, "task.length=1 must be at least 2"),
        ("thm3.1", {"task.length": 8, "task.sparsity": 8}, "task.sparsity=8 must be below task.length=8"),
        (
            "lemD5",
            {"task.length": 40, "task.sparsity": 12},
            "task.sparsity=12 has 5586853480 subsets of task.length=40",
        ),
        ("lemD5", {"task.length": 40, "task.width": 9}, "task.length=40, task.sparsity=2, task.width=9 with 1 sets of"),
        ("lemE7", {"task.length": 9}, "task.length=9 times encoding_width=5 must be at most 20"),
        ("lemE14", {"threshold": 0.1}, "threshold=0.1 leaves none of the 2**12 sets of encodings"),
        ("appA2", {"task.length": 9}, "task.length=9 has 1.02e+14 tuples of queries, which must be at most 1000000"),
        ("lemA3", {"encoding_width": 100}, "encoding_width=100 must be a power of two of at least 64"),
        ("thm3.3", {"encoding_width": 2}, "encoding_width=2 must be at least task.sparsity=3"),
        ("thm3.3", {"encoding_width": 12, "threshold": 0.9}, "threshold=0.9 admits <e_i, e_y>"),
        ("cor3.6", {"test_length": 3}, "test_sparsity=3 must be below test_length=3"),
        ("thm3.5", {"task.length": 700, "task.width": 2}, "task.width=2 times task.length=700 must be at most 1200"),
        ("thm3.5", {"task.length": 100, "task.sparsity": 9}, "task.sparsity=9 has 1902231808400 subsets"),
        ("thm3.1-stages", {"accuracy": 100.0}, "accuracy=100 must be below 45"),
        ("thm3.1-stages", {"accuracy": 1e-30}, "accuracy=1e-30 must be at least 1e-09"),
        ("ih1", {"accuracy": 1e4}, "accuracy=10000 must be below 38.8889"),
        ("corE16", {"accuracy": 1e4}, "accuracy=10000 must be below 49.25"),
        ("eq6", {"learning_rate": 1e-9, "horizon": 1e6}, "horizon=1e+06 must be 100 to 500000 steps of learning_rate"),
        ("eq6", {"learning_rate": 1.0, "horizon": 1.0}, "horizon=1 must be 100 to 500000 steps of learning_rate=1"),
        ("lemD1", {"encoding_width": 1, "task.sparsity": 1}, "encoding_width=1 must be at least 4 for task.length=8"),
        ("defA1-rip", {"encoding_width": 1, "task.sparsity": 1}, "encoding_width=1 must be at least 4"),
        ("lemA2", {"encoding_widths": (64,)}, "encoding_widths=(64,) must be at least two widths"),
    ],
)
def test_sizes_that_cannot_be_checked_are_refused_in_one_line(id, sizes, line):
    with pytest.raises(ConfigError) as refused:
        check(id, sizes)
    assert str(refused.value).startswith(line)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("id", "sizes", "status", "named"),
    [
        ("lemA3", {"task.length": 3, "task.sparsity": 1, "encoding_width": 8}, "holds", "delta=0.5 must be below 1/2"),
        ("lemA3", {"task.length": 2, "task.sparsity": 1, "encoding_width": 4}, "holds", "delta=1 must be below 1/2"),
        ("defA1-rip", {"task.length": 2, "task.sparsity": 1, "encoding_width": 4}, "holds", ""),
        ("defA1-rip", {"task.length": 2, "task.sparsity": 1, "encoding_width": 2}, "vacuous", ""),
        ("defA1-rip", {"task.length": 3, "encoding_width": 4, "threshold": 0.1}, "vacuous", ""),
        ("lemD5", {"learning_rate": 100.0, "steps": 20}, "vacuous", "learning_rate=100 magnifies rounding"),
        ("lemD5", {"attention_scale": 50.0, "steps": 5}, "holds", ""),
        ("lemE5", {"attention_scale": 50.0}, "holds", ""),
        ("thm3.1-stages", {"task.sparsity": 19, "accuracy": 1.0}, "vacuous", "task.sparsity=19 must be below"),
        ("thm3.1-stages", {"accuracy": 1e-9}, "holds", ""),
        ("eq6", {"learning_rate": 0.1}, "holds", "learning_rate=0.1 must be at most 1/(20 d^2)=0.002"),
        ("sharp-rate", {"task.length": 2000}, "vacuous", "horizon=1e+06 is too early"),
        ("sharp-rate", {"task.length": 1000, "task.sparsity": 999, "task.width": 1}, "vacuous", "is too early"),
        ("sharp-rate", {"horizon": 1.0}, "vacuous", "horizon=1 is too early"),
        ("ood-ratio", {"horizon": 1.0}, "vacuous", "horizon=1 is too early"),
        ("ood-ratio", {"test_length": 2**20}, "vacuous", "horizon=1e+14 is too early"),
        ("lemA2", {"encoding_widths": (16, 17)}, "vacuous", "encodings=24 and encoding_widths=(16, 17) give"),
    ],
)
def test_odd_sizes_have_a_verdict_that_names_what_they_violate(id, sizes, status, named):
    verdict = check(id, sizes)
    assert verdict.status == status, (verdict, verdict.details)
    assert any(named in hypothesis for hypothesis in verdict.hypotheses) if named else verdict.hypotheses_met


@pytest.mark.parametrize(
    ("id", "of"), [("sharp-rate", "onehot.loss"), ("ood-ratio", "generalisation.loss_ratio_limit")]
)
def test_a_claim_can_fail(id, of, monkeypatch):
    path = f"stairwise.papers.selection.theory.{of}"
    right = pkgutil.resolve_name(path)
    monkeypatch.setattr(path, lambda *sizes: 1.01 * right(*sizes))
    assert check(id, {}).status == "fails"
