"""The ledger of the theory: every statement once, at sizes of its own and of the user, with one line for bad sizes."""

import importlib

import jax
import pytest

from stairwise.lab.config import ConfigError, update
from stairwise.papers.parity_cot.claims.ledger import LEDGER

# the statements of the paper, and what the specification adds to them; figures are judged elsewhere
IDS = (
    *("def1", "def2", "def3", "def4", "def5", "def6", "thm1", "thm1-d", "thm2", "gf2", "table1", "phase1-zero"),
    *(f"lem{number}" for number in range(1, 33)),
    *("thm1-precision", "thm3-precision"),
)
PRINTED = (
    *("def4-printed", "loss-printed", "thm1-sign-printed", "thm1-overlap-printed", "lem2-printed", "lem4-printed"),
    *("lem5-exponent-printed", "lem5-batch-printed", "lem7-alpha-printed", "lem7-mean-printed", "lem9-printed"),
    *("lem14-printed", "lem18-printed", "lem19-printed", "lem21-gradient-printed", "lem21-printed", "lem23-printed"),
    *("lem25-rate-printed", "lem25-printed", "lem26-printed", "thm3-printed"),
)
OURS = ("lem21-large", "lem21-logits")
RUN = {"task.inputs": 9, "task.size": 2, "neurons": 300, "batch": 16_000, "block": 4000, "logit": 150.0}
# for each claim a size that its ledger does not list
OTHER_SIZES = {
    "def1": {"task.inputs": 6, "task.size": 4, "samples": 500},
    "def2": {"task.inputs": 6, "task.size": 4, "samples": 500},
    "def3": {"width": 65},
    "def5": {"neurons": 3},
    "thm1": {"inputs": 9, "size": 4, "width": 400},
    "thm1-d": {"inputs": 20, "size": 2, "draws": 10},
    "thm1-precision": {"sizes": (5, 7), "size": 2},
    "lem1": {"size": 5, "width": 60, "draws": 10},
    "lem2": {"size": 5, "width": 90, "draws": 10},
    "lem3": {"size": 5, "width": 90},
    "lem4": {"inputs": 50, "size": 2, "width": 500, "draws": 10},
    "thm2": {"inputs": 10**6, "size": 100, "width": 300},
    "gf2": {"inputs": 12, "size": 5, "trials": 50},
    "lem5": {"power": 4.5, "failure": 0.01, "scale": 0.5},
    "lem6": {"task.inputs": 5, "task.size": 2},
    "table1": {"task.inputs": 5, "task.size": 4},
    "lem7": {"task.inputs": 8, "task.size": 2, "samples": 900, "neurons": 20, "draws": 5},
    "lem10": {"task.size": 2, "width": 2**21, "neurons": 50},
    "lem11": {"task.size": 5, "width": 2048},
    "lem28": {"shapes": (20, 40), "draws": 3},
    "lem29": {"shapes": (20, 40), "draws": 3},
    "lem30": {"width": 100, "failure": 0.3},
    "lem31": {"inputs": 5, "size": 2, "width": 300},
    "lem32": {"inputs": (3, 7), "constants": (1.2, 3.0)},
    **{f"lem{number}": RUN for number in (8, 9, 12, 13, 14, 15, 16, 17, 18, 19, 22, 23, 24, 25, 26)},
    "lem21-logits": RUN,
}


def theory():
    return {claim.id: claim for claim in LEDGER.claims if claim.check is not None}


def check(id, sizes, seed=1):
    claim = theory()[id]
    assert claim.check is not None
    with jax.enable_x64(claim.precision == 64):
        return claim.check(update(claim.cases[0], sizes), seed)


def test_every_statement_is_claimed_exactly_once():
    importlib.import_module("stairwise.papers.parity_cot.claims")
    names = [name for claim in LEDGER.claims for name in (claim.id, *claim.aliases)]
    assert len(names) == len(set(names))
    assert {*IDS, *PRINTED, *OURS} <= set(theory())
    assert {"thm3", "thm3-attention", "thm3-literal", "thm3-no-chain"} <= {c.id for c in LEDGER.claims if c.judge}


def test_what_is_printed_wrongly_says_so():
    for id in PRINTED:
        assert theory()[id].says.startswith("as printed")


@pytest.mark.parametrize("id", list(OTHER_SIZES))
def test_a_claim_holds_at_other_sizes(id):
    verdict = check(id, OTHER_SIZES[id])
    assert verdict.status in ("holds", "reported"), (verdict, verdict.note, verdict.details)


@pytest.mark.parametrize(
    "id", [id for id in PRINTED if id not in ("lem19-printed", "lem4-printed", "lem7-alpha-printed")]
)
def test_a_printed_slip_is_refuted_at_other_sizes(id):
    fields = {leaf for leaf in ("task.inputs", "task.size") if leaf in str(theory()[id].cases[0])}
    run = "logit" in str(theory()[id].cases[0])
    sizes = RUN if run else dict.fromkeys(fields, None)
    assert check(id, {name: value for name, value in sizes.items() if value is not None}, seed=2).status == "refuted"


def test_a_chain_of_one_step_is_no_exception():
    for id in ("lem12", "lem14", "lem18", "lem23"):
        assert check(id, RUN | {"task.size": 1}).status == "holds"


def test_sizes_that_break_a_hypothesis_are_named():
    assert "must be at least" in check("lem4", {"width": 40}).hypotheses[0]
    assert check("lem4", {"width": 40}).status == "vacuous"
    assert "(5.2)" in check("lem10", {"width": 512}).hypotheses[0]
    assert check("thm2", {}).status == "vacuous"


@pytest.mark.parametrize(
    ("id", "sizes", "message"),
    [
        ("thm1", {"size": 11}, "size=11 must be at most inputs=10"),
        ("thm1", {"width": 5}, "width=5 must be at least 2*size=6"),
        ("thm1", {"secret": (0, 0, 1)}, "secret=0 must not be repeated"),
        ("lem6", {"task.inputs": 17}, "task.inputs=17 must be at most 16 for all inputs at once"),
        ("lem12", {"task.cot": False}, "task.cot=False must be true"),
        ("lem12", {"task.noise": 0.1}, "task.noise=0.1 must be 0"),
        ("lem5", {"power": 0.5}, "power=0.5 must be at least 1 and at most 10"),
        ("gf2", {"trials": 1}, "trials=1 must be at least 2 and at most 10000"),
        ("lem30", {"draws": 10**5, "width": 2**22}, "which must be at most 17179869184"),
    ],
)
def test_a_bad_size_is_one_line(id, sizes, message):
    with pytest.raises(ConfigError) as error:
        update(theory()[id].cases[0], sizes)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
