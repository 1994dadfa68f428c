"""Sweeps in this process: what is new runs, what fails is kept, what does not fit is halved; and several devices."""

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import stairwise as sw
from stairwise.commands.sweep import print_summary
from stairwise.config import ConfigError
from stairwise.lab.progress import Silent
from stairwise.lab.run import execute as executor
from stairwise.lab.run.estimate import trial_bytes
from stairwise.lab.run.execute import Engine, execute
from stairwise.lab.run.plan import Group
from stairwise.lab.run.sweep_progress import Objective
from stairwise.lab.store.store import Store
from stairwise.lab.sweep import SweepRequest, preview, sweep
from stairwise.train.loop import Member, Program
from stairwise.train.stage import Outcome
from tests.lab.walking import PAPER, Walk
from tests.train.test_loop import walk_stage

WALK, ONWARD = PAPER.experiment("walk"), PAPER.experiment("onward")
GRID = {"shift": [0.0, 1.0]}


class Heard(Silent):
    """Keeps what it is told."""

    def __init__(self):
        self.warnings, self.ended = [], []

    def warn(self, text):
        self.warnings.append(text)

    def finished(self, label, status):
        self.ended.append((label, status))


def contents(store: Store) -> dict[str, bytes]:
    names = ("config.json", "metrics.parquet", "arrays.safetensors")
    return {record.digest: b"".join((record.path / name).read_bytes() for name in names) for record in store.trials()}


def test_more_seeds_or_values_run_only_what_is_new(tmp_path):
    store = Store.open(tmp_path)
    first = sweep(WALK, GRID, seeds=1, store=store, group=2)
    before = {record.digest: record.run["timing"] for record in first.records}
    heard = Heard()
    more = sweep(WALK, {"shift": "0:2:1"}, seeds=2, store=store, group=2, progress=heard)
    assert (len(first.records), len(more.records), len(heard.ended)) == (4, 12, 8)
    kept = {record.digest: record.run["timing"] for record in more.records if record.digest in before}
    assert kept == before
    assert [run.record["grid"] for run in store.runs()] == [{"shift": [0.0, 1.0]}, {"shift": [0.0, 1.0, 2.0]}]
    assert all(run.seconds is not None for run in store.runs())


def test_the_best_trial_and_the_rows_carry_the_grid(tmp_path, capsys):
    result = sweep(WALK, GRID, seeds=2, store=Store.open(tmp_path), group=4, best="max:mean")
    rows = result.rows()
    assert {row["shift"] for row in rows} == {0.0, 1.0}
    best = result.best()
    assert best is not None
    assert best.final("mean") == max(row["mean"] for row in rows)
    assert result.best("mean") is not best  # the lowest
    aimless = replace(result, objective=Objective.parse("nosuch"))
    print_summary(aimless, 1.0, as_json=False)
    assert "best nosuch: no trial has it (they have " in capsys.readouterr().out
    assert (aimless.objective_is_unknown, result.objective_is_unknown) == (True, False)


def test_a_metric_that_no_trial_has_is_said_when_the_first_one_ends(tmp_path):
    heard = Heard()
    sweep(WALK, GRID, seeds=2, store=Store.open(tmp_path), group=4, best="nosuch", progress=heard)
    assert [text for text in heard.warnings if "nosuch" in text] == [heard.warnings[0]]
    assert heard.warnings[0].startswith("best nosuch: a trial has no such metric (its metrics: ")


def test_the_plan_counts_trials_programs_and_groups_before_anything_exists(tmp_path):
    request = SweepRequest.of(WALK, {"shift": "0:9:1", "steps": "20,40"}, seeds=25)
    found = preview(request, Store.open(tmp_path / "none", create=False), group=8)
    counted = [found[name] for name in ("trials", "stored", "to run", "programs", "groups", "group width")]
    assert counted == [1000, 0, 1000, 2, 126, 8]
    assert found["megabytes of the largest group"] * 1e6 == pytest.approx(8 * trial_bytes(request.trials[-1]), rel=0.5)
    assert not (tmp_path / "none").exists()


def test_memory_of_a_trial_covers_its_state_and_grows_with_its_width():
    narrow, wide = (WALK.trials("quick", [0], {"width": width})[0] for width in (1000, 4000))
    assert 3.5 < trial_bytes(wide) / trial_bytes(narrow) < 4.5
    assert trial_bytes(wide) > 2 * 4000 * 4  # place and mean


# --- groups that do not fit, trials that raise ------------------------------------------------------------------------


@pytest.fixture
def small_memory(monkeypatch):
    """A device on which programs of more than two trials run out of memory."""
    run, asked = Program.run, []

    def limited(self, members, hooks=None):
        asked.append(self.width)
        if self.width > 2:
            raise RuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 1 bytes")
        return run(self, members, hooks)

    monkeypatch.setattr(Program, "run", limited)
    return asked


@pytest.mark.slow
def test_a_group_that_runs_out_of_memory_is_halved_and_so_are_those_after_it(tmp_path, small_memory):
    heard, store = Heard(), Store.open(tmp_path / "halved")
    trials = WALK.trials("quick", range(8))
    execute(trials, store, width=8, progress=heard)
    assert small_memory == [8, 4] + [2] * 8  # both groups of eight; the second begins at two
    assert len(heard.warnings) == 2
    execute(trials, Store.open(tmp_path / "two"), width=2)
    assert contents(store) == contents(Store.open(tmp_path / "two"))
    assert {record.run["group_width"] for record in store.trials()} == {2}


def test_a_trial_that_does_not_fit_alone_is_recorded_as_failed(tmp_path, monkeypatch):
    def never(self, members, hooks=None):
        raise RuntimeError("RESOURCE_EXHAUSTED: Out of memory")

    monkeypatch.setattr(Program, "run", never)
    result = sweep(WALK, {"rate": [0.1]}, seeds=1, store=Store.open(tmp_path), group=4)
    assert [(r.status, r.run["message"]) for r in result.records] == [
        ("failed", "RuntimeError: RESOURCE_EXHAUSTED: Out of memory")
    ]


@pytest.fixture
def unlucky(monkeypatch):
    """Seed 3 raises; the set is emptied to cure it."""
    run, seeds = Program.run, {3}

    def raising(self, members, hooks=None):
        if seeds & {member.seed for member in members}:
            raise ValueError("three is unlucky")
        return run(self, members, hooks)

    monkeypatch.setattr(Program, "run", raising)
    return seeds


def test_a_trial_that_raises_is_a_record_without_a_result_and_its_companions_keep_their_bits(tmp_path, unlucky):
    store = Store.open(tmp_path / "some")
    result = sweep(WALK, {"rate": [0.1]}, seeds=8, store=store, group=8)
    (bad,) = result.bad
    assert (bad.seed, bad.status, bad.run["message"]) == (3, "failed", "ValueError: three is unlucky")
    trials = {trial.seed: trial for trial in WALK.trials("quick", range(8), {"rate": 0.1})}
    assert [seed for seed, trial in trials.items() if not store.has(trial)] == [3]
    unlucky.clear()
    execute(list(trials.values()), Store.open(tmp_path / "all"), width=8)
    whole = contents(Store.open(tmp_path / "all"))
    assert {d: c for d, c in contents(store).items() if d != bad.digest} == {
        d: c for d, c in whole.items() if d != bad.digest
    }
    sweep(WALK, {"rate": [0.1]}, seeds=8, store=store, group=8)
    assert not store.has(trials[3])  # not unasked
    sweep(WALK, {"rate": [0.1]}, seeds=8, store=store, group=8, retry_failed=True)
    assert contents(store) == whole


def test_run_raises_what_a_sweep_records_and_tries_again_what_has_failed(tmp_path, unlucky):
    store = Store.open(tmp_path)
    sweep(WALK, {"rate": [0.1]}, seeds=[3], store=store)
    with pytest.raises(ValueError, match="three is unlucky"):
        sw.run(WALK, seeds=[3], changes={"rate": 0.1}, store=store)
    unlucky.clear()
    (record,) = sw.run(WALK, seeds=[3], changes={"rate": 0.1}, store=store).records
    assert record.status == "finished"


def test_a_trial_that_starts_from_a_failed_one_fails_and_says_so(tmp_path, unlucky):
    result = sweep(ONWARD, {"shift": [0.0]}, seeds=[2, 3], store=Store.open(tmp_path))
    assert [record.status for record in result.records] == ["finished", "failed"]
    assert "which failed" in result.bad[0].run["message"]


def test_a_checkpoint_stays_until_the_trials_of_its_group_are_stored(tmp_path, monkeypatch):
    store = Store.open(tmp_path)
    engine = Engine(store, chunk=10, save_every=0.0)
    results = engine.run(Group(tuple(WALK.trials("quick", [0, 1], {"rate": 0.1})), 2))
    next(results)
    assert len(list((tmp_path / "checkpoints").iterdir())) == 1
    list(results)
    assert not list((tmp_path / "checkpoints").iterdir())


def test_a_failure_never_replaces_a_result_and_a_result_replaces_a_failure(tmp_path):
    store, (trial, *_) = Store.open(tmp_path), WALK.trials("quick")
    making = {"timing": {"started": 0.0, "seconds": 0.0, "seconds_per_trial": 0.0}}
    for outcome, expected in [
        (Outcome("failed", message="a"), "a"),
        (Outcome("failed", message="b"), "b"),
        (Outcome("finished", message="c"), "c"),
        (Outcome("failed", message="d"), "c"),
        (Outcome("finished", message="e"), "c"),
    ]:
        store.write(trial, outcome, making)
        assert store.read(trial).run["message"] == expected
    assert not (tmp_path / "damaged").exists()
    assert not list((tmp_path / "tmp").iterdir())


def test_the_aim_is_a_loss_unless_it_is_named():
    assert Objective().of({"accuracy": 1.0, "test loss": 2.0}) == ("test loss", 2.0)
    assert Objective.parse("accuracy").of({"accuracy": 1.0, "loss": 2.0}) == ("accuracy", 1.0)
    with pytest.raises(ConfigError, match="best=most:accuracy"):
        Objective.parse("most:accuracy")


# --- several devices --------------------------------------------------------------------------------------------------

SHARDED = """
import sys
import jax
assert jax.local_device_count() == 8
from stairwise.lab.run.execute import execute, group_width
from stairwise.lab.store.store import Store
from tests.lab.walking import PAPER
trials = PAPER.experiment("walk").trials("quick", range(5))
assert group_width(1) == 8
for width in (2, 3, 4, 8, 16):
    execute(trials, Store.open(f"{sys.argv[1]}/{width}"), width=width)
"""


@pytest.mark.slow
def test_the_trial_axis_spreads_over_two_four_or_eight_devices_with_the_bits_of_each_share(tmp_path):
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"}
    subprocess.run([sys.executable, "-c", SHARDED, str(tmp_path)], env=environment, check=True, timeout=300)
    trials, here = WALK.trials("quick", range(5)), {}
    for width in (1, 2, 3):
        execute(trials, Store.open(tmp_path / f"here {width}"), width=width)
        here[width] = contents(Store.open(tmp_path / f"here {width}"))
    assert len(here[1]) == 10
    shares = {2: 1, 4: 1, 8: 1, 16: 2, 3: 3}  # trials on each of as many devices as divide the width
    for width, share in shares.items():
        assert contents(Store.open(tmp_path / str(width))) == here[share]
    assert {record.run["device"]["count"] for record in Store.open(tmp_path / "8").trials()} == {8}


def test_a_width_that_the_shards_do_not_divide_is_refused():
    with pytest.raises(ValueError, match="shards=2 must lie in 1"):
        Program([walk_stage()], width=3, shards=2)
    (outcome,) = Program([walk_stage()], width=2).run([Member(0, Walk())])
    assert np.isfinite(outcome.last("mean"))


def test_out_of_memory_is_told_from_other_errors():
    assert executor.out_of_memory(RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 8 bytes"))
    assert executor.out_of_memory(MemoryError())
    assert not executor.out_of_memory(ValueError("shape mismatch"))
