"""`reproduce` has a second process that takes experiments from the other end, then checks claims."""

import time

import pytest

from stairwise.commands.background import SecondProcess
from stairwise.lab import registry
from stairwise.lab.ledger.verify import verify
from stairwise.lab.run.execute import cache_folder
from stairwise.lab.store.store import Store
from stairwise.record import published

pytestmark = pytest.mark.slow
NAMES = ["parity_onestep/oracle", "parity_onestep/onestep"]


@pytest.fixture
def ahead(tmp_path):
    made = SecondProcess(NAMES, str(tmp_path))
    deadline = time.monotonic() + 60
    while not made.taken[1] and time.monotonic() < deadline:  # it needs a second to start
        time.sleep(0.05)
    yield made
    made.end()


def stored(root, name: str) -> list[bool]:
    store = Store.open(root)
    return [store.has(trial) for trial in registry.experiment(name).trials("quick", None, None)]


def test_it_stores_the_last_and_leaves_the_callers_alone(ahead, tmp_path):
    ahead.take(0)  # at once, since the other begins at the end
    ahead.take(1)  # waits for it
    assert all(stored(tmp_path, NAMES[1]))
    ahead.process.join(20)
    assert not ahead.process.is_alive()
    assert not any(stored(tmp_path, NAMES[0]))


def test_it_checks_claims_until_it_is_told_to_end(tmp_path):
    names = ["selection/def-sts", "selection/def-onehot"]
    second = SecondProcess([], str(tmp_path), names)
    store = Store.open(tmp_path)
    second.checker.join(120)
    assert second.checker.exitcode == 0
    rows = list(verify(names, store=store))
    assert [row.stored for row in rows] == [True, True]
    assert [row.verdict.status for row in rows] == ["holds", "holds"]


def test_it_unpacks_what_is_published_before_a_report_asks_for_it(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    second = SecondProcess([], str(tmp_path / "store"), record=["selection/online", "parity_onestep/oracle"])
    second.process.join(120)
    there = set((cache_folder() / "published").iterdir())
    assert len(there) == 2
    assert published.store(published.files("selection/online")).root in there
    assert set((cache_folder() / "published").iterdir()) == there
    second.end()


def test_a_claim_that_it_is_at_is_checked_to_its_end(tmp_path):
    second = SecondProcess([], str(tmp_path), ["selection/thm3.1"] * 10_000)
    store = Store.open(tmp_path)
    deadline = time.monotonic() + 120
    while not list(store.verdicts()) and time.monotonic() < deadline:
        time.sleep(0.05)
    second.end()
    assert second.checker.exitcode == 0  # not by a signal
    (row,) = verify(["selection/thm3.1"], store=store)
    assert row.stored


def test_the_caller_does_not_wait_for_one_that_died(ahead):
    ahead.process.kill()
    ahead.process.join(20)
    ahead.take(1)
    assert not ahead.done[1]
