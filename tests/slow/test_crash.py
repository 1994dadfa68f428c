"""A real run in its own process, killed, interrupted and starved: nothing is lost, nothing half-written believed."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stairwise.lab import registry
from stairwise.lab.contract import manifest
from stairwise.lab.store.store import Store

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

FIELDS = {"steps": "12000", "measure_every": "1000", "test_lengths": "30", "test_sparsities": "4"}
COMMAND = ["run", "selection/online", "--seeds", "1", "--save-every", "0.2"]
KILLS = 10


def start(store: Path, *more: str, env: dict[str, str] | None = None) -> subprocess.Popen:
    words = [word for name, value in FIELDS.items() if f"--{name}" not in more for word in (f"--{name}", value)]
    return subprocess.Popen(
        [sys.executable, "-m", "stairwise.cli", *COMMAND, *words, "--store", str(store), *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(env or {})},
    )


def trials():
    return registry.experiment("selection/online").trials("quick", [0], FIELDS)


def contents(store: Store) -> dict[str, bytes]:
    names = ("config.json", "metrics.parquet", "arrays.safetensors")
    return {f"{t.digest}/{name}": (store.read(t).path / name).read_bytes() for t in trials() for name in names}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> Path:
    """The store of a run that nobody touched."""
    place = tmp_path_factory.mktemp("undisturbed")
    process = start(place)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return place


def test_a_run_killed_at_random_moments_ends_with_the_same_bytes(undisturbed, tmp_path):
    chance = random.Random(20261115)
    kills = after_checkpoint = 0
    while kills < KILLS:
        process = start(tmp_path)
        if kills % 2:  # let every other one get as far as a checkpoint before its random moment begins
            deadline = time.monotonic() + 60
            while process.poll() is None and time.monotonic() < deadline:
                if list(tmp_path.glob("checkpoints/*")):
                    after_checkpoint += 1
                    break
                time.sleep(0.02)
        time.sleep(chance.uniform(0, 2.0))
        assert_only_complete_trials(tmp_path)
        if process.poll() is not None:
            break  # it got through
        process.send_signal(signal.SIGKILL)
        process.communicate()
        kills += 1
        assert_only_complete_trials(tmp_path)
    assert kills >= KILLS or all(Store.open(tmp_path).has(trial) for trial in trials())
    assert after_checkpoint >= 1
    process = start(tmp_path)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert contents(Store.open(tmp_path)) == contents(Store.open(undisturbed))
    assert not list(tmp_path.glob("checkpoints/*"))


def assert_only_complete_trials(root: Path) -> None:
    store = Store.open(root, create=False)
    assert store.damaged() == []
    for record in store.trials():
        record.check()


@pytest.mark.quiet
@pytest.mark.parametrize("seconds", [1.0, 2.5, 4.0, 7.0])
def test_ctrl_c_leaves_within_two_seconds_and_says_how_to_go_on(tmp_path, seconds):
    empty_cache = {"JAX_COMPILATION_CACHE_DIR": str(tmp_path / "cache")}  # so that the early ones hit a compile
    process = start(tmp_path / "store", "--steps", "100000000", env=empty_cache)
    time.sleep(seconds)
    assert process.poll() is None, process.communicate()[1]
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    _, err = process.communicate(timeout=30)
    assert time.monotonic() - began < 2.0
    assert process.returncode == 130
    assert "Go on with: stairwise run selection/online" in err
    assert "Traceback" not in err
    assert Store.open(tmp_path / "store", create=False).trials() == []


@pytest.mark.parametrize("file", ["config.json", "metrics.parquet", "arrays.safetensors", "run.json"])
def test_an_altered_file_is_named_and_its_trial_skipped(undisturbed, tmp_path, file, capsys, monkeypatch):
    from stairwise.cli import main

    monkeypatch.setattr(manifest, "built_in", lambda: ["selection"])  # whose published figures alone are drawn
    shutil.copytree(undisturbed, tmp_path, dirs_exist_ok=True)
    first = trials()[0]
    folder = tmp_path / "trials" / "selection" / "online" / first.digest
    data = bytearray((folder / file).read_bytes())
    data[len(data) // 2] ^= 1
    (folder / file).write_bytes(data)
    fresh = Store.open(tmp_path)
    assert not fresh.has(first)
    (path, why), *rest = fresh.damaged()
    assert rest == []
    assert path == folder
    assert file in why
    assert main(["runs", "--trials", "--json", "--store", str(tmp_path)]) == 0
    assert first.digest not in capsys.readouterr().out
    assert main(["figure", "selection/fig2", "--seeds", "1", "--store", str(tmp_path)]) == 2
    assert main(["report", "--store", str(tmp_path), "--out", str(tmp_path / "report")]) == 0
    assert first.digest in (tmp_path / "report" / "store.html").read_text()


def test_a_full_disk_is_one_line_and_leaves_nothing_half_written(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96k", "tmpfs", str(disk)], capture_output=True)
    if mounted.returncode:
        pytest.skip("a small tmpfs cannot be mounted here (needs root)")
    try:
        filler = disk / "filler"
        filler.write_bytes(b"x" * 60 * 1024)
        process = start(disk / "store", "--steps", "200", "--measure_every", "100")
        out, err = process.communicate(timeout=120)
        assert process.returncode == 1
        assert out == ""
        assert [line for line in err.splitlines() if line.startswith("stairwise:")] == err.splitlines()[-1:]
        assert "space" in err
        store = Store.open(disk / "store", create=False)
        assert store.trials() == []
        assert store.damaged() == []
        assert [run.seconds for run in store.runs()] in ([], [None])  # on record from its start, where there was room
        left = [path for path in (disk / "store").rglob("*") if path.is_file() and path.parent.name != "runs"]
        assert all(store.checkpoint(path.stem).load() is not None for path in left)  # whole checkpoints at most
        filler.unlink()
        again = start(disk / "store", "--steps", "200", "--measure_every", "100")
        assert again.wait(timeout=120) == 0  # with room it goes on
    finally:
        subprocess.run(["umount", str(disk)], check=True)
