"""An arm is called by a name that its values bear out, whatever flags have changed and whenever it was stored."""

import json
from dataclasses import dataclass

import pytest

from stairwise import cli
from stairwise.commands.runs import RunFilter
from stairwise.config import Config, option, stored_dict
from stairwise.lab import api, registry
from stairwise.lab.contract.checks import at_most
from stairwise.lab.contract.claims import Ledger
from stairwise.lab.contract.experiment import Experiment, Figure, Preset, Trial
from stairwise.lab.contract.paper import Paper
from stairwise.lab.run.grid import GridAxis
from stairwise.lab.run.sweep_progress import label
from stairwise.lab.store.store import Store
from stairwise.report.site.sets import sets_of
from stairwise.report.site.shelf import Shelf
from stairwise.train.stage import Outcome


@dataclass(frozen=True)
class Walk(Config):
    action: str = option("C4", "the group", choices=("C4", "D5", "D4"))
    rate: float = option(0.1, "step size")
    steps: int = option(3, "steps")


def study(config: Walk, seed: int) -> Outcome:
    outcome = Outcome()
    outcome.add("walk", 0, {"steps": config.steps})
    return outcome


ARMS = {"C4": {"action": "C4"}, "D5": {"action": "D5"}, "C4, fast": {"action": "C4", "rate": 0.5}}
PRESETS = {"quick": Preset(Walk(), ARMS, seeds=1), "gpu": Preset(Walk(steps=50), ARMS, seeds=1)}
LEDGER = Ledger()


def compared(records) -> float:
    arms = {record.arm: record.final("steps") for record in records}
    return arms["C4"] - arms["D5"]


@LEDGER.empirical("fig1", experiment="walk", statement="Figure 1", says="C4 takes as long as D5", tier="instant")
def equal(records):
    yield at_most("C4 - D5", compared(records), 0)


def draw(records):
    raise AssertionError(f"not drawn here: {compared(records)}")


FIGURE = Figure("fig1", "C4 against D5", draw)
WALK = Experiment("walk", "walks", Walk, PRESETS, study, (FIGURE,), study=True)
PAPER = Paper("armed", "-", "-", 2026, "-", "-", tuple(LEDGER.claims), (WALK,))


@pytest.fixture
def walk(install, monkeypatch, tmp_path):
    monkeypatch.setenv("STAIRWISE_STORE", str(tmp_path / "store"))
    install("armed", {}, "tests.lab.test_arms:PAPER")
    return PAPER.experiments[0]


def names(changes: dict) -> list[str]:
    return [trial.arm for trial in PAPER.experiments[0].trials("quick", None, changes)]


def test_arms_keep_their_names_while_they_have_their_values():
    assert names({}) == names({"steps": 9}) == ["C4", "D5", "C4, fast"]


def test_an_arm_of_which_a_value_was_changed_is_called_by_its_values_and_equal_trials_merge():
    assert names({"action": "D4"}) == ["action=D4, rate=0.1", "action=D4, rate=0.5"]
    assert names({"action": "D4", "rate": "0.2"}) == ["action=D4, rate=0.2"]
    assert names({"rate": "0.2"}) == ["action=C4, rate=0.2", "action=D5, rate=0.2"]


def test_a_change_that_makes_one_arm_into_another_gives_it_that_name():
    assert names({"action": "D5"}) == ["D5", "action=D5, rate=0.5"]
    assert names({"rate": "0.5", "steps": "9"}) == ["C4, fast", "action=D5, rate=0.5"]


def test_the_command_that_called_d4_c4_calls_it_by_its_value():
    trials = registry.experiment("lego/controls").trials("quick", [0], {"task.action": "D4"})
    assert {trial.arm for trial in trials} == {"task.action=D4"}
    assert all(stored_dict(trial.config)["task"]["action"] == "D4" for trial in trials)
    plain = registry.experiment("lego/controls").trials("quick", [0], {"task.action": "C6"})
    assert {trial.arm for trial in plain} == {"C6"}


def test_run_prints_and_stores_the_true_name(walk, capsys):
    assert cli.main(["run", "armed/walk", "--action", "D4", "--rate", "0.2"]) == 0
    assert "action=D4, rate=0.2 (median over 1 seed" in capsys.readouterr().out
    (record,) = Store.open().trials("armed")
    assert record.arm == "action=D4, rate=0.2"
    assert (
        label(record.typed(walk), [GridAxis("rate", (0.2,)), GridAxis("steps", (3,))]) == f"{record.arm} steps=3 seed 0"
    )


def test_a_record_whose_label_is_false_is_shown_by_its_values_and_stays_as_it_is(walk, capsys):
    store = Store.open()
    false, true, moved = (Trial(walk, each, 0, "C4") for each in (Walk("D4"), Walk("C4", steps=7), Walk("D5")))
    for trial in (false, true, moved):
        store.write(trial, study(Walk(), 0), {})
    shown = {false.digest: "action=D4, rate=0.1", true.digest: "C4", moved.digest: "D5"}
    assert {record.digest: record.arm for record in RunFilter("armed").trials(store)} == shown
    for words in (["arm=C4"], ["action=C4"]):
        assert [record.digest for record in RunFilter.of("armed", where=words).trials(store)] == [true.digest]
    table = api.load("armed", store=store)
    assert dict(zip(table["digest"].to_pylist(), table["arm"].to_pylist(), strict=True)) == shown
    assert cli.main(["show", false.digest, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["arm"] == shown[false.digest]
    held = Shelf([PAPER], store.trials(), [], [], [], 0)
    drawn = {record.digest: record.arm for each in sets_of(walk, held.of(walk), []) for record in each.records}
    assert drawn == shown
    assert {record.arm for record in store.trials("armed")} == {"C4"}  # nothing was rewritten


def test_what_compares_arms_says_so_when_a_flag_has_changed_them(walk, capsys):
    assert cli.main(["verify", "armed/fig1", "--run", "--steps", "5"]) == 0
    assert "holds" in capsys.readouterr().out
    assert cli.main(["verify", "armed/fig1", "--run", "--json", "--action", "D4"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    changed = "changed into action=D4, rate=0.1; action=D4, rate=0.5"
    assert row["status"] == "skipped"
    assert row["note"] == f"it compares arms that --action D4 has {changed}"
    assert cli.main(["figure", "armed/fig1", "--action", "D4"]) == 2
    assert f"fig1 cannot be drawn: it shows arms that have been {changed}" in capsys.readouterr().err


def test_a_label_that_no_preset_knows_is_kept(walk):
    assert walk.arm_of(Walk("D4"), "an arm of last year") == "an arm of last year"
    assert walk.arm_of(Walk("D4"), "") == ""
