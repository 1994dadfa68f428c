"""A stored trial is opened, and all its bytes checked, once per command."""

from collections import Counter

import pytest

import stairwise as sw
from stairwise.cli import main
from stairwise.lab.ledger.verify import verify
from stairwise.lab.store import store as stores
from stairwise.lab.store.store import Store
from stairwise.lab.sweep import sweep
from tests.lab.walking import PAPER

WALK = PAPER.experiment("walk")
SMALL = {"steps": 2, "batch": 4, "measure_every": 1, "test_examples": 4}


@pytest.fixture
def opened(monkeypatch):
    """How often each trial has been opened successfully."""
    count, open_trial = Counter(), stores.open_trial

    def counted(folder):
        found = open_trial(folder)
        count[found.digest] += 1
        return found

    monkeypatch.setattr(stores, "open_trial", counted)
    return count


def test_a_run_opens_what_it_finds_and_what_it_has_made_once(tmp_path, opened):
    store = Store.open(tmp_path)
    for seeds, trials in ((1, 2), (2, 4), (2, 4)):  # all new, half of them new, none new
        opened.clear()
        sw.run(WALK, seeds=seeds, store=store)
        assert sorted(opened.values()) == [1] * trials


def test_a_sweep_opens_what_it_finds_and_what_it_has_made_once(tmp_path, opened):
    store = Store.open(tmp_path)
    for shifts, trials in (([0.0], 2), ([0.0, 1.0], 4), ([0.0, 1.0], 4)):
        opened.clear()
        sweep(WALK, {"shift": shifts}, seeds=1, store=store, group=2)
        assert sorted(opened.values()) == [1] * trials


def test_verify_opens_a_trial_once_for_all_claims_that_are_judged_on_it(tmp_path, opened):
    store = Store.open(tmp_path)
    trials = sw.run("selection/online", changes=SMALL, store=store).records
    opened.clear()
    claims = [f"selection/{id}" for id in ("fig1-left", "fig2", "fig5", "fig4-top")]  # of online but for fig5
    rows = list(verify(claims, SMALL, store=store))
    assert [row.claim.id for row in rows if "not in the store" in row.verdict.note] == ["fig5"]
    assert sorted(opened.values()) == [1] * len(trials)


def test_a_figure_opens_a_trial_once_whether_it_is_run_or_not(tmp_path, opened):
    words = [f"--{name}={value}" for name, value in SMALL.items()]
    out = ["-o", str(tmp_path / "fig2.svg"), "--store", str(tmp_path / "store")]
    for run in (["--run"], []):
        opened.clear()
        assert main(["figure", "selection/fig2", "--seeds=1", *words, *run, *out]) == 0
        assert sorted(opened.values()) == [1, 1]
