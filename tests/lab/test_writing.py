"""A short trial is stored while the next one runs; every one that was done is stored, whatever happens then."""

import threading

import pytest

from stairwise.lab.progress import Silent
from stairwise.lab.run import writing
from stairwise.lab.run.execute import execute
from stairwise.lab.store.checkpoint import Checkpoint
from stairwise.lab.store.files import StoreError
from stairwise.lab.store.store import Store
from stairwise.train.loop import Interrupted, Program
from tests.lab.walking import PAPER

WALK, ONWARD = (PAPER.experiment(id) for id in ("walk", "onward"))


@pytest.fixture
def told(monkeypatch) -> list[str]:
    """When trials begin to run, and when they are stored."""
    events: list[str] = []
    run, write = Program.run, Store.write

    def running(self, members, hooks=None):
        events.append(f"run {members[0].seed}")
        return run(self, members, hooks)

    def storing(self, trial, *rest):
        path = write(self, trial, *rest)
        events.append(f"stored {trial.seed}")
        return path

    monkeypatch.setattr(Program, "run", running)
    monkeypatch.setattr(Store, "write", storing)
    return events


def test_a_short_trial_is_stored_while_the_next_one_runs(tmp_path, monkeypatch):
    started, threads, run, write = threading.Event(), set(), Program.run, Store.write

    def running(self, members, hooks=None):
        if members[0].seed == 1:
            started.set()
        return run(self, members, hooks)

    def waiting(self, trial, *rest):
        threads.add(threading.current_thread().name)
        assert trial.seed != 0 or started.wait(60)  # which would never come, were it stored first
        return write(self, trial, *rest)

    monkeypatch.setattr(writing, "SHORT_SECONDS", 1e9)
    monkeypatch.setattr(Program, "run", running)
    monkeypatch.setattr(Store, "write", waiting)
    store, trials = Store.open(tmp_path), WALK.trials("quick", seeds=[0, 1], changes={"rate": "0.2"})
    assert execute(trials, store) == (2, 0)
    assert all(store.has(trial) for trial in trials)
    assert threading.current_thread().name not in threads


def test_a_long_trial_is_stored_before_the_next_one_runs(tmp_path, monkeypatch, told):
    monkeypatch.setattr(writing, "SHORT_SECONDS", -1.0)
    execute(WALK.trials("quick", seeds=[0, 1], changes={"rate": "0.2"}), Store.open(tmp_path))
    assert told == ["run 0", "stored 0", "run 1", "stored 1"]


def test_what_others_start_from_is_stored_before_they_run(tmp_path, monkeypatch, told):
    monkeypatch.setattr(writing, "SHORT_SECONDS", 1e9)
    execute(ONWARD.trials("quick", seeds=[0, 1]), Store.open(tmp_path))
    assert told[::2] == [f"run {event.split()[1]}" for event in told[1::2]]


def test_what_is_done_is_stored_and_told_when_the_next_one_is_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "SHORT_SECONDS", 1e9)
    run, concluded = Program.run, []

    def stopped(self, members, hooks=None):
        if members[0].seed == 1:
            raise Interrupted
        return run(self, members, hooks)

    class Telling(Silent):
        def concluded(self, trial, status, message, metrics):
            concluded.append(trial.seed)

    monkeypatch.setattr(Program, "run", stopped)
    store, trials = Store.open(tmp_path), WALK.trials("quick", seeds=[0, 1], changes={"rate": "0.2"})
    with pytest.raises(Interrupted):
        execute(trials, store, progress=Telling())
    assert [store.has(trial) for trial in trials] == [True, False]
    assert concluded == [0]


def test_a_trial_that_cannot_be_stored_ends_the_run_with_the_reason(tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "SHORT_SECONDS", 1e9)

    def full(self, trial, *rest):
        raise StoreError("no space left")

    monkeypatch.setattr(Store, "write", full)
    with pytest.raises(StoreError, match="no space left"):
        execute(WALK.trials("quick", seeds=[0, 1, 2]), Store.open(tmp_path))


def test_a_checkpoint_goes_after_its_trial_is_stored(tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "SHORT_SECONDS", 1e9)
    store, trials = Store.open(tmp_path), WALK.trials("quick", seeds=[0, 1], changes={"rate": "0.2"})
    there, remove = [], Checkpoint.remove

    def removing(self):
        there.append([store.has(trial) for trial in trials])
        remove(self)

    monkeypatch.setattr(Checkpoint, "remove", removing)
    execute(trials, store, chunk=1, save_every=0.0)
    assert there == [[True, False], [True, True]]
    assert not list((tmp_path / "checkpoints").glob("*"))
