"""What a claim's verdict is, from what its check yields."""

import dataclasses
import json
import math
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest

from stairwise.cli import main
from stairwise.config import Config, ConfigError, option, require
from stairwise.lab import registry
from stairwise.lab.contract import manifest
from stairwise.lab.contract.checks import (
    at_least,
    at_most,
    equal,
    hypothesis,
    measured,
    note,
    row,
    skip_if,
    slope,
    true,
    vacuous_if,
)
from stairwise.lab.contract.claims import Claim, Ledger
from stairwise.lab.contract.paper import Paper
from stairwise.lab.contract.verdict import Verdict
from stairwise.lab.ledger.verify import LedgerRow, exit_status, verify
from stairwise.lab.store.store import Store

NAN = float("nan")


@dataclass(frozen=True)
class Sizes(Config):
    """One size and a step."""

    size: int = option(4, "size", low=1, high=100)
    rate: float = option(0.5, "step", above=0.0)


def formula(size):
    """Twice the size."""
    return 2 * size


SMALL_STEP = {"rate <= 1": lambda config: config.rate <= 1}
COMMON = {"statement": "Theorem 1", "says": "it is so", "of": (formula,), "cases": Sizes()}


def entered(form, check, **more):
    """The one claim of a new ledger."""
    ledger = Ledger()
    getattr(ledger, form)("thm1", **{**COMMON, **more})(check)
    return dataclasses.replace(ledger.claims[0], paper="tiny")


def yields(*found):
    def check(config, seed):
        yield from found

    return check


def status(form, *found, config=None, **more):
    if form == "refuted":
        more.setdefault("certificate", "certificates/thm1.py")
    if form == "misprint":
        more.setdefault("means", "the other sign")
    return entered(form, yields(*found), **more).at(config or Sizes(), 0).status


# --- one case ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([at_most("a", 1, 2)], "holds"),
        ([at_most("a", 3, 2)], "fails"),
        ([at_most("a", 1, 2), at_least("b", 1, 2)], "fails"),
        ([at_most("a", NAN, 2)], "fails"),
        ([at_most("a", 1, NAN)], "fails"),
        ([equal("a", [1.0, NAN], [1.0, 2.0])], "fails"),
        ([measured("a", NAN), at_most("b", 1, 2)], "fails"),
        ([at_most("a", 1, 2), vacuous_if(True, "2 is large")], "vacuous"),
        ([at_most("a", 3, 2), vacuous_if(True, "2 is large")], "fails"),
        ([at_most("a", 1, 2), vacuous_if(False, "2 is large")], "holds"),
        ([skip_if(True, "no data")], "skipped"),
        ([row(a=1), note("nothing")], "fails"),
        ([], "fails"),
        ([at_most("a", 1, 2), hypothesis("drawn well", True)], "holds"),
        ([at_most("a", 3, 2), hypothesis("drawn well", False)], "outside"),
        ([at_most("a", NAN, 2), hypothesis("drawn well", False)], "fails"),
    ],
)
def test_a_bound_holds_only_by_a_comparison_that_was_made_and_met(found, expected):
    assert status("bound", *found) == expected
    assert status("exact", *found) == expected


@pytest.mark.parametrize("form", ["refuted", "misprint"])
def test_what_is_false_as_printed_is_so_by_a_number_inside_the_hypotheses(form):
    assert status(form, at_most("a", 3, 2)) == form
    assert status(form, at_most("a", NAN, 2)) == "fails"
    assert status(form, at_most("a", 3, 2), hypotheses={"never": lambda config: False}) == "outside"


@pytest.mark.parametrize("form", ["refuted", "misprint"])
def test_a_printed_statement_that_is_true_is_not_refuted(form):
    more = {"certificate": "c.py"} if form == "refuted" else {"means": "a plus"}
    claim = entered(form, yields(at_most("a", 1, 2)), **more)
    cases = [("default sizes", 0, claim.at(Sizes(), 0))]
    own = claim.over(cases, own=True)
    assert (own.status, own.note) == ("fails", "the printed statement is true here")
    assert claim.over(cases, own=False).status == "holds"


def test_one_counterexample_is_enough():
    def check(config, seed):
        yield at_most("size", config.size, 5)

    claim = entered("refuted", check, certificate="c.py", cases=(Sizes(4), Sizes(9)))
    cases = [(str(case.size), 0, claim.at(case, 0)) for case in claim.cases]
    assert [verdict.status for _, _, verdict in cases] == ["holds", "refuted"]
    assert claim.over(cases, own=True).status == "refuted"


@pytest.mark.parametrize("form", ["bound", "refuted", "reported"])
def test_an_exception_fails_with_its_line(form):
    def check(config, seed):
        yield at_most("a", 3, 2)
        raise ArithmeticError("no such\nroot")

    more = {"certificate": "c.py"} if form == "refuted" else {}
    verdict = entered(form, check, **more).at(Sizes(), 0)
    assert verdict.status == "fails"
    assert verdict.note.startswith("ArithmeticError: no such root (test_claims.py:")
    assert verdict.details[0]["quantity"] == "a"


def test_a_check_that_refuses_its_sizes_says_so():
    def check(config, seed):
        require(config.size < 3, "size=4 must be below 3")
        yield at_most("a", 1, 2)

    with pytest.raises(ConfigError, match="size=4 must be below 3"):
        entered("bound", check).at(Sizes(), 0)


def test_hypotheses_are_of_the_config_and_say_whether_the_conclusion_is_true_without_them():
    claim = entered("bound", yields(at_most("a", 1, 2)), hypotheses=SMALL_STEP)
    assert claim.unmet(Sizes(rate=2.0)) == ("rate <= 1",)
    inside, outside = claim.at(Sizes(), 0), claim.at(Sizes(rate=2.0), 0)
    assert (inside.status, outside.status) == ("holds", "outside")
    assert (outside.hypotheses, outside.note) == (("rate <= 1",), "the conclusion is true here")
    false = entered("bound", yields(at_most("a", 3, 2)), hypotheses=lambda config: {"rate <= 1": config.rate <= 1})
    verdict = false.at(Sizes(rate=2.0), 0)
    assert (verdict.status, verdict.note) == ("outside", "the conclusion is false here: a")


def test_the_quantity_with_the_least_room_is_the_one_that_is_shown():
    check = yields(at_most("far", 1, 100), at_most("near", [1, 3], [5, 4]), true("sure", True))
    verdict = entered("bound", check).at(Sizes(), 0)
    assert (verdict.quantity, verdict.measured, verdict.required) == ("near", 3, 4)
    assert verdict.margin == pytest.approx(4 / 3)
    assert verdict.sharpest == pytest.approx(0.75)
    assert [line["quantity"] for line in verdict.details] == ["far", "near", "sure"]


# --- measurements -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("comparison", "met"),
    [
        (at_most("a", [1, 2], [3, 1]), False),
        (at_most("a", np.inf, 1), False),
        (at_most("a", 1, np.inf), True),
        (at_most("a", np.inf, np.inf), None),
        (at_most("a", -3, -2), True),
        (at_most("a", 0, 0), True),
        (at_most("a", 1 + 1e-13, 1), False),
        (at_most("a", 1 + 1e-13, 1, rounding=1e-12), True),
        (at_least("a", [3, 1], 2), False),
        (at_least("a", -1, -2), True),
        (equal("a", 1, 1 + 1e-10), False),
        (equal("a", 1e-16, 0, scale=1.0), True),
        (true("a", np.array([True, False])), False),
        (slope("a", [1, 2, 4, 8], [1, 4, 16, 64], 2), True),
        (slope("a", [1, 2, 4, 8], [1, 2, 4, 8], 2), False),
        (slope("a", [1, 2, 4, 8], [1, 2, 4, 8], 2, side="at most"), True),
        (slope("a", [1, 2, 4, 8], [1, 2, 4, 8], 2, side="at least"), False),
        (slope("a", [1, 2, 4, 8], [1, 9, 5, 64], 2), False),
        (slope("a", [1, 2, 4, 8], [1, NAN, 16, 64], 2), None),
        (slope("a", [1, 2, 3], np.exp([2, 4, 6]), 2, law="exponential"), True),
    ],
)
def test_a_comparison_is_met_or_not_and_neither_by_nan(comparison, met):
    assert comparison.met is met


@pytest.mark.parametrize(
    "make",
    [
        lambda: true("a", NAN),
        lambda: true("a", 1),
        lambda: at_most("a", [], 1),
        lambda: equal("a", np.zeros((2, 3)), np.zeros(3)),
        lambda: slope("a", [1, 2], [1, 2], 1),
    ],
)
def test_what_is_no_measurement_is_refused(make):
    with pytest.raises((TypeError, ValueError)):
        make()


# --- several cases ----------------------------------------------------------------------------------------------------


def over(*statuses):
    return Verdict.over([(str(k), 0, Verdict(status, margin=k)) for k, status in enumerate(statuses)])


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        (("holds", "outside"), "holds"),
        (("holds", "vacuous"), "holds"),
        (("holds", "outside", "fails"), "fails"),
        (("outside", "vacuous"), "vacuous"),
        (("outside", "outside"), "outside"),
        (("reported", "holds"), "holds"),
    ],
)
def test_a_case_that_says_nothing_does_not_decide_a_claim(statuses, expected):
    verdict = over(*statuses)
    assert verdict.status == expected
    assert [case["status"] for case in verdict.cases] == list(statuses)


# --- what a claim must have -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "fields", "said"),
    [
        ("bound", {"of": ()}, "needs of"),
        ("exact", {"statement": ""}, "needs statement"),
        ("rate", {"cases": ()}, "needs cases"),
        ("refuted", {"certificate": ""}, "needs certificate"),
        ("misprint", {"means": ""}, "needs means"),
        ("bound", {"search": {"width": (1, 2, "log")}}, "search=width must be a field"),
        ("bound", {"search": {"size": (2, 1, "log")}}, "search=size must be a field"),
    ],
)
def test_a_claim_that_lacks_what_its_form_needs_is_refused(form, fields, said):
    with pytest.raises(ValueError, match=said):
        entered(form, yields(), **fields)


def test_a_family_is_a_table_of_literal_ids():
    def check(config, seed, power=1):
        yield equal("power", 2**power, {1: 2, 2: 4}[power])

    ledger = Ledger()
    ledger.family(
        check,
        {
            "lemD8": {"statement": "Lemma D.8", "says": "once"},
            "lemD9": {"statement": "Lemma D.9", "says": "twice", "given": {"power": 2}},
        },
        form="exact",
        of=(formula,),
        cases=Sizes(),
    )
    assert [claim.id for claim in ledger.claims] == ["lemD8", "lemD9"]
    assert [claim.at(Sizes(), 0).status for claim in ledger.claims] == ["holds", "holds"]
    assert ledger.claims[1].source == f"{__name__}:check"


def test_a_correction_is_a_claim_of_the_same_paper():
    claim = entered("refuted", yields(), certificate="c.py", corrected="thm2")
    with pytest.raises(ValueError, match="thm1 is corrected by thm2, which is not a claim"):
        Paper("tiny", "T", "A", 2024, "-", "s", claims=(claim,))


def every_claim():
    return [claim for paper in registry.papers() for claim in paper.claims]


def test_every_claim_has_a_case_that_meets_its_hypotheses_or_says_why_none_does():
    lacking = [
        claim.name
        for claim in every_claim()
        if claim.check and claim.hypotheses and not claim.infeasible and all(map(claim.unmet, claim.cases))
    ]
    assert lacking == []


def test_a_claim_that_says_why_no_case_is_feasible_has_none():
    assert [c.name for c in every_claim() if c.infeasible and not all(map(c.unmet, c.cases))] == []


# --- verify -----------------------------------------------------------------------------------------------------------


def drawn(config, seed):
    yield at_most("size", config.size, 10)
    yield row(seed=seed)


def known(monkeypatch, claim, statuses):
    monkeypatch.setattr(registry, "claims", lambda names: [(claim, True)])
    monkeypatch.setattr(manifest, "expected", lambda name: statuses)


def test_a_status_that_differs_from_the_manifest_is_named_with_the_case(monkeypatch, capsys, tmp_path):
    claim = entered("bound", drawn, cases=(Sizes(4), Sizes(5), Sizes(7)))
    known(monkeypatch, claim, {"default sizes": "holds", "size=5": "vacuous"})
    (found,) = verify(["tiny/thm1"])
    assert found.unexpected == [("size=5", "vacuous", "holds")]
    assert exit_status([found]) == 1
    monkeypatch.setattr("stairwise.commands.verify.check_name", lambda *names: None)
    assert main(["verify", "tiny/thm1", "--store", str(tmp_path)]) == 1
    assert "tiny/thm1 at size=5: holds, where the manifest has vacuous" in capsys.readouterr().out
    known(monkeypatch, claim, {"default sizes": "holds"})
    (found,) = verify(["tiny/thm1"])
    assert exit_status([found]) == 0
    (found,) = verify(["tiny/thm1"], {"size": 5})  # the manifest is about the ledger's own sizes
    assert found.unexpected == []


def test_seeds_are_counted_from_the_first(monkeypatch):
    claim = entered("bound", drawn, seeds=3)
    known(monkeypatch, claim, {})
    assert [case["seed"] for case in next(verify([])).verdict.cases] == [0, 1, 2]
    assert [case["seed"] for case in next(verify([], seed=5, seeds=2)).verdict.cases] == [5, 6]
    with pytest.raises(ConfigError, match=r"seeds=0 must lie in 1\.\.1000"):
        next(verify([], seeds=0))


def test_only_the_status_at_seed_0_is_compared_with_the_manifest(monkeypatch):
    def check(config, seed):
        yield at_most("seed", seed, 0)

    known(monkeypatch, entered("bound", check, seeds=2), {"default sizes": "holds"})
    found = next(verify([]))
    assert found.verdict.status == "fails"
    assert found.unexpected == []


def test_json_has_null_for_what_is_not_a_number(monkeypatch, capsys, tmp_path):
    claim = entered("refuted", yields(at_most("a", NAN, 2), row(b=math.inf)), certificate="c.py")
    known(monkeypatch, claim, {})
    monkeypatch.setattr("stairwise.commands.verify.check_name", lambda *names: None)
    assert main(["verify", "tiny/thm1", "--json", "--store", str(tmp_path)]) == 1
    (found,) = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert (found["status"], found["measured"], found["quantity"]) == ("fails", None, "a")
    assert main(["verify", "tiny/thm1", "--json", "--store", str(tmp_path)]) == 1  # from the store
    assert json.loads(capsys.readouterr().out, parse_constant=pytest.fail)[0]["status"] == "fails"


def test_a_pattern_names_all_claims_like_it():
    found = registry.claims(["selection/lemE1*"])
    assert {claim.id for claim, _ in found} >= {"lemE10", "lemE11", "lemE12"}
    assert not any(itself for _, itself in found)
    with pytest.raises(ConfigError, match=r"no claim of selection matches thm9\*"):
        registry.claims(["selection/thm9*"])


def test_two_processes_find_what_one_finds():
    names = ["selection/lemE10", "selection/lemE14"]
    one, two = ([(r.claim.name, r.verdict) for r in verify(names, jobs=jobs)] for jobs in (1, 2))
    assert one == two


def test_a_stored_verdict_is_read_as_it_was_found(tmp_path):
    store = Store.open(str(tmp_path))
    first, second = (next(iter(verify(["selection/lemE10"], store=store))) for _ in range(2))
    assert isinstance(first, LedgerRow)
    assert (first.stored, second.stored) == (False, True)
    assert second.verdict == first.verdict


def test_the_strength_of_a_claim_is_that_of_its_form():
    forms = {"exact": "exact", "bound": "inequality", "rate": "rate", "reported": ""}
    assert {form: entered(form, yields()).strength for form in forms} == forms
    assert isinstance(entered("exact", yields()), Claim)


# --- certificates -----------------------------------------------------------------------------------------------------


def certificates():
    return [claim for claim in every_claim() if claim.certificate]


@pytest.mark.parametrize("claim", certificates(), ids=lambda claim: claim.name)
def test_a_certificate_runs_without_this_package(claim, tmp_path):
    script = manifest.PAPERS / claim.paper / claim.certificate
    text = script.read_text(encoding="utf-8")
    assert "stairwise" not in text
    assert len(text.splitlines()) <= 50
    command = [sys.executable, "-I", str(script)]  # nor with what the environment names
    found = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    assert found.stdout.strip()
