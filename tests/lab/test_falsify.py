"""Facts about the search for counterexamples: planted ones are found, made small, reproduced and stored."""

import json
import math
import subprocess
import sys

import pytest

from stairwise.cli import main
from stairwise.config import ConfigError, update
from stairwise.lab.contract.claims import Ledger
from stairwise.lab.ledger import falsify
from tests.lab.planted import CLAIMS

SCRIPT = """
import json, sys
from stairwise.lab.ledger import falsify
from stairwise.lab.contract.claims import Ledger
from stairwise.lab.store.store import Store
from tests.lab.planted import CLAIMS
store = Store.open(sys.argv[1])
found = {}
for id, claim in CLAIMS.items():
    points = 60 if id == "bernoulli" else 300
    found[id] = falsify.falsify(claim, minutes=2, points=points, limit=2.0, store=store, seed=1).as_dict()
for name, fresh in (("again", False), ("anew", True)):
    found[name] = falsify.falsify(CLAIMS["euler"], minutes=1, store=store, fresh=fresh, seed=1).as_dict()
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> dict[str, falsify.Falsification]:
    """What is found in a process of its own: one that has used JAX cannot be forked."""
    pytest.importorskip("optuna")
    place = tmp_path_factory.mktemp("store")
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(place)], capture_output=True, text=True, check=True)
    return {name: falsify.Falsification.from_dict(each) for name, each in json.loads(done.stdout).items()}


@pytest.mark.parametrize("id", ["narrow", "hoeffding", "euler"])
def test_a_planted_false_theorem_is_found_and_its_point_reproduces_it(found, id):
    point = found[id].counterexample
    assert point is not None
    assert found[id].exit_status == 1
    assert CLAIMS[id].at(update(CLAIMS[id].cases[0], point.sizes), point.seed).status == "fails"
    flags = "".join(f" --{path} {value}" for path, value in point.sizes.items())
    assert point.command == f"stairwise verify {CLAIMS[id].name}{flags}"


def test_a_counterexample_is_made_small(found):
    claim, sizes = CLAIMS["hoeffding"], found["hoeffding"].counterexample.sizes
    assert sizes["n"] <= 10
    assert claim.at(update(claim.cases[0], {**sizes, "n": sizes["n"] - 1}), 0).status != "fails"
    assert 0.4968 < found["narrow"].counterexample.sizes["x"] <= 0.5  # false from 0.49684 on
    assert len(str(found["narrow"].counterexample.sizes["x"])) <= 6


def test_a_true_theorem_stands_and_its_hypothesis_is_seen_to_be_needed(found):
    inside, without, larger = found["bernoulli"].findings
    assert found["bernoulli"].exit_status == 0
    assert inside.outcome == "none found"
    assert inside.log_margin >= 0
    assert (without.dropped, without.outcome) == ("x >= -1", "counterexample")
    assert without.sizes["x"] < -1
    assert without.sizes["n"] == 3
    assert CLAIMS["bernoulli"].at(update(CLAIMS["bernoulli"].cases[0], without.sizes), 0).status == "outside"
    assert (larger.dropped, larger.outcome) == ("n <= 9", "none found")


def test_a_hypothesis_that_the_check_yields_can_be_dropped_and_a_small_space_is_seen_as_a_whole(found):
    inside, without = found["drawn"].findings
    assert (inside.outcome, inside.judged, inside.looked_at) == ("none in the whole space", 5, 20)
    assert without.dropped == "what is drawn is small"
    assert without.sizes["n"] == 6


def test_a_point_that_takes_too_long_or_too_much_is_stopped_and_one_that_raises_is_named(found):
    (inside,) = found["slow"].findings
    assert (inside.outcome, inside.judged, inside.looked_at) == ("none in the whole space", 1, 4)
    assert inside.stopped + ("MemoryError" in inside.raised) >= 1
    assert "RuntimeError: three" in inside.raised or "MemoryError" in inside.raised


def test_a_counterexample_in_a_config_that_refuses_most_points_is_found(found):
    sizes = found["ordered"].counterexample.sizes
    assert sizes["n"] - sizes["m"] == 6


def test_what_is_stored_is_not_looked_at_again_unless_asked(found):
    assert found["again"] == found["euler"]
    first, anew = found["euler"].counterexample, found["anew"].counterexample
    assert (anew.sizes, anew.looked_at) == (first.sizes, first.looked_at)
    assert anew.seconds != first.seconds


def test_without_a_declared_space_the_rule_gives_ranges_of_powers_of_ten():
    from dataclasses import replace

    axes = {axis.path: axis for axis in falsify.space(replace(CLAIMS["euler"], search={}))}
    assert (axes["n"].low, axes["n"].high) == (1, 10)
    assert (axes["x"].low, axes["x"].high) == (-10.0, 10.0)  # its limits have both signs
    assert [str(axis) for axis in falsify.space(CLAIMS["euler"])] == ["n from 1 to 100"]


def test_a_dropped_hypothesis_widens_the_declared_space():
    axes = {axis.path: axis for axis in falsify.space(CLAIMS["bernoulli"], "x >= -1")}
    assert (axes["n"].low, axes["n"].high) == (1, 10)
    assert (axes["x"].low, axes["x"].high) == (-10.0, 10.0)


def test_a_value_that_the_config_refuses_gives_way_to_that_of_the_ledger(monkeypatch):
    monkeypatch.setattr(falsify, "_limit_memory", lambda: None)  # of this process
    ordered, mend = CLAIMS["ordered"], {"n": 3, "m": 2}
    assert falsify.look(ordered, "", {"n": 1, "m": 5}, 0)["said"] == "refused"
    assert falsify.look(ordered, "", {"n": 1, "m": 5}, 0, mend)["sizes"] == {"n": 3, "m": 2}
    assert falsify.look(ordered, "", {"n": 4, "m": 5}, 0, mend)["sizes"] == {"n": 4, "m": 2}
    assert falsify.look(ordered, "", {"n": 9, "m": 2}, 0, mend)["said"] == "false"


def test_bisection_ends_at_the_boundary_with_a_round_number():
    tried: list[float] = []

    def is_false(value: float) -> bool:
        tried.append(value)
        return value >= math.pi

    falsify._bisect(falsify.SearchAxis("x", 1.0, 100.0, "log"), 80.0, is_false)
    assert min(value for value in tried if value >= math.pi) - math.pi < 0.01
    assert len(str(tried[-1])) <= 5


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["selection/nothing"], "unknown claim of selection"),
        (["selection"], "claim=selection must name one claim, as PAPER/CLAIM"),
        (["selection/fig2*"], "must name one claim"),
        (["selection/thm3.1", "--minutes", "0"], "minutes=0.0 must be above 0"),
        (["selection/thm3.1", "--jobs", "0"], "jobs=0 must lie in 1..64"),
        (["selection/thm3.1", "--points", "0"], "points=0 must be at least 1"),
        (["selection/thm3.1", "--limit", "nan"], "limit=nan must be above 0"),
    ],
)
def test_a_bad_request_is_refused_in_one_line(words, said, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(falsify, "installed", lambda extra: True)
    assert main(["falsify", *words, "--store", str(tmp_path / "store")]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "store").exists()


def test_without_optuna_one_line_says_how_to_install_it(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(falsify, "installed", lambda extra: False)
    assert main(["falsify", "selection/thm3.1", "--store", str(tmp_path / "store")]) == 2
    assert "pip install 'stairwise[falsify]'" in capsys.readouterr().err


def test_an_experiment_cannot_be_searched():
    ledger = Ledger()
    ledger.empirical("fig1", experiment="run", statement="Figure 1", says="it is learned")(lambda records: None)
    with pytest.raises(ConfigError, match="only theory with a pass line can be false"):
        falsify.space(ledger.claims[0])
