"""The records of runs: written at the start, completed at the end, one per request."""

import itertools
import time

import pytest

import stairwise as sw
from stairwise.lab.progress import Silent
from stairwise.lab.store.store import Store
from tests.lab.walking import PAPER

WALK = PAPER.experiment("walk")


class Killed(Exception):
    """The process ends here."""


class KilledAfter(Silent):
    """Ends the process when so many trials are stored."""

    def __init__(self, trials: int):
        self.left = trials

    def finished(self, label, status):
        self.left -= 1
        if not self.left:
            raise Killed


@pytest.mark.parametrize("command", ["run", "sweep"])
def test_interrupted_runs_are_listed_once_as_unfinished_until_one_comes_to_its_end(tmp_path, command):
    store = Store.open(tmp_path)

    def work(**options):
        if command == "run":
            return sw.run(WALK, store=store, **options)
        return sw.sweep(WALK, {"shift": [0.0, 1.0]}, store=store, **options)

    for _ in range(3):
        with pytest.raises(Killed):
            work(progress=KilledAfter(1))
        (run,) = store.runs()
        assert run.seconds is None
    assert len(store.trials()) == 3
    work()
    (ended,) = store.runs()
    assert ended.id == run.id
    assert ended.seconds is not None
    assert len(ended.trials) == len(store.trials())
    work()
    assert store.runs() == [ended]


@pytest.mark.parametrize("command", ["run", "sweep"])
def test_a_run_that_ended_before_its_record_did_is_completed_by_the_same_command(tmp_path, command):
    store = Store.open(tmp_path)

    def work(**options):
        if command == "run":
            return sw.run(WALK, store=store, **options)
        return sw.sweep(WALK, {"shift": [0.0]}, store=store, **options)

    with pytest.raises(Killed):
        work(progress=KilledAfter(4))
    assert [run.seconds for run in store.runs()] == [None]
    assert len(store.trials()) == 4
    work()
    (run,) = store.runs()
    assert run.seconds is not None


def test_a_clock_that_is_set_back_gives_no_negative_duration(tmp_path, monkeypatch):
    store, times = Store.open(tmp_path), itertools.count(2e9, -1e8)
    monkeypatch.setattr(time, "time", lambda: next(times))
    sw.run(WALK, store=store)
    (run,) = store.runs()
    assert run.seconds >= 0
