"""Crashes, races and full disks: the store holds complete trials or none."""

import itertools
import os
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from stairwise.lab.store import store
from stairwise.lab.store.files import StoreError
from stairwise.lab.store.store import Store
from tests.lab.tiny import FILES, RUN, outcome, scratch, trial

REPOSITORY = Path(__file__).parents[2]


class Crash(BaseException):
    """The process ends here."""


def crash_at(monkeypatch, step: int, after: bool, fault: BaseException) -> list[str]:
    """Lets the calls that touch the disk through up to the given one, which fails before or after its effect.

    Gives the list of calls, which grows as they are made.
    """
    calls: list[str] = []

    def failing(name: str):
        real = getattr(os, name)

        def call(*arguments, **more):
            calls.append(name)
            now = len(calls) == step + 1
            if now and not after:
                raise fault
            result = real(*arguments, **more)
            if now:
                raise fault
            return result

        return call

    for name in ("fsync", "rename", "mkdir"):
        monkeypatch.setattr(os, name, failing(name))
    if isinstance(fault, Crash):  # the dead do not clean up
        monkeypatch.setattr(store, "remove", lambda path: None)
    return calls


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("fault", [Crash(), OSError(5, "Input/output error")], ids=["crash", "error"])
def test_a_write_that_ends_at_any_step_leaves_a_complete_trial_or_none(tmp_path, monkeypatch, fault, after):
    for step in itertools.count():
        opened = Store.open(tmp_path / str(step))
        with monkeypatch.context() as patched:
            calls = crash_at(patched, step, after, fault)
            with suppress(Crash, StoreError):
                opened.write(trial(0), outcome(0), RUN)
        if len(calls) <= step:
            break
        assert opened.damaged() == []
        assert [record.digest for record in opened.trials()] in ([], [trial(0).digest])
        assert isinstance(fault, Crash) or scratch(opened) == []
        opened.write(trial(0), outcome(0), RUN)
        assert opened.read(trial(0)).final("accuracy") == 0.8
    assert calls[:6] == ["mkdir"] + 5 * ["fsync"]  # the four files and their folder are on the disk
    assert calls[-2:] == ["rename", "fsync"]  # before the name is given, which then lasts


def code(number: int) -> dict:
    return RUN | {"source_hash": str(number) * 64}


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("fault", [Crash(), OSError(5, "Input/output error")], ids=["crash", "error"])
def test_a_replacement_that_ends_at_any_step_leaves_the_old_trial_or_the_new_one(tmp_path, monkeypatch, fault, after):
    found = set()
    for step in itertools.count():
        place = tmp_path / str(step)
        Store.open(place).write(trial(0), outcome(0), code(1))
        with monkeypatch.context() as patched:
            calls = crash_at(patched, step, after, fault)
            with suppress(Crash, StoreError):
                Store(place).write(trial(0), outcome(0), code(2))
        reader = Store.open(place, create=bool(step % 2))  # whoever opens it next, to read or to write
        (record,) = reader.trials()
        record.check()
        found.add(record.run["source_hash"][0])
        assert reader.damaged() == []
        opened = Store.open(place)
        opened.write(trial(0), outcome(0), code(2))
        assert opened.read(trial(0)).run["source_hash"] == code(2)["source_hash"]
        assert list(place.glob("replaced/*")) == []
        if len(calls) <= step:
            break
    assert found == {"1", "2"}


REPLACE_FOR_EVER = """
store = Store.open(sys.argv[1])
for number in range(10**6):
    store.write(trial(0), outcome(0, 2_000), RUN | {"source_hash": f"{number + int(sys.argv[2]):064d}"})
    if number == 0:
        print("begun", flush=True)
"""


def test_a_process_killed_while_it_replaces_a_trial_leaves_one(tmp_path):
    Store.open(tmp_path).write(trial(0), outcome(0, 2_000), code(1))
    seen = set()
    for attempt in range(6):
        process = child(REPLACE_FOR_EVER, tmp_path, 10_000 * (attempt + 1))
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.05 + 0.037 * attempt)
        process.kill()
        process.wait()
        (record,) = Store.open(tmp_path, create=False).trials()
        record.check()
        seen.add(record.run["source_hash"])
    assert len(seen) == 6
    assert Store.open(tmp_path).damaged() == []


def child(code: str, *arguments: object) -> subprocess.Popen[str]:
    lines = "import sys, os, time\nfrom stairwise.lab.store.store import Store\nfrom tests.lab.tiny import *\n" + code
    command = [sys.executable, "-c", lines, *map(str, arguments)]
    return subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)


WRITE_FOR_EVER = """
store = Store.open(sys.argv[1])
for seed in range(int(sys.argv[2]), 10**6):
    store.write(trial(seed), outcome(seed, 20_000), RUN)
    store.checkpoint(trial(0).digest).save(outcome(seed, 20_000).arrays, {"seed": seed})
    print(seed, flush=True)
"""


def test_after_kill_9_every_listed_trial_verifies_and_no_reported_one_is_lost(tmp_path):
    opened, done = Store.open(tmp_path / "store"), set()
    for attempt in range(3):
        process = child(WRITE_FOR_EVER, opened.root, 1000 * attempt)
        assert process.stdout is not None
        done |= {int(process.stdout.readline()) for _ in range(5)}
        time.sleep(0.0137 * attempt)
        process.kill()
        done |= {int(line) for line in process.stdout}
        process.wait()
    assert opened.damaged() == []
    assert done <= {record.seed for record in opened.trials()} <= done | {seed + 1 for seed in done}
    loaded = opened.checkpoint(trial(0).digest).load()
    assert loaded is not None
    assert loaded[0]["count"] == loaded[1]["seed"]
    Store.open(opened.root)
    assert scratch(opened) == []


WRITE_TOGETHER = """
store = Store.open(sys.argv[1])
print("ready", flush=True)
while not os.path.exists(sys.argv[2]):
    time.sleep(0.001)
for seed in range(25):
    store.write(trial(seed), outcome(seed), {**RUN, "device": sys.argv[3]})
"""


def test_processes_that_write_and_repair_the_same_trials_leave_each_exactly_once(tmp_path):
    opened = Store.open(tmp_path / "store")
    for seed in range(0, 25, 2):
        (opened.write(trial(seed), outcome(seed), RUN) / "metrics.parquet").write_bytes(b"broken")
    writers = [child(WRITE_TOGETHER, opened.root, tmp_path / "go", name) for name in ("a", "b", "c")]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    (tmp_path / "go").touch()
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    assert sorted(record.seed for record in opened.trials()) == list(range(25))
    assert opened.damaged() == []
    assert scratch(opened) == []
    assert len(list((opened.root / "damaged").glob("*/tiny/walk/*"))) == 13
    here = Store.open(tmp_path / "here").write(trial(7), outcome(7), RUN)
    for name in FILES[:3]:  # another process, the same bytes
        assert (here / name).read_bytes() == (opened.read(trial(7)).path / name).read_bytes()


# --- disks ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path):
    """A disk of one megabyte."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("needs the right to mount a small tmpfs")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_is_one_line_with_exit_status_1_and_leaves_nothing_behind(small_disk):
    opened = Store.open(small_disk / "store")
    with pytest.raises(StoreError) as caught:
        opened.write(trial(0), outcome(0, floats=400_000), RUN)
    assert caught.value.exit_status == 1
    assert str(caught.value) == f"cannot store trial {trial(0).digest} in {opened.root}: No space left on device"
    assert [path for path in opened.root.rglob("*") if path.is_file()] == []
    assert scratch(opened) == []
    opened.write(trial(0), outcome(0), RUN)
    assert opened.has(trial(0))


def test_a_disk_that_fills_up_keeps_every_trial_that_was_stored(small_disk):
    opened = Store.open(small_disk / "store")
    stored = []
    with suppress(StoreError):
        for seed in range(100):
            opened.write(trial(seed), outcome(seed, floats=30_000), RUN)
            stored.append(seed)
    assert 3 <= len(stored) < 100
    assert sorted(record.seed for record in opened.trials()) == stored
    assert opened.damaged() == []
    checkpoint = opened.checkpoint("0123456789")
    with pytest.raises(StoreError, match=r"cannot write checkpoint .*: No space left on device"):
        checkpoint.save({"state": np.zeros(200_000, dtype=np.float32)}, {})
    assert checkpoint.load() is None
    assert scratch(opened) == []


def test_a_read_only_disk_can_be_read_and_is_one_line_with_exit_status_2_to_a_writer(small_disk):
    Store.open(small_disk / "store").write(trial(0), outcome(0), RUN)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    assert [record.seed for record in Store.open(small_disk / "store", create=False).trials()] == [0]
    for place in ("store", "new"):
        with pytest.raises(StoreError, match=r"cannot use the store .*: Read-only file system") as caught:
            Store.open(small_disk / place)
        assert caught.value.exit_status == 2
