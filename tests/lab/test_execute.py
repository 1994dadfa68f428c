"""Planning and running: the store decides what runs, and what runs is stored once and the same every time."""

import threading

import numpy as np
import pytest

from stairwise.lab.contract.experiment import Trial
from stairwise.lab.progress import Lines, Silent
from stairwise.lab.run.execute import execute
from stairwise.lab.run.plan import outstanding, plan, with_upstream
from stairwise.lab.store import provenance
from stairwise.lab.store.store import Store
from stairwise.train.loop import Interrupted, Program
from tests.lab.walking import PAPER, Walk

WALK, ONWARD, CENSUS = (PAPER.experiment(id) for id in ("walk", "onward", "census"))


def contents(store, trial):
    folder = store.read(trial).path
    return {name: (folder / name).read_bytes() for name in ("config.json", "metrics.parquet", "arrays.safetensors")}


def test_trials_that_differ_in_numbers_share_a_program_and_others_do_not():
    trials = [*WALK.trials("quick"), *WALK.trials("quick", changes={"steps": 7})]
    groups = plan(trials, lambda trial: False, width=8)
    assert [len(group.trials) for group in groups] == [4, 4]
    assert [len(group.trials) for group in plan(trials, lambda trial: trial.seed == 0, width=1)] == [1, 1, 1, 1]


def test_a_change_overrides_every_arm_and_equal_trials_merge():
    assert {trial.config.rate for trial in WALK.trials("quick")} == {0.1, 0.5}
    merged = WALK.trials("quick", changes={"rate": "0.2"})
    assert [(trial.config.rate, trial.seed) for trial in merged] == [(0.2, 0), (0.2, 1)]


def test_an_arm_that_a_change_makes_into_another_has_its_name():
    arms = {trial.config.rate: trial.arm for trial in WALK.trials("quick")}
    for rate, arm in arms.items():
        assert {trial.arm for trial in WALK.trials("quick", changes={"rate": str(rate)})} == {arm}


def test_what_a_trial_starts_from_comes_first():
    later = ONWARD.trials("quick")[0]
    assert [trial.experiment.id for trial in with_upstream([later])] == ["walk", "onward"]


def test_the_same_trial_gives_the_same_bytes_in_another_store(tmp_path):
    trials = WALK.trials("quick", seeds=[0])
    for name, chunk in (("a", 1), ("b", 1000)):
        execute(trials, Store.open(tmp_path / name), chunk=chunk)
    for trial in trials:
        assert contents(Store.open(tmp_path / "a"), trial) == contents(Store.open(tmp_path / "b"), trial)


def test_nothing_that_is_stored_runs_again(tmp_path, monkeypatch):
    store = Store.open(tmp_path)
    execute(WALK.trials("quick", seeds=[0]), store)
    ran = []
    monkeypatch.setattr(Store, "write", lambda self, trial, *rest: ran.append(trial.seed))
    execute(WALK.trials("quick", seeds=[0, 5]), store)
    assert ran == [5, 5]


def test_a_group_on_one_program_equals_itself_with_other_companions(tmp_path):
    trials = WALK.trials("quick", seeds=range(4))
    execute(trials, Store.open(tmp_path / "all"), width=4)
    execute(trials[:1], Store.open(tmp_path / "one"), width=4)
    assert contents(Store.open(tmp_path / "all"), trials[0]) == contents(Store.open(tmp_path / "one"), trials[0])
    assert Store.open(tmp_path / "one").read(trials[0]).run["group_width"] == 4


def test_a_trial_tells_the_flags_it_was_compiled_with(tmp_path, monkeypatch):
    trials = WALK.trials("quick", seeds=[0])[:1]
    monkeypatch.setenv("XLA_FLAGS", "--xla_some=1 --xla_dump_to=/somewhere")
    execute(trials, Store.open(tmp_path))
    assert Store.open(tmp_path).read(trials[0]).run["xla_flags"] == "--xla_some=1 --xla_dump_to=..."


def test_a_trial_tells_the_options_of_its_loop(tmp_path, monkeypatch):
    trials = WALK.trials("quick", seeds=[0])[:1]
    monkeypatch.setattr(Program, "options", {"xla_of_its_loop": 1})
    execute(trials, Store.open(tmp_path))
    assert Store.open(tmp_path).read(trials[0]).run["xla_flags"].endswith("--xla_of_its_loop=1")


def test_a_group_that_is_mostly_empty_is_said_to_be(tmp_path, capsys):
    trials = WALK.trials("quick", seeds=range(4))[:3]
    for width in (5, 6):
        execute(trials, Store.open(tmp_path / str(width)), width=width, progress=Lines())
    warnings = [line for line in capsys.readouterr().err.splitlines() if line.startswith("a group of")]
    assert warnings == [
        "a group of 6 computes 6 trials where 3 are asked for; --group 3 is faster (and rounds differently)"
    ]


def test_a_later_experiment_starts_from_the_stored_weights_of_an_earlier_one(tmp_path):
    store = Store.open(tmp_path)
    later = Trial(ONWARD, Walk(steps=0), 3)
    execute([later], store)
    before = store.read(later.needs["first"])
    np.testing.assert_array_equal(store.read(later).array("walk/place"), before.array("walk/place"))


def test_what_is_still_to_run_counts_with_what_it_starts_from():
    later, walk = Trial(ONWARD, Walk(steps=0), 3), WALK.trials("quick", seeds=[0])[0]
    assert outstanding([later, walk], lambda trial: False) == ([later, walk], 3)
    assert outstanding([later, walk], lambda trial: trial == later.needs["first"]) == ([later, walk], 2)
    assert outstanding([later, walk], lambda trial: trial == later) == ([walk], 1)


def test_a_study_is_stored_like_any_trial(tmp_path):
    store = Store.open(tmp_path)
    execute(CENSUS.trials("quick"), store)
    assert [store.read(trial).final("sum") for trial in CENSUS.trials("quick")] == [780.0, 781.0]


def test_an_interrupted_run_goes_on_from_its_checkpoint_and_ends_the_same(tmp_path):
    trial = Trial(WALK, Walk(steps=3000), 1)
    execute([trial], Store.open(tmp_path / "whole"))
    store = Store.open(tmp_path / "cut")

    class StopLater(threading.Event):
        """Sets the stop flag after a few chunks."""

        left = 4

        def is_set(self):
            self.left -= 1
            return self.left < 0

    with pytest.raises(Interrupted):
        execute([trial], store, stop=StopLater(), chunk=100)
    assert not store.has(trial)
    kept = list((tmp_path / "cut" / "checkpoints").iterdir())
    assert len(kept) == 1
    execute([trial], store, chunk=100)
    assert contents(store, trial) == contents(Store.open(tmp_path / "whole"), trial)
    assert not list((tmp_path / "cut" / "checkpoints").iterdir())


def test_a_run_that_cannot_go_on_from_its_checkpoint_says_what_has_changed(tmp_path, monkeypatch):
    trial, store = Trial(WALK, Walk(steps=3000), 1), Store.open(tmp_path)
    stop = threading.Event()
    said = []

    class Told(Silent):
        def ticks(self, *_):
            stop.set()

        def warn(self, text):
            said.append(text)

    with pytest.raises(Interrupted):
        execute([trial], store, stop=stop, chunk=100, progress=Told())
    assert len(store.checkpoints()) == 1
    monkeypatch.setattr(provenance, "compiler_flags", lambda *_: "--other")
    execute([trial], store, progress=Told())
    begun = "this trial had been begun with other compiler flags"
    assert said == [f"{begun}, and cannot go on: training starts again at step 0"]


@pytest.mark.parametrize("content", [b"", b"\xff" * 64, b"\x02" + bytes(7) + b"{}", b"\x02" + bytes(7) + b"[]"])
def test_a_damaged_checkpoint_of_another_run_stops_nothing(tmp_path, content):
    trial, store = Trial(WALK, Walk(steps=30), 1), Store.open(tmp_path)
    store.checkpoint("0" * 20).path.parent.mkdir(exist_ok=True)
    store.checkpoint("0" * 20).path.write_bytes(content)
    execute([trial], store)
    assert store.has(trial)


def test_a_seed_outside_its_range_is_refused():
    with pytest.raises(ValueError, match=r"seed=-1 must lie in 0\.\.4294967295"):
        Trial(WALK, Walk(), -1)
