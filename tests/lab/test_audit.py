"""Facts about the audit: what is compared with something else is killed, what is compared with itself survives."""

import importlib
import json
import linecache
import subprocess
import sys
from collections import Counter
from functools import cached_property, partial
from pathlib import Path

import pytest

from stairwise.cli import main
from stairwise.config import ConfigError
from stairwise.lab.ledger import audit, reach
from stairwise.lab.ledger import audited as kept
from stairwise.lab.ledger.mutants import functions_of, mutants, mutants_of_source, put_in_place
from stairwise.lab.run import forks
from stairwise.lab.store.files import seal
from tests.lab import audited

SCRIPT = """
import json, sys
from pathlib import Path
from stairwise.lab.ledger import audit, reach
from tests.lab.audited import LEDGER
found = list(audit.audit(LEDGER.claims, cache=Path(sys.argv[1]), minutes=5, jobs=2))
print(json.dumps(audit.as_dicts(found)))
"""


def run(cache: Path) -> list[dict]:
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(cache)], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_a_claim_with_teeth_kills_every_mutant_and_one_that_compares_a_formula_with_itself_none(tmp_path):
    found = run(tmp_path / "audit.json")
    outcomes = {id: Counter(t["outcome"] for t in found if t["claim"] == id) for id in ("teeth", "no-teeth", "bound")}
    assert outcomes["teeth"]["killed"] >= 15
    assert not outcomes["teeth"]["survived"]
    assert not outcomes["no-teeth"]["killed"]
    assert outcomes["no-teeth"]["survived"] >= 15
    # max(n, 0) -> n by a step left out changes nothing at any size; doubling the bound keeps it true
    assert outcomes["bound"]["equivalent"] >= 1
    assert outcomes["bound"]["survived"] >= 1
    assert outcomes["bound"]["killed"] >= 1
    # inside of a compiled program: plus for minus is the same parity, a dropped bit is another one
    after = {(t["claim"], t["after"]): t["outcome"] for t in found}
    assert after["traced", "jnp.sum(bits) - extra"] == after["traced-unseen", "jnp.sum(bits) - extra"] == "equivalent"
    assert (after["traced", "extra"], after["traced-unseen", "extra"]) == ("killed", "survived")
    # an inequality that is reversed is noticed, but for one whose sides are equal
    reversed_ = {t["before"]: t["outcome"] for t in found if t["claim"] == "sides" and t["operator"] == "direction"}
    assert reversed_ == {
        "at_most('one', 1.0, at_least_one(config.count))": "killed",
        "at_most('an equality', count, count)": "equivalent",
    }
    # a bound that changes by more than the margin, here 1.5, has to move some comparison
    doubled = {t["claim"]: t["note"] for t in found if t["after"].startswith("2 * ") and t["strength"] == "inequality"}
    assert doubled == {
        "bound": "",  # a larger bound: the statement stays true
        "sides": "",
        "itself": "changes by more than the margin (2 over 1.5): both sides of every comparison change together",
        "unseen": "changes by more than the margin (2 over 1.5): no compared value changes",
    }
    less = {t["claim"]: t["note"] for t in found if t["after"] == "n - 1" and t["strength"] == "inequality"}
    assert less["itself"] == "both sides of every comparison change together"
    assert less["unseen"] == "no compared value changes"
    again = run(tmp_path / "audit.json")
    assert sorted(map(str, again)) == sorted(map(str, found))


KILLED = """
import os, sys
from pathlib import Path
from stairwise.lab.ledger import audit
from tests.lab.audited import LEDGER
audit.SAVED_EVERY = -1.0
for number, _ in enumerate(audit.audit(LEDGER.claims, cache=Path(sys.argv[1]), sample=4)):
    if number == 2:
        os._exit(9)
"""


def test_an_audit_that_is_killed_keeps_what_it_has_found(tmp_path):
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "audit.json")], check=False)
    assert done.returncode == 9
    assert len(audit.read_cache(tmp_path / "audit.json")) == 3


def test_every_operator_has_its_mutants():
    source = """
def f(a, b):
    a = a - b
    a += 2 * b
    if a < b:
        a = -a
    return np.sqrt(a ** 2 + b[0]) / max(a, b)
"""
    found = {(mutant.operator, mutant.before, mutant.after) for mutant in mutants_of_source(source.strip())}
    assert ("sign", "a - b", "a + b") in found
    assert ("term", "a - b", "a") in found
    assert ("step", "a += 2 * b", "(left out)") in found
    assert ("factor", "2", "4") in found
    assert ("factor", "2", "1.0") in found
    assert ("inequality", "a < b", "a > b") in found
    assert ("inequality", "max(a, b)", "min(a, b)") in found
    assert ("sign", "-a", "a") in found
    assert ("exponent", "a ** 2", "a ** (2 + 1)") in found
    assert ("exponent", "np.sqrt(a ** 2 + b[0])", "a ** 2 + b[0]") in found
    assert ("index", "b[0]", "b[1]") in found


def test_a_step_is_left_out_where_it_gives_several_values_too():
    source = """
def f(model, rate):
    for stage in range(3):
        model, moved = step(model, rate)
        rate, model = rate / 2, later(model)
        first, rest = moved
        first, rest = rest
    return model
"""
    found = {(mutant.before, mutant.after) for mutant in mutants_of_source(source.strip()) if mutant.operator == "step"}
    assert found == {
        ("model, moved = step(model, rate)", "_, moved = step(model, rate)"),
        ("rate, model = (rate / 2, later(model))", "(left out)"),
    }


def test_a_step_is_left_out_of_a_replaced_record_and_in_functions_inside_of_functions():
    source = """
def stepped(state, rate):
    return state._replace(scores=state.scores - rate, loss=0.0)
"""
    found = {(mutant.operator, mutant.after) for mutant in mutants_of_source(source.strip())}
    assert {("step", "state._replace(loss=0.0)"), ("step", "state._replace(scores=state.scores - rate)")} <= found
    assert audited._one_more in functions_of(audited.twice)


def test_what_refuses_input_is_left_alone():
    source = """
def f(n):
    \"\"\"1 + 1.\"\"\"
    if n < 1:
        raise ValueError(f"n={n} must be at least {1 + 0}")
    return n
"""
    assert {mutant.operator for mutant in mutants_of_source(source.strip())} == {"factor", "sign"}


def test_a_mutant_in_place_is_what_everybody_calls():
    kept = audited.sum_of_squares.__code__
    try:
        mutant = next(each for each in mutants(audited.sum_of_squares) if each.operator == "term")
        put_in_place(mutant)
        assert audited.sum_of_squares(3) != 14
    finally:
        audited.sum_of_squares.__code__ = kept
    assert audited.sum_of_squares(3) == 14


class Shape:
    @property
    def area(self):
        return 6 * 7

    @cached_property
    def edge(self):
        return 2 * (6 + 7)


@pytest.mark.parametrize(("name", "value"), [("area", 42), ("edge", 26)])
def test_a_mutant_of_a_property_is_put_in_its_place(name, value):
    made = vars(Shape)[name]
    function = made.fget if isinstance(made, property) else made.func
    assert getattr(Shape(), name) == value
    kept = function.__code__
    try:
        put_in_place(mutants(function)[0])
        assert getattr(Shape(), name) != value
    finally:
        function.__code__ = kept


def test_what_a_file_of_a_paper_knows_is_not_tried_again(tmp_path, monkeypatch):
    teeth = audited.LEDGER.claims[0]
    found = {audit.key_of(teeth, mutant): ("killed", "") for mutant in audit.of_claim(teeth)}
    cache = tmp_path / "cache.json"
    cache.write_text(json.dumps(found))
    monkeypatch.setattr(kept, "PAPERS", tmp_path)
    monkeypatch.setattr(kept, "auditable", lambda targets: [teeth])
    (tmp_path / "tiny").mkdir()
    kept.keep("tiny", cache)
    assert kept.outcomes(["tiny"]) == found
    monkeypatch.setattr(audit, "look", None)  # nobody is asked
    monkeypatch.setattr(forks, "started", lambda: True)  # and no process is forked, where JAX forbids it
    trials = list(audit.audit([teeth], kept=kept.outcomes(["tiny"])))
    assert [trial.outcome for trial in trials] == ["killed"] * len(found)
    kept.keep("tiny", tmp_path / "no cache")  # what was known stays known
    assert kept.outcomes(["tiny"]) == found


# --- what is kept -----------------------------------------------------------------------------------------------------


def test_what_is_known_of_the_present_code_is_kept_and_what_was_not_tried_is_not_counted_as_tried(
    tmp_path, monkeypatch
):
    teeth = audited.LEDGER.claims[0]
    first, second, third = audit.of_claim(teeth)[:3]
    outcomes = {
        first: ("killed", ""),
        second: ("survived", "no compared value changes"),
        third: ("invalid", "took too long"),
    }
    cache = tmp_path / "cache.json"
    cache.write_text(
        json.dumps({audit.key_of(teeth, mutant): found for mutant, found in outcomes.items()} | {"old": ("killed", "")})
    )
    monkeypatch.setattr(kept, "PAPERS", tmp_path)
    monkeypatch.setattr(kept, "auditable", lambda targets: [teeth])
    (tmp_path / "tiny").mkdir()
    kept.keep("tiny", cache)
    found = json.loads((tmp_path / "tiny" / "audit.json").read_text())
    assert found["claims"]["teeth"]["killed"] == {first.operator: 1}
    assert found["claims"]["teeth"]["mutants"] == len(audit.of_claim(teeth))
    assert {(row["after"], row["outcome"]) for row in found["others"]} == {
        (second.after, "survived"),
        (third.after, "invalid"),
    }
    page = kept.page({"tiny": found})
    assert f"| tiny | exact | {len(audit.of_claim(teeth))} | 3 | 1 | 1 | 0 | 1 | 0 | 50.0% of 2 | 95% |" in page
    assert f"`{second.before}` became `{second.after}` | no compared value changes |" in page
    assert "Invalid, by reason: took too long (1)." in page


def test_a_comparison_that_no_claim_takes_is_listed():
    row = ("tiny", "a", "inequality", "direction", "m:f", 3, "at_most('x', 1, 2)", "at_least('x', 1, 2)", "equivalent")
    one, two = audit.MutantResult(*row, audit.NOT_TAKEN), audit.MutantResult(*row, "an equality")
    assert kept.unasked([one]) == ["`m:f`, line 3: `at_most('x', 1, 2)`"]
    assert kept.unasked([one, two]) == []


def test_of_a_rate_only_signs_exponents_and_terms_are_counted_against_the_bar():
    row = {"claim": "r", "place": "m:f", "line": 1, "before": "x", "after": "y", "note": ""}
    others = [{**row, "operator": name, "outcome": "survived"} for name in ("factor", "sign")]
    claims = {"r": {"strength": "rate", "mutants": 9, "killed": {"exponent": 3, "factor": 1}}}
    page = kept.page({"tiny": {"commit": "abc", "claims": claims, "others": others}})
    assert "| tiny | rate | 9 | 6 | 4 | 2 | 0 | 0 | 0 | 75.0% of 4 | 90% |" in page


def test_of_an_inequality_the_reversed_and_those_beyond_the_margin_are_counted_against_the_bar():
    row = {"claim": "b", "place": "m:f", "line": 1, "before": "x", "after": "y", "outcome": "survived"}
    notes = {"factor": "", "sign": f"{audit.BEYOND} (2 over 1.5): {audit.UNMOVED}", "direction": ""}
    others = [{**row, "operator": name, "note": note} for name, note in notes.items()]
    claims = {"b": {"strength": "inequality", "mutants": 9, "killed": {"exponent": 1, "direction": 1}}}
    page = kept.page({"tiny": {"commit": "abc", "claims": claims, "others": others}})
    assert "| tiny | inequality | 9 | 5 | 2 | 3 | 0 | 0 | 0 | 50.0% of 4 | 100% |" in page


def test_the_page_of_audits_is_the_one_that_the_files_make():
    assert kept.PAGE.read_text() == kept.page(kept.kept_files()), "python -m stairwise.lab.ledger writes it"


def test_what_is_kept_is_all_that_is_known_so_it_is_not_kept_of_a_fresh_audit(capsys):
    assert main(["audit", "selection/lemA3-corrected", "--keep", "--fresh"]) == 2
    assert "leave out --fresh" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"minutes": 0.0}, r"minutes=0\.0 must be above 0 and finite"),
        ({"minutes": float("inf")}, "minutes=inf must be above 0 and finite"),
        ({"minutes": float("nan")}, "minutes=nan must be above 0 and finite"),
        ({"jobs": 0}, r"jobs=0 must lie in 1\.\."),
        ({"jobs": 10**9}, r"jobs=1000000000 must lie in 1\.\."),
        ({"sample": 0}, "sample=0 must be at least 1"),
    ],
    ids=str,
)
def test_an_audit_that_would_not_begin_or_not_end_is_one_line(asked, words):
    with pytest.raises(ConfigError, match=words):
        list(audit.audit([], **asked))


def test_a_cache_of_which_any_bit_was_changed_is_not_believed(tmp_path):
    cache = tmp_path / "audit.json"
    cache.write_bytes(seal({"outcomes": {"a": ("killed", ""), "b": ("survived", "why")}}))
    assert audit.read_cache(cache) == {"a": ("killed", ""), "b": ("survived", "why")}
    whole = cache.read_bytes()
    for place, byte in enumerate(whole):
        cache.write_bytes(whole[:place] + bytes([byte ^ 1 << place % 8]) + whole[place + 1 :])
        assert audit.read_cache(cache) == {}, place


CHECKED = """
import helping
def check(config, seed):
    yield helping.value({factor}) {comment}
def neighbour():
    return {other}
def rule(x):
    return {rule}
"""


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"comment": "# said", "other": 2}, True),
        ({"factor": 3}, False),
        ({"helper": 5}, False),
        ({"cases": (1,)}, False),
        ({"given": True}, False),
    ],
)
def test_results_of_an_audit_belong_to_what_the_check_reaches_and_not_to_its_neighbours(
    tmp_path, monkeypatch, change, same
):
    hashed = partial(hash_of_a_check, tmp_path, monkeypatch)
    assert (hashed("before") == hashed("after", **change)) is same


@pytest.mark.parametrize(("rule", "same"), [(7, True), (8, False)])
def test_a_rule_that_is_given_counts_by_its_text_and_not_by_where_it_lies_in_memory(tmp_path, monkeypatch, rule, same):
    hashed = partial(hash_of_a_check, tmp_path, monkeypatch, given=True)
    assert (hashed("before") == hashed("after", rule=rule)) is same


def hash_of_a_check(
    tmp_path, monkeypatch, folder: str, *, factor=2, comment="", other=1, helper=4, cases=(), rule=7, given=False
) -> str:
    package = tmp_path / folder / "reached"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "helping.py").write_text(f"def value(x):\n    return x + {helper}\n")
    text = CHECKED.format(factor=factor, comment=comment, other=other, rule=rule).replace(
        "import", "from reached import", 1
    )
    (package / "checked.py").write_text(text)
    monkeypatch.syspath_prepend(str(package.parent))
    for name in ("reached", "reached.helping", "reached.checked"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    importlib.invalidate_caches()
    linecache.clearcache()
    checked = importlib.import_module("reached.checked")
    return reach.code_hash(partial(checked.check, rule=checked.rule) if given else checked.check, cases)
