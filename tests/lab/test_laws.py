"""Facts about the page of laws: it is made from the kept curves, which are what the claims measure."""

import json

import jax.numpy as jnp
import numpy as np
import pytest

from stairwise.lab.contract.checks import slope
from stairwise.lab.contract.claims import Ledger
from stairwise.lab.contract.manifest import built_in, read
from stairwise.lab.ledger import laws, missed
from stairwise.papers import selection
from tests.lab.audited import Size

PAPERS = ("composition", "lego", "parity_cot", "parity_onestep", "selection")


def test_the_page_is_what_the_kept_curves_give():
    assert laws.PAGE.read_text(encoding="utf-8") == laws.page([read(id) for id in built_in()], laws.kept_files())


def test_every_paper_has_laws_and_a_picture_of_them():
    assert tuple(laws.kept_files()) == PAPERS
    for paper in PAPERS:
        assert (laws.PICTURES / f"{paper}.svg").is_file()


@pytest.mark.parametrize("paper", PAPERS)
def test_kept_laws_belong_to_rates_that_there_are(paper):
    rates = {claim["id"] for claim in read(paper)["claims"] if claim["kind"] == "rate"}
    assert {law["claim"] for law in laws.kept_files()[paper]} <= rates


def test_a_kept_curve_is_what_the_claim_measures():
    claim = next(claim for claim in selection.PAPER.claims if claim.id == "cor3.6-rate")
    kept = [law for law in laws.kept_files()["selection"] if law["claim"] == claim.id]
    found = json.loads(json.dumps(laws.laws_of(claim)))
    assert [law["quantity"] for law in found] == ["loss against T2"]
    for one, two in zip(found, kept, strict=True):
        assert one.keys() == two.keys()
        for name in ("measured", "low", "high", "sizes", "values"):
            assert one[name] == pytest.approx(two[name], rel=1e-4)


def test_laws_are_measured_in_the_precision_of_the_claim():
    ledger = Ledger()

    @ledger.rate("law", statement="Theorem 1", says="it grows as a square", of=(len,), cases=Size())
    def check(config, seed):
        values = jnp.asarray([1.0, 4.0, 16.0]) + 1e-12
        yield slope("steps", [1, 2, 4], np.asarray(values) - 1, 2.0, against="n")

    (found,) = laws.laws_of(ledger.claims[0])
    assert found["values"][0] == pytest.approx(1e-12, rel=1e-3)  # lost in float32


def ledger_of(**more):
    ledger = Ledger()

    @ledger.rate("law", statement="Theorem 1", says="it grows as a square", of=(len,), cases=Size())
    def check(config, seed):
        yield slope("without a name", [1, 2, 4], [1, 4, 16], 2.0)
        yield slope("steps", [4, 1, 2], [16, 1, 4], 2.0, against="n", **more)

    return ledger.claims[0]


def test_only_an_exponent_against_a_named_size_is_a_law():
    (found,) = laws.laws_of(ledger_of())
    assert (found["quantity"], found["against"], found["printed"], found["measured"]) == ("steps", "n", 2.0, 2.0)
    assert found["sizes"] == [4, 1, 2]
    assert laws.slacks(found) == ()


def test_the_slack_is_what_is_allowed_over_what_is_measured_at_both_ends():
    (found,) = laws.laws_of(ledger_of(bound=[160, 3, 8]))
    assert laws.slacks(found) == (3, 10)
    (found,) = laws.laws_of(ledger_of(bound=[8, 1, 4], side="at least"))
    assert laws.slacks(found) == (1, 2)


def curve(form, sizes, values, printed, side="equal"):
    x, y = (np.log(sizes) if form == "power" else np.array(sizes)), np.log(values)
    measured = float(np.polyfit(x, y, 1)[0])
    numbers = {"printed": printed, "measured": measured, "low": measured - 1e-3, "high": measured + 1e-3}
    return {"law": form, "against": "n", "side": side, "sizes": list(sizes), "values": list(values), **numbers}


SIZES = (16.0, 32.0, 64.0, 128.0)


@pytest.mark.parametrize(
    ("law", "why"),
    [
        (curve("power", SIZES, [x**2 * (1 + 5 / x) for x in SIZES], 2.0), "a factor $1 + s/x$."),
        (curve("power", SIZES, [x**2 * np.log(x) for x in SIZES], 2.0), r"a factor $(\ln x)^s$."),
        (curve("exponential", SIZES, [x**-0.5 * np.exp(-x / 9) for x in SIZES], -1 / 9), "a factor $x^s$."),
        (curve("exponential", (1, 2, 3, 4), (3, 5, 11, 20), 0.7), "moves the exponent by more than the gap."),
        (curve("power", SIZES, (1.0, 1.5, 1.1, 1.9), 0.0), "No reason was found."),
    ],
)
def test_the_factor_that_a_law_was_given_is_the_reason_for_its_gap(law, why):
    assert missed.misses(law)
    assert why in missed.reason(law)


def test_an_exponent_on_the_side_that_a_bound_allows_is_no_miss():
    values = [x**1.5 for x in SIZES]
    assert not missed.misses(curve("power", SIZES, values, 2.0, "at most"))
    assert missed.misses(curve("power", SIZES, values, 2.0, "at least"))
    assert missed.misses(curve("power", SIZES, values, 1.0, "at most"))


def test_every_law_that_misses_its_exponent_is_on_the_page_with_a_reason():
    reasons = laws.PAGE.read_text(encoding="utf-8").partition(laws.GAPS)[2]
    found = [law for kept in laws.kept_files().values() for law in kept if missed.misses(law)]
    assert found
    for law in found:
        assert missed.reason(law) in reasons
