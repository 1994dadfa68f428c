"""The ledger of the theory at sizes that it does not list, with one line for bad sizes; and its certificates."""

import subprocess
import sys
from pathlib import Path

import jax
import pytest

from stairwise.config import ConfigError, update
from stairwise.papers import parity_cot
from stairwise.papers.parity_cot import construction
from stairwise.papers.parity_cot.claims.ledger import LEDGER
from stairwise.papers.parity_cot.theory import bounds, hyperparameters, memory, statistics

THEORY = {claim.id: claim for claim in LEDGER.claims if claim.check is not None}
FOLDER = Path(parity_cot.__file__).parent
RUN = {"task.bits": 9, "task.size": 2, "neurons": 350}
# for each claim a size that its ledger does not list
OTHER_SIZES = {
    "def1": {"task.bits": 6, "task.size": 4, "samples": 500},
    "def2": {"task.bits": 6, "task.size": 4, "samples": 500},
    "def3": {"width": 65},
    "def5": {"neurons": 3},
    "thm1": {"bits": 9, "size": 4, "width": 400},
    "thm1-d": {"bits": 20, "size": 2, "draws": 10},
    "lem1": {"size": 100, "width": 700, "draws": 10},
    "lem2": {"size": 5, "width": 90, "draws": 10},
    "lem3": {"size": 5, "width": 90},
    "lem4": {"bits": 50, "size": 2, "width": 500, "draws": 10},
    "thm2": {"sizes": (3, 4, 5, 6), "scale": 0.5, "models": 12},
    "thm2-size": {"bits": 10**6, "size": 100, "width": 300},
    "gf2": {"bits": 12, "size": 5, "trials": 50},
    "lem5": {"power": 4.7, "failure": 0.01, "scale": 0.5},
    "lem6": {"task.bits": 5, "task.size": 2},
    "table1": {"task.bits": 5, "task.size": 4},
    "lem10": {"task.size": 2, "width": 2**24, "neurons": 50},
    "lem11": {"task.size": 2, "width": 2**24, "neurons": 50},
    "lem28": {"shapes": (20, 40), "draws": 3},
    "lem29": {"shapes": (20, 40), "draws": 3},
    "lem32": {"bits": (3, 7), "constants": (1.2, 3.0)},
    **{f"lem{number}": RUN for number in (8, 9, 12, 13, 14, 15, 16, 17, 18, 20, 22, 23, 24, 25)},
}
SLIPS = [claim for claim in THEORY.values() if claim.kind in ("refuted", "misprint")]


def check(id, sizes, seed=1):
    claim = THEORY[id]
    with jax.enable_x64(claim.precision == 64):
        return claim.at(update(claim.cases[0], sizes), seed)


@pytest.mark.parametrize("id", list(OTHER_SIZES))
def test_a_claim_holds_at_other_sizes(id):
    verdict = check(id, OTHER_SIZES[id])
    assert verdict.status in ("holds", "reported"), (verdict, verdict.note, verdict.details)


def test_a_batch_of_a_few_sequences_is_looked_at_as_a_whole():
    assert check("lem9-printed", {**RUN, "batch": 20, "block": 20}).status == "misprint"


@pytest.mark.parametrize("claim", SLIPS, ids=lambda claim: claim.id)
def test_what_is_printed_wrongly_says_so_and_is_false_for_another_seed(claim):
    assert claim.says.startswith("as printed")
    assert check(claim.id, {}, seed=2).status == claim.kind


@pytest.mark.parametrize("claim", [claim for claim in SLIPS if claim.certificate], ids=lambda claim: claim.id)
def test_a_certificate_runs_without_the_package(claim, tmp_path):
    command = [sys.executable, "-I", str(FOLDER / claim.certificate)]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert len(found.stdout.splitlines()) == 1
    assert "stairwise" not in (FOLDER / claim.certificate).read_text()


# claim, the function that it is of, and what is done to its value
WRONG = [
    ("lem6", statistics, "mean_alpha", lambda found: 2 * found),
    ("thm1", construction, "theorem1", lambda found: type(found)(found.first, found.second, 1.05 * found.attention)),
    ("thm1-certificate", construction, "certificate", lambda found: found._replace(overlap=0.9 * found.overlap)),
    ("thm1-memory", memory, "memory", lambda found: found._replace(parameters=2 * found.parameters)),
    ("thm3-size", hyperparameters, "literal", lambda found: found._replace(rate=2 * found.rate)),
    ("thm3-size", hyperparameters, "literal", lambda found: found._replace(last_rate=2 * found.last_rate)),
    ("lem10", bounds, "start_deviation", lambda found: found / 2),
    ("lem10", bounds, "start_deviation", lambda found: 2 * found),
    ("lem30", bounds, "inner_product", lambda found: 2 * found),
    ("lem4", bounds, "overlap_width", lambda found: found // 2),
    ("lem28", bounds, "operator_norm", lambda found: found / 2),
    ("lem28", bounds, "operator_norm", lambda found: 2 * found),
    ("lem29", bounds, "singular_gap", lambda found: found / 2),
    ("lem29", bounds, "covariance_gap", lambda found: 2 * found),
    ("thm2", memory, "fourier", lambda found: -found),
    ("thm2", memory, "samples_to_see", lambda found: 2 * found),
]


@pytest.mark.parametrize(("id", "module", "name", "change"), WRONG)
def test_a_claim_fails_where_its_formula_is_wrong(monkeypatch, id, module, name, change):
    right = getattr(module, name)
    monkeypatch.setattr(module, name, lambda *args: change(right(*args)))
    assert check(id, {}, seed=0).status == "fails"


def test_a_wrong_width_or_rate_fails_and_is_not_outside(monkeypatch):
    """Where a hypothesis calls the bound that is wrong, a larger size still meets it, or the bound is not called."""
    right = bounds.overlap_width
    monkeypatch.setattr(bounds, "overlap_width", lambda *args: 2 * right(*args))
    assert check("lem4", {"width": 2000, "draws": 5}).status == "fails"
    monkeypatch.setattr(bounds, "largest_rate", lambda *args: 0.0)
    monkeypatch.setattr(bounds, "rates_for_lemma25", lambda *args: 0.0)
    for claim in LEDGER.claims:
        if claim.id in ("lem16", "lem25"):
            assert not claim.unmet(claim.cases[0])


def test_a_chain_of_one_step_is_no_exception():
    for id in ("lem12", "lem14", "lem18", "lem23"):
        assert check(id, RUN | {"task.size": 1}).status == "holds"


def test_sizes_that_break_a_hypothesis_are_outside_and_named():
    assert check("lem4", {"width": 40}).status == "outside"
    assert "(5.2)" in check("lem10", {"width": 512}).hypotheses[0]
    assert "(5.4)" in check("lem16", RUN | {"scale": 1.0}).hypotheses[0]


@pytest.mark.parametrize(
    ("id", "sizes", "message"),
    [
        ("thm1", {"size": 11}, "size=11 must be at most bits=10"),
        ("thm1", {"width": 5}, "width=5 must be at least 2*size=6"),
        ("thm1", {"secret": (0, 0, 1)}, "secret=0 must not be repeated"),
        ("lem6", {"task.bits": 17}, "task.bits=17 must be at most 16 for all inputs at once"),
        ("lem12", {"task.cot": False}, "task.cot=False must be true"),
        ("lem12", {"task.noise": 0.1}, "task.noise=0.1 must be 0"),
        ("lem5", {"power": 0.5}, "power=0.5 must be at least 1 and at most 10"),
        ("gf2", {"trials": 1}, "trials=1 must be at least 2 and at most 10000"),
    ],
)
def test_a_bad_size_is_one_line(id, sizes, message):
    with pytest.raises(ConfigError) as error:
        update(THEORY[id].cases[0], sizes)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
