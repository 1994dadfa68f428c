"""The ledger of the theory: every statement once, at sizes of its own and of the user, with one line for bad sizes."""

import pkgutil

import jax
import pytest

from stairwise.config import ConfigError, leaves, update
from stairwise.lab.ledger.mutants import mutants, plain, put_in_place
from stairwise.papers.selection.claims.ledger import LEDGER
from stairwise.papers.selection.theory import construction, generalisation

# the statements of the paper and ours that need no training run, with the names under which they also go
IDS = {
    "def-sts": (),
    "def-qsa": (),
    "appA2": (),
    "def-onehot": (),
    "def-nearorth": (),
    "def2.4": (),
    "def2.5": (),
    "defA1-rip": (),
    "lemA2": (),
    "lemA3": (),
    "lemA3-corrected": (),
    "lemA3-tight": (),
    "lemA3-newton": (),
    "sec3.2-width": (),
    "appF-pairwise-rip": (),
    "lemD1": (),
    "lemD2": ("lemE3",),
    "lemD5": ("lem3.2",),
    "eq6": (),
    "thm3.1": ("thmD4",),
    "thm3.1-rate": (),
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
    "thm3.3-rate": (),
    "ih2": (),
    "lemE7-increments": (),
    "lemE7-increments-printed": (),
    "corE8": (),
    "corE8-interval": (),
    "corE16": (),
    "cor3.6": ("corE9",),
    "cor3.6-rate": (),
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
    "lemE15-printed",
    "cor3.6-informal",
    "corE9-display-printed",
    "thm3.1-increment-printed",
    "thm3.3-eta-printed",
    "thm3.3-exponent-printed",
    "thmC3-side-printed",
    "thmC3-exponent-printed",
}
MISPRINTS = {
    "lemD2-printed",
    "thm3.1-threshold-printed",
    "lemE2-printed",
    "thm3.3-eta-printed",
    "thm3.3-exponent-printed",
    "thmC3-side-printed",
    "thmC3-exponent-printed",
}
REFUTED = (PRINTED | {"lemA3", "appF-pairwise-rip"}) - MISPRINTS

ANOTHER = {"task.length": 11, "task.sparsity": 2, "task.width": 3}
TINY = {"task.length": 3, "task.sparsity": 2, "task.width": 2, "value_scale": 1.4, "attention_scale": 0.9}
DRAWN = {**ANOTHER, "task.width": 1, "encoding_width": 14, "encodings": 3}
SMALLER = {"task.length": 90, "task.width": 240, "encodings": 2}
FEWER = {"task.length": 33, "lengths": (10, 20, 40), "widths": (2, 4, 8), "accuracies": (1e-2, 3e-3, 1e-3)}
# for each claim one size that its ledger does not list
OTHER_SIZES = {
    "thm3.3-length": {"task.width": 600},
    "appA2": {"task.length": 4, "task.sparsity": 1, "task.width": 2},
    "def-nearorth": {**ANOTHER, "encoding_width": 40, "threshold": 0.5},
    "def2.5": {"task.length": 7, "encoding_width": 600, "encodings": 3},
    "defA1-rip": {"task.length": 7, "task.sparsity": 3, "encoding_width": 96},
    "lemA2": {"task.length": 7, "task.sparsity": 3, "encoding_widths": (128, 512, 2048), "lengths": (12, 24, 48)},
    "lemA3": {"task.length": 17, "task.sparsity": 4, "encoding_width": 2**11},
    "lemA3-corrected": {"task.length": 7, "task.sparsity": 3, "encoding_width": 640},
    "lemA3-tight": {"task.length": 17, "task.sparsity": 4, "encoding_width": 2**11},
    "appF-pairwise-rip": {"task.length": 12, "task.sparsity": 2, "encoding_width": 96, "thresholds": (0.3,)},
    "lemD1": {**ANOTHER, "encoding_width": 9, "examples": 2},
    "lemD2": {"task.length": 5, "task.sparsity": 3, "value_scale": -0.4, "query_token": 0.5},
    "lemD2-printed": {"token_scale": -0.4, "value_scale": 1.1},
    "lemD5": {"task.length": 5, "task.sparsity": 3, "steps": 60, "learning_rate": 0.04},
    "eq6": {"task.length": 5, "horizon": 4.0, "learning_rate": 0.04},
    "thm3.1-rate": FEWER,
    "thm3.1-increment-printed": {"task.length": 90, "task.width": 2},
    "thmC3-softmax": {"task.length": 33, "epsilon": 0.8},
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
    "lemE15": {"task.length": 7, "task.sparsity": 3, "encoding_width": 700, "attention_scale": 3.0},
    "lemE15-printed": {"task.length": 17, "attention_scale": 35.0},
    "corE8-interval": {"task.length": 33, "accuracy": 0.9},
    **dict.fromkeys(
        ("thm3.3", "thm3.3-rate", "ih2", "lemE7-increments", "lemE7-increments-printed", "corE8", "corE16"), SMALLER
    ),
    **dict.fromkeys(("thm3.3-steps", "thm3.3-eta-printed", "thm3.3-exponent-printed"), SMALLER),
    "cor3.6": {**SMALLER, "test_length": 130},
    "cor3.6-rate": {"task.length": 64},
    "cor3.6-informal": {"task.length": 64, "test_length": 128},
    "ood-ratio": {"task.length": 64, "test_length": 97, "test_sparsity": 4},
    "corE9-display": {"task.length": 64, "test_length": 97},
    "corE9-display-printed": {"task.length": 64, "test_length": 97},
    "thm3.5": {"task.length": 7, "task.sparsity": 3, "task.width": 2, "first_width": 9},
    "fcn-exact": {"task.length": 5, "task.sparsity": 3, "task.width": 2},
    "thmC2": {"task.length": 7, "task.sparsity": 3, "first_width": 6},
    "lemA3-newton": {"task.length": 9, "task.sparsity": 3, "encoding_width": 128},
    "sec3.2-width": {"lengths": (12, 24, 48, 80), "width": 3, "repeats": 6},
    "thmC3": {**ANOTHER, "encoding_width": 90, "threshold": 0.5, "epsilon": 0.3},
}


def theory():
    import stairwise.papers.selection.claims  # noqa: F401  fills the ledger

    return {claim.id: claim for claim in LEDGER.claims if claim.check is not None}


def check(id, sizes, seed=1):
    claim = theory()[id]
    with jax.enable_x64(True):
        return claim.at(update(claim.cases[0], sizes), seed)


OURS = {
    "thm3.1-threshold",
    "corE9-display",
    "thm3.3-length",
    "thm3.1-steps",
    "thm3.1-increment",
    "thm3.3-steps",
    "thmC3-softmax",
}


def test_every_statement_is_claimed_exactly_once():
    import stairwise.papers.selection.claims  # noqa: F401  fills the ledger

    names = [name for claim in LEDGER.claims for name in (claim.id, *claim.aliases)]
    assert len(names) == len(set(names))
    claims = theory()
    assert set(IDS) <= set(claims)
    assert {id: claims[id].aliases for id in IDS} == IDS
    assert set(claims) - set(IDS) == PRINTED | OURS


@pytest.mark.parametrize("id", sorted({*IDS, *PRINTED, *OURS}))
def test_the_claim_has_its_status_at_a_size_of_the_users_own(id):
    verdict = check(id, OTHER_SIZES.get(id, ANOTHER))
    expected = "refuted" if id in REFUTED else "misprint" if id in MISPRINTS else "holds"
    assert verdict.status == expected, (verdict, verdict.details)


def test_the_averaged_claims_have_the_known_values_at_their_own_sizes():
    row = check("def2.5", update_of("def2.5", 2)).details[-1]
    assert (row["L_in"], row["L_out"]) == pytest.approx((0.045087, 0.055520), abs=5e-7)
    printed, _ = check("lemE7-printed", {}).details[-2:]
    assert (printed["-grad V"], printed["printed"]) == pytest.approx((0.12675, 0.16868), abs=5e-6)


def update_of(id, number):
    """The fields of another case of a claim."""
    return {leaf.path: leaf.default for leaf in leaves(theory()[id].cases[number])}


@pytest.mark.parametrize(
    ("id", "sizes", "named", "true"),
    [
        ("thm3.1", {"task.length": 10, "task.sparsity": 3, "accuracy": 0.9}, "q < T/4", True),
        ("thm3.1", {"task.sparsity": 1, "accuracy": 0.9}, "q >= 2", True),
        ("thm3.1", {"step": 1.5, "accuracy": 0.9}, "eta at most the largest of the theorem", True),
        ("ih1", {"accuracy": 1.5}, "epsilon < dT/(100 (T-q) q)", True),
        ("lemD5", {"query_token": 0.5, "steps": 5}, "x_query = 0", True),
        ("lemE14", {"encodings": 3}, "the whole law of encodings", False),
        ("thm3.3", {**SMALLER, "threshold": 0.05}, "(q, delta)-RIP with delta < 1/10", True),
        ("cor3.6", {"test_length": 90}, "T2 >= T1", False),
        ("cor3.6-rate", {"task.length": 29, "task.sparsity": 7}, "q <= T2/10: T2(T2-q) is of order T2^2", False),
        ("cor3.6-rate", {"accuracy": 0.5}, "epsilon is so small that at most 1/16 leaks at the longest", False),
        ("thm3.5", {"first_width": 6}, "first layer narrower than T d", False),
        ("thmC2", {"first_width": 14}, "first layer at most (T-q+1)d - 1 wide", False),
        ("thmC3", {"task.length": 30, "encoding_width": 12, "threshold": 0.9}, "<e_i, e_y> <= 1/2 off y", False),
        ("sharp-rate", {"task.length": 2000}, "the horizon is late for these sizes", False),
        ("sharp-rate", {"horizon": 1.0}, "the horizon is late for these sizes", False),
        ("ood-ratio", {"horizon": 1.0}, "the horizon is late for these sizes", False),
        ("ih2", {"steps": 3}, "as many steps as Phase I takes", False),
        ("lemA3", {"task.length": 3, "task.sparsity": 1, "encoding_width": 8}, "delta < 1/2", True),
    ],
)
def test_outside_the_hypotheses_they_are_named_and_the_conclusion_is_no_evidence(id, sizes, named, true):
    verdict = check(id, sizes)
    assert verdict.status == "outside", (verdict, verdict.details)
    assert named in verdict.hypotheses
    assert ("the conclusion is true here" in verdict.note) == true, verdict.note


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
        ("thm3.3", {"encoding_width": 1}, "encoding_width=1 must be at least task.sparsity=2"),
        ("thm3.3", {"encoding_width": 12, "threshold": 0.9}, "threshold=0.9 admits <e_i, e_y>"),
        ("cor3.6", {"test_length": 2}, "test_sparsity=2 must be below test_length=2"),
        ("thm3.5", {"task.length": 700, "task.width": 2}, "task.width=2 times task.length=700 must be at most 1200"),
        ("thm3.5", {"task.length": 100, "task.sparsity": 9}, "task.sparsity=9 has 1902231808400 subsets"),
        ("thm3.1-stages", {"accuracy": 100.0}, "accuracy=100 must be below 45"),
        ("thm3.1-stages", {"accuracy": 1e-30}, "accuracy=1e-30 must be at least 1e-09"),
        ("ih1", {"accuracy": 1e4}, "accuracy=10000 must be below 38.8889"),
        ("corE16", {"accuracy": 1e4}, "accuracy=10000 must be below 49"),
        ("eq6", {"learning_rate": 1e-9, "horizon": 1e6}, "horizon=1e+06 must be 10 to 500 steps of learning_rate"),
        ("eq6", {"learning_rate": 1.0, "horizon": 1.0}, "horizon=1 must be 10 to 500 steps of learning_rate=1"),
        ("lemD1", {"encoding_width": 1, "task.sparsity": 1}, "encoding_width=1 must be at least 4 for task.length=8"),
        ("defA1-rip", {"encoding_width": 1, "task.sparsity": 1}, "encoding_width=1 must be at least 4"),
        ("lemA2", {"encoding_widths": (64,)}, "encoding_widths=(64,) must be at least three of them"),
    ],
)
def test_sizes_that_cannot_be_checked_are_refused_in_one_line(id, sizes, line):
    with pytest.raises(ConfigError) as refused:
        check(id, sizes)
    assert str(refused.value).startswith(line)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("id", "sizes", "status"),
    [
        ("defA1-rip", {"task.length": 2, "task.sparsity": 1, "encoding_width": 4}, "holds"),
        ("defA1-rip", {"task.length": 2, "task.sparsity": 1, "encoding_width": 2}, "vacuous"),
        ("defA1-rip", {"task.length": 3, "encoding_width": 4, "threshold": 0.1}, "vacuous"),
        ("lemD5", {"attention_scale": 50.0, "steps": 5}, "holds"),
        ("lemE5", {"attention_scale": 50.0}, "holds"),
        ("thm3.1-stages", {"accuracy": 1e-9}, "holds"),
        ("thm3.5", {"task.sparsity": 6}, "vacuous"),
    ],
)
def test_odd_sizes_have_a_verdict(id, sizes, status):
    verdict = check(id, sizes)
    assert verdict.status == status, (verdict, verdict.details)


# a factor, a sign or an exponent in the formula under test: what the claim must notice
MUTANTS = {
    "sharp-rate": ("onehot.loss", lambda value: 1.01 * value),
    "ood-ratio": ("generalisation.loss_ratio_limit", lambda value: 1.01 * value),
    "eq6": ("onehot.slopes", lambda value: (value[0], value[1] / 2)),
    "thm3.1-rate": ("onehot.convergence_time", lambda value: value**0.5),
    "cor3.6-rate": ("generalisation.order_bound", lambda value: value**0.5),
    "lemA3-tight": ("encodings.overlap_bound", lambda value: 0.85 * value),
    "lemE10": ("encodings.overlaps", lambda value: 2 * value),
    "lemE12": ("population.attentions", lambda value: (value[0], 2 * value[1])),
    "lemE15": ("stochastic.leak_bounds", lambda value: (value[1], value[0])),
    "thm3.1-threshold": ("onehot.attention_threshold", lambda value: value - 0.2),
    "alpha-star": ("onehot.alpha_star_maximum", lambda value: 1.001 * value),
    "thmC3": ("construction.scale_sufficient", lambda value: value / 2),
    "thmC2": ("fcn.widest_fooled", lambda value: value - 1),
    "thm3.5": ("fcn.lower_bound", lambda value: value / 2),
    "lemA3-corrected": ("encodings.norm_bound", lambda value: 2 * value),
    "thm3.1": ("onehot.steps_to_loss", lambda value: value + 1),
    "def2.5": ("population.loss_averaged", lambda value: lambda *given: 2 * value(*given)),
    "lemE7-increments": ("stochastic.attention_slope_bounds", lambda value: (value[1], value[0])),
}


@pytest.mark.parametrize("id", MUTANTS)
def test_a_claim_notices_a_wrong_formula(id, monkeypatch):
    name, wrong = MUTANTS[id]
    path = f"stairwise.papers.selection.theory.{name}"
    right = pkgutil.resolve_name(path)
    monkeypatch.setattr(path, lambda *sizes: wrong(right(*sizes)))
    assert check(id, {"thm3.1": ANOTHER, "thm3.1-rate": FEWER}.get(id, {})).status == "fails"


def test_the_printed_scale_of_theorem_C3_is_noticed(monkeypatch):
    right = construction.scale_printed
    monkeypatch.setattr(construction, "scale_printed", lambda *sizes: right(*sizes) // 2)
    assert check("thmC3", {}).status == "fails"


def test_every_exponent_of_corollary_36_is_noticed(monkeypatch):
    bound = plain(generalisation.order_bound)
    assert bound is not None
    for mutant in [each for each in mutants(bound) if each.operator == "exponent"]:
        with monkeypatch.context() as patch:
            patch.setattr(bound, "__code__", bound.__code__)  # put back afterwards
            put_in_place(mutant)
            assert check("cor3.6-rate", {}).status == "fails", mutant.label
