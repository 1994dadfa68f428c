"""Facts about the search for counterexamples: planted ones are found, made small, reproduced and stored."""

import json
import math
import subprocess
import sys
from dataclasses import dataclass, replace
from random import Random

import jax
import pytest

from stairwise.cli import main
from stairwise.config import Config, ConfigError, option, update
from stairwise.lab.contract.claims import Ledger
from stairwise.lab.contract.manifest import built_in, read
from stairwise.lab.ledger import assumptions, falsify
from stairwise.lab.ledger.searching import points
from stairwise.lab.ledger.searching.findings import Falsification
from stairwise.lab.ledger.searching.proposals import Mutations, Region, Tpe, first, reach
from stairwise.lab.ledger.searching.shrinking import bisect
from stairwise.lab.ledger.searching.space import SearchAxis, space
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
def found(tmp_path_factory) -> dict[str, Falsification]:
    """What is found in a process of its own: one that has used JAX cannot be forked."""
    place = tmp_path_factory.mktemp("store")
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(place)], capture_output=True, text=True, check=True)
    return {name: Falsification.from_dict(each) for name, each in json.loads(done.stdout).items()}


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
    axes = {axis.path: axis for axis in space(replace(CLAIMS["euler"], search={}))}
    assert (axes["n"].low, axes["n"].high) == (1, 10)
    assert (axes["x"].low, axes["x"].high) == (-10.0, 10.0)  # its limits have both signs
    assert [str(axis) for axis in space(CLAIMS["euler"])] == ["n from 1 to 100"]


def test_a_dropped_hypothesis_widens_the_declared_space():
    axes = {axis.path: axis for axis in space(CLAIMS["bernoulli"], "x >= -1")}
    assert (axes["n"].low, axes["n"].high) == (1, 10)
    assert (axes["x"].low, axes["x"].high) == (-10.0, 10.0)


def region(id: str, dropped: str = "") -> Region:
    return Region(CLAIMS[id], dropped, tuple(space(CLAIMS[id], dropped)))


def test_a_proposal_that_the_config_refuses_gives_way_to_a_point_nearby(monkeypatch):
    monkeypatch.setattr(points, "_limit_memory", lambda: None)  # of this process
    assert points.look(region("ordered"), {"n": 1, "m": 5}, 0)["said"] == "refused"
    found = points.look(region("ordered"), {"n": 1, "m": 5}, 0, repair=True)
    assert found["sizes"]["m"] <= found["sizes"]["n"]
    assert found["said"] in ("true", "false")
    assert points.look(region("ordered"), {"n": 9, "m": 2}, 0, repair=True)["sizes"] == {"n": 9, "m": 2}


@pytest.mark.parametrize(("dropped", "broken"), [("", set()), ("x >= -1", {"x >= -1"}), ("n <= 9", {"n <= 9"})])
def test_points_to_begin_with_break_the_dropped_hypothesis_and_no_other(dropped, broken):
    there = region("bernoulli", dropped)
    found, tried = first(there, 0, 10, 5.0)
    assert found
    assert tried >= len(found)
    for sizes in found:
        assert set(there.claim.unmet(update(there.claim.cases[0], sizes))) == broken


def test_without_a_hypothesis_the_cases_with_one_field_changed_come_first():
    found, _ = first(region("bernoulli", "x >= -1"), 0, 10, 5.0)
    case = CLAIMS["bernoulli"].cases[0]
    assert found[0]["n"] == case.n
    assert found[0]["x"] < -1


def test_a_search_inside_the_hypotheses_does_not_begin_at_the_cases():
    found, _ = first(region("hoeffding"), 0, 10, 5.0)
    case = CLAIMS["hoeffding"].cases[0]
    assert {"n": case.n, "x": case.x} not in found


def test_a_walk_that_meets_nothing_ends():
    impossible = replace(CLAIMS["bernoulli"], hypotheses={"never": lambda config: False})
    there = Region(impossible, "", tuple(space(impossible)))
    assert reach(there, there.least, Random(0), 50) is None
    found, tried = first(there, 0, 10, 0.3)
    assert not found
    assert tried > 0


def test_a_hypothesis_that_follows_from_another_is_named_where_no_point_breaks_it_alone():
    """n <= 9 breaks only where n <= 5 does, and x >= -20 never."""
    names = {"n <= 9": lambda config: config.n <= 9, "n <= 5": lambda config: config.n <= 5}
    implied = replace(CLAIMS["bernoulli"], hypotheses={**names, "x >= -20": lambda config: config.x >= -20})
    for dropped, said in (
        ("n <= 9", "every config that breaks it breaks n <= 5 too"),
        ("x >= -20", "no config was met that breaks it"),
        ("n <= 5", ""),
    ):
        there = Region(implied, dropped, tuple(space(implied, dropped)))
        found, _ = first(there, 0, 10, 0.3)
        assert bool(found) == (dropped == "n <= 5")
        assert there.silence() == said


def test_a_wide_space_goes_further_within_the_limits():
    axes = {axis.path: axis for axis in space(CLAIMS["bernoulli"], "n <= 9", wide=True)}
    assert (axes["n"].low, axes["n"].high) == (1, 100)
    assert (axes["x"].low, axes["x"].high) == (-10.0, 10.0)  # its limits
    axes = {axis.path: axis for axis in space(CLAIMS["ordered"], "", wide=True)}
    assert axes["n"].high == 100


def test_a_list_with_examples_takes_one_at_a_time():
    @dataclass(frozen=True)
    class Several(Config):
        actions: tuple[str, ...] = option(("C6", "S3"), "names", examples=("C2", "C3"))

    claim = replace(CLAIMS["euler"], cases=(Several(),), search={})
    there = Region(claim, "", tuple(space(claim)))
    assert there.axes[0].choices == ("C6,S3", "C2", "C3")
    assert there.cases == [{"actions": "C6,S3"}]
    assert update(claim.cases[0], {"actions": "C6,S3"}) == claim.cases[0]


@pytest.mark.parametrize("sampler", [Mutations, Tpe])
def test_proposals_gather_where_the_margin_is_small(sampler):
    if sampler is Tpe:
        pytest.importorskip("optuna")
    there = region("narrow")
    proposals, seen = sampler(there, 0), []
    for _ in range(120):
        token, sizes = proposals.ask()
        seen.append(sizes["x"])
        proposals.tell(token, sizes, abs(sizes["x"] - 0.5))
    assert all(0 <= x <= 1 for x in seen)
    assert sum(abs(x - 0.5) < 0.1 for x in seen[60:]) > 24  # by chance: 12


def test_text_with_examples_takes_these_and_the_values_of_the_ledger():
    @dataclass(frozen=True)
    class Named(Config):
        action: str = option("C6", "a name", examples=("C2", "C3"))

    claim = replace(CLAIMS["euler"], cases=(Named(),), search={})
    (axis,) = space(claim)
    assert axis.choices == ("C2", "C3", "C6")
    assert str(axis) == "action in C2, C3, C6"


def test_bisection_ends_at_the_boundary_with_a_round_number():
    tried: list[float] = []

    def is_false(value: float) -> bool:
        tried.append(value)
        return value >= math.pi

    bisect(SearchAxis("x", 1.0, 100.0, "log"), 80.0, is_false)
    assert min(value for value in tried if value >= math.pi) - math.pi < 0.01
    assert len(str(tried[-1])) <= 5


MANY = """
import sys
from pathlib import Path
from types import SimpleNamespace
from dataclasses import replace
from stairwise.lab.ledger.searching import together
from tests.lab.planted import CLAIMS

def computed(config):
    import jax.numpy as jnp
    return {"x >= -1": bool(jnp.asarray(config.x) >= -1), "n <= 9": config.n <= 9}

claims = [CLAIMS["euler"], CLAIMS["hoeffding"], replace(CLAIMS["bernoulli"], hypotheses=computed)]
together._searchable = lambda targets: claims
together.registry.paper = lambda id: SimpleNamespace(claims=claims)
together.search(["planted"], 2, 20.0, 10.0, Path(sys.argv[1]), most=200)
alike = [CLAIMS["bernoulli"], replace(CLAIMS["bernoulli"], id="again")]
together._searchable = lambda targets: alike
together.registry.paper = lambda id: SimpleNamespace(claims=[*claims, alike[1]])
together.search(["planted"], 1, 20.0, 10.0, Path(sys.argv[1]), left=True, most=60)
"""


def test_many_searches_at_once_write_what_each_finds_even_where_hypotheses_compute_with_jax(tmp_path):
    done = subprocess.run([sys.executable, "-c", MANY, str(tmp_path)], capture_output=True, text=True, check=True)
    assert "JAX has computed" not in done.stdout
    kept = json.loads((tmp_path / "planted" / "falsified.json").read_text())
    assert list(kept) == ["euler", "hoeffding", "bernoulli", "again"]
    outcomes = {id: [finding["outcome"] for finding in each["findings"]] for id, each in kept.items()}
    assert outcomes["euler"][0] == outcomes["hoeffding"][0] == "counterexample"
    assert outcomes["bernoulli"] == outcomes["again"] == ["none found", "counterexample", "none found"]
    assert "planted/bernoulli without" not in done.stdout.partition("planted/again")[2]  # it was judged before


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
def test_a_bad_request_is_refused_in_one_line(words, said, capsys, tmp_path):
    assert main(["falsify", *words, "--store", str(tmp_path / "store")]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "store").exists()


def test_an_experiment_cannot_be_searched():
    ledger = Ledger()
    ledger.empirical("fig1", experiment="run", statement="Figure 1", says="it is learned")(lambda records: None)
    with pytest.raises(ConfigError, match="only theory with a pass line can be false"):
        space(ledger.claims[0])


KNOWN = [
    "composition/lem10-printed",
    "lego/lemF3-printed",
    "parity_cot/thm1-sign-printed",
    "parity_onestep/prop3-printed",
    "selection/thm3.1-threshold-printed",
]
REFOUND = """
import json, sys
from stairwise.lab.ledger import falsify
found = falsify.falsify(falsify.claim_of(sys.argv[1]), minutes=5, drop="", jobs=2)
print(json.dumps(found.as_dict()))
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", KNOWN)
def test_a_printed_statement_that_is_false_is_found_again_within_five_minutes(name):
    done = subprocess.run([sys.executable, "-c", REFOUND, name], capture_output=True, text=True, check=True)
    found = Falsification.from_dict(json.loads(done.stdout))
    point = found.counterexample
    assert found.expected
    assert point is not None
    assert point.found_after <= 300
    claim = falsify.claim_of(name)
    with jax.enable_x64(claim.precision == 64):
        assert claim.at(update(claim.cases[0], point.sizes), point.seed).status in ("refuted", "misprint")


def test_every_statement_that_is_known_to_be_false_was_found_again_or_has_a_certificate():
    for id in built_in():
        searched = assumptions.stored(id)
        for claim in read(id)["claims"]:
            if claim["kind"] in ("refuted", "misprint"):
                inside = [each for each in searched[claim["id"]]["findings"] if not each["dropped"]]
                again = [each["found_after"] for each in inside if each["outcome"] == "counterexample"]
                assert claim["certificate"] or again, f"{id}/{claim['id']}"
                assert all(seconds <= 300 for seconds in again)
