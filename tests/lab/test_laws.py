"""Facts about the page of laws: it is made from the kept curves, which are what the claims measure."""

import json

import jax.numpy as jnp
import numpy as np
import pytest

from stairwise.lab.contract.checks import slope
from stairwise.lab.contract.claims import Ledger
from stairwise.lab.contract.manifest import built_in, read
from stairwise.lab.ledger import laws
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
