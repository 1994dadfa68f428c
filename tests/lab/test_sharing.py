"""Several processes on one request: shards cover it exactly, reservations keep two from the same trial and end."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import stairwise as sw
from stairwise.cli import main
from stairwise.config import ConfigError
from stairwise.lab.ledger.asked import VerifyRequest
from stairwise.lab.run import sharing
from stairwise.lab.run.execute import execute
from stairwise.lab.run.sharing import Reservations, Shard, Work
from stairwise.lab.run.tidy import clean, litter
from stairwise.lab.store.files import scratch_name
from stairwise.lab.store.store import Store
from stairwise.lab.sweep import SweepRequest, preview, sweep
from stairwise.train.loop import Program
from tests.lab.test_sweep import Heard, contents
from tests.lab.walking import PAPER

WALK, ONWARD = PAPER.experiment("walk"), PAPER.experiment("onward")
REPOSITORY = Path(__file__).parents[2]


# --- shards -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "group"), [(1, 1), (3, 1), (3, 4), (5, 4), (7, 64), (40, 8)])
def test_shards_are_disjoint_and_together_the_whole_request(count, group):
    trials = SweepRequest.of(WALK, {"steps": [20, 40], "shift": [0.0, 1.0]}, seeds=3).trials
    parts = [Shard(index, count).trials(trials, group) for index in range(1, count + 1)]
    assert sorted(trial.digest for part in parts for trial in part) == sorted(trial.digest for trial in trials)
    assert all(parts) or count > len(trials)


def test_a_shard_is_made_of_whole_groups_of_one_program_where_there_are_enough():
    trials = SweepRequest.of(WALK, {"steps": [20, 40]}, seeds=8).trials
    for index in (1, 2, 3, 4):
        part = Shard(index, 4).trials(trials, 8)
        assert len(part) == 8
        assert len({trial.program_key for trial in part}) == 1


@pytest.mark.slow
def test_three_shards_give_the_bytes_of_the_whole_and_each_says_what_the_others_have_to_do(tmp_path):
    whole, parts = Store.open(tmp_path / "whole"), Store.open(tmp_path / "parts")
    grid = {"shift": [0.0, 1.0]}
    sweep(WALK, grid, seeds=3, store=whole, group=4)
    left = []
    for index in (1, 2, 3):
        found = sweep(WALK, grid, seeds=3, store=parts, group=4, shard=f"{index}/3")
        assert (found.share.here, found.share.asked) == (4, 12)
        left.append(found.share.left)
    assert left == [8, 4, 0]
    assert contents(parts) == contents(whole)
    assert {record.run["group_width"] for record in parts.trials()} == {4}


def test_the_plan_of_a_shard_counts_its_own_trials(tmp_path):
    request = SweepRequest.of(WALK, {"shift": [0.0, 1.0]}, seeds=3, shard="2/3", group=4)
    found = preview(request, Store.open(tmp_path / "none", create=False), group=4)
    assert (found["shard"], found["trials"]) == ("2/3 of 12 trials", 4)


def test_a_shard_beyond_the_last_trial_has_nothing_to_do(tmp_path):
    result = sw.run(WALK, seeds=1, store=Store.open(tmp_path), shard="9/9")
    assert (result.records, result.share.asked, result.share.left) == ([], 2, 2)


@pytest.mark.parametrize("text", ["3/2", "0/2", "1", "a/b", "1/0", "-1/2", "1/2/3", "", "١/٢"])
def test_what_is_no_shard_is_refused(text):
    with pytest.raises(ConfigError, match=f"shard={text} must be i/n with 1 <= i <= n$"):
        Shard.parse(text)


@pytest.mark.parametrize("command", [["run", "selection/online"], ["sweep", "selection/online"], ["verify"]])
def test_every_command_refuses_what_is_no_shard_in_one_line_and_makes_no_store(command, capsys, tmp_path):
    grid = ["--grid", "learning_rate=1"] if command[0] == "sweep" else []
    assert main([*command, *grid, "--shard=3/2", "--store", str(tmp_path / "store")]) == 2
    assert capsys.readouterr().err == "stairwise: shard=3/2 must be i/n with 1 <= i <= n\n"
    assert not (tmp_path / "store").exists()


def test_shards_of_the_ledger_check_every_claim_once(tmp_path):
    whole = VerifyRequest.of(["lego"])
    asked = [(each.claim.name, each.sizes) for each in whole.claims]
    parts = [VerifyRequest.of(["lego"], shard=f"{index}/3").claims for index in (1, 2, 3)]
    found = [(each.claim.name, each.sizes) for part in parts for each in part]
    assert sorted(found, key=str) == sorted(asked, key=str)
    homes: dict[str, set[int]] = {}
    for index, part in enumerate(parts):
        for each in part:
            if each.claim.check is None:
                homes.setdefault(each.claim.experiment, set()).add(index)
    assert all(len(places) == 1 for places in homes.values())  # judged on the same trials


# --- reservations -----------------------------------------------------------------------------------------------------


def test_a_trial_is_reserved_by_one_at_a_time_and_free_when_given_back(tmp_path):
    store = Store.open(tmp_path)
    with Reservations(store) as one, Reservations(store) as other:
        assert one.take(["a" * 20, "b" * 20]) == ["a" * 20, "b" * 20]
        assert other.take(["a" * 20, "c" * 20]) == []  # the other has begun on this group
        assert other.take(["c" * 20, "a" * 20]) == ["c" * 20]
        assert set(one.elsewhere()) == {"c" * 20}
        one.release(["a" * 20])
        assert other.take(["a" * 20]) == ["a" * 20]
        one.release(["a" * 20])  # no longer one's own: it stays
        assert set(one.elsewhere()) == {"a" * 20, "c" * 20}
    assert not list((tmp_path / "reserved").iterdir())
    assert not list((tmp_path / "tmp").iterdir())


RESERVE = """
import sys, time
from stairwise.lab.run.sharing import Reservations
from stairwise.lab.store.store import Store
with Reservations(Store.open(sys.argv[1])) as reservations:
    print(reservations.take(sys.argv[2:]), flush=True)
    time.sleep(600)
"""


def reserve_elsewhere(root: Path, *digests: str) -> subprocess.Popen:
    """Another process that has reserved these."""
    paths = os.pathsep.join([str(REPOSITORY / "src"), os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(
        [sys.executable, "-c", RESERVE, str(root), *digests],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
    )
    assert process.stdout is not None
    assert digests[0] in process.stdout.readline()
    return process


def test_what_a_killed_process_has_reserved_is_free_at_once_and_gc_removes_it(tmp_path):
    store, digest = Store.open(tmp_path), "d" * 20
    process = reserve_elsewhere(tmp_path, digest)
    try:
        with Reservations(store) as reservations:
            assert reservations.take([digest]) == []
            assert litter(store) == []  # its process lives
            process.kill()
            process.wait()
            found = litter(store)
            assert sorted(each.path.parent.name for each in found) == ["reserved", "tmp"]
            assert reservations.take([digest]) == [digest]
            assert [each.path.parent.name for each in litter(store)] == ["tmp"]
    finally:
        process.kill()
        process.communicate()
    clean(litter(store))
    assert litter(store) == []


@pytest.mark.parametrize("skew", [-600.0, 0.0, 86400.0])
def test_a_process_of_another_machine_is_gone_when_it_is_silent_by_our_own_clock(tmp_path, monkeypatch, skew):
    monkeypatch.setattr(sharing, "EXPIRY_SECONDS", 0.2)
    store, digest = Store.open(tmp_path), "e" * 20
    mark = store.root / "tmp" / f"stairwise-{'0' * 12}-1-{'0' * 8}"
    (tmp_path / "reserved").mkdir()
    (tmp_path / "reserved" / digest).write_text(mark.name)
    mark.touch()
    with Reservations(store) as reservations:
        for beat in range(4):  # alive: its mark changes, whatever its clock says
            os.utime(mark, (0, time.time() + skew + beat))
            assert reservations.take([digest]) == []
            time.sleep(0.1)
        time.sleep(0.2)
        assert reservations.take([digest]) == [digest]


def test_a_reservation_that_was_killed_before_it_was_signed_expires_too(tmp_path, monkeypatch):
    monkeypatch.setattr(sharing, "EXPIRY_SECONDS", 0.1)
    store, digest = Store.open(tmp_path), "f" * 20
    (tmp_path / "reserved").mkdir()
    (tmp_path / "reserved" / digest).touch()
    with Reservations(store) as reservations:
        assert reservations.take([digest]) == []
        time.sleep(0.15)
        assert reservations.take([digest]) == [digest]


def test_a_reservation_with_any_bit_changed_expires_too(tmp_path, monkeypatch):
    monkeypatch.setattr(sharing, "EXPIRY_SECONDS", 0.0)
    store, path = Store.open(tmp_path), tmp_path / "reserved" / ("f" * 20)
    with Reservations(store) as first:
        first.take([path.name])
        whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :])
        with Reservations(store) as reservations:
            reservations.take([path.name])  # hears of it for the first time, or knows that it is nobody's
            assert reservations.take([path.name]) == [path.name]
        assert not path.exists()


def test_whoever_takes_over_second_gives_back_what_the_first_has_reserved(tmp_path):
    store, digest = Store.open(tmp_path), "a" * 20
    with Reservations(store) as first, Reservations(store) as second:
        assert first.take([digest]) == [digest]
        assert not second._removed(second.folder / digest, scratch_name())  # it saw a dead owner there, a moment ago
        assert second.take([digest]) == []


# --- sharing the work -------------------------------------------------------------------------------------------------


@pytest.fixture
def slow_trials(monkeypatch):
    """Programs that take a moment; the seeds that they ran."""
    run, ran = Program.run, []

    def slowly(self, members, hooks=None):
        time.sleep(0.1)
        ran.extend(member.seed for member in members)
        return run(self, members, hooks)

    monkeypatch.setattr(Program, "run", slowly)
    monkeypatch.setattr(sharing, "LOOK_SECONDS", 0.05)
    return ran


@pytest.mark.parametrize("width", [1, 4])
def test_two_equal_runs_on_one_store_share_the_trials(tmp_path, slow_trials, width):
    store, trials = Store.open(tmp_path / "both"), WALK.trials("quick", range(12), {"rate": 0.1})
    results: list[tuple[int, int]] = []

    def work() -> None:
        results.append(execute(trials, store, width=width))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(slow_trials) == list(range(12))  # each once
    assert sum(here for here, _ in results) == 12
    assert all(here and here + meanwhile == 12 for here, meanwhile in results)
    execute(trials, Store.open(tmp_path / "one"), width=width)
    assert contents(store) == contents(Store.open(tmp_path / "one"))


def test_a_trial_waits_for_what_it_starts_from_while_another_process_runs_that(tmp_path, slow_trials, monkeypatch):
    monkeypatch.setattr(sharing, "PATIENCE_SECONDS", 0.1)
    store, heard = Store.open(tmp_path), Heard()
    (trial,) = ONWARD.trials("quick", [5])
    needed = trial.needs["first"]
    with Reservations(store) as other:
        assert other.take([needed.digest])
        thread = threading.Thread(target=execute, args=([trial], store), kwargs={"progress": heard, "width": 1})
        thread.start()
        deadline = time.monotonic() + 20
        while not heard.warnings and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.2)
        assert not slow_trials
    thread.join()
    assert heard.warnings == [f"waiting for 2 trials that other processes are running (process {os.getpid()})"]
    assert store.has(trial)


def test_a_run_that_is_stopped_or_fails_gives_its_trials_back(tmp_path, monkeypatch):
    def broken(self, members, hooks=None):
        raise ValueError("no")

    monkeypatch.setattr(Program, "run", broken)
    with pytest.raises(ValueError, match="no"):
        execute(WALK.trials("quick", [0]), Store.open(tmp_path), width=1)
    assert not list((tmp_path / "reserved").iterdir())


def test_work_that_is_taken_up_again_is_handed_out_again(tmp_path):
    store, trials = Store.open(tmp_path), WALK.trials("quick", range(2), {"rate": 0.1})
    with Reservations(store) as reservations:
        work = Work(trials, reservations, store.has, 2, Heard())
        (first, again) = work.next(), work.next()
        assert first is not None
        assert again is None
        work.restart()
        assert work.next() == first


def test_a_shard_in_python_is_checked_as_on_the_command_line(tmp_path):
    with pytest.raises(ConfigError, match="shard=2/1 must be"):
        sw.run(WALK, store=Store.open(tmp_path), shard="2/1")
