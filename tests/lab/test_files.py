"""What is written outside the store: whole or absent, and nothing of a dead process is left beside it."""

import os
import subprocess
import sys
import time

import pytest

from stairwise.config import ConfigError
from stairwise.lab.store import files


@pytest.fixture
def left(tmp_path) -> dict[str, str]:
    """Hidden files as several processes leave them beside a file."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    mine = files.scratch_name()
    machine = mine.split("-")[1]
    names = {
        "dead": f".stairwise-{machine}-{child.pid}-00000000",
        "alive": f".{mine}",
        "elsewhere": f".stairwise-{'0' * 12}-{child.pid}-00000000",
        "long ago": f".stairwise-{'0' * 12}-1-11111111",
        "stranger": ".stairwise-notes",
    }
    for what, name in names.items():
        (tmp_path / name).write_text(what)
        if what in ("alive", "long ago", "stranger"):
            os.utime(tmp_path / name, (0, time.time() - 2 * 3600))
    return names


def test_a_write_removes_what_the_dead_left_beside_it_and_nothing_else(tmp_path, left):
    files.replace_file(tmp_path / "new.txt", b"new")
    kept = {"new.txt", *(left[what] for what in ("alive", "elsewhere", "stranger"))}
    assert set(os.listdir(tmp_path)) == kept
    assert (tmp_path / "new.txt").read_bytes() == b"new"


def test_a_write_that_fails_leaves_the_old_file_and_nothing_beside_it(tmp_path):
    (tmp_path / "file").write_text("old")
    with pytest.raises(FileExistsError), files.replacing(tmp_path / "file") as temporary:
        temporary.write_text("half") and temporary.mkdir()
    assert os.listdir(tmp_path) == ["file"]
    assert (tmp_path / "file").read_text() == "old"


@pytest.mark.parametrize("name", ["x.gif", "no/x.pdf", f"{'deep/' * 1000}x.pdf", f"{'n' * 300}/x.pdf"])
def test_an_output_file_of_a_wrong_kind_or_in_no_folder_is_refused(name):
    with pytest.raises(ConfigError, match=r"must (end in \.pdf or \.png|lie in a folder that exists)"):
        files.output_file("out", name, (".pdf", ".png"))


def test_files_of_a_folder_are_all_on_the_disk_with_its_names_before_the_call_returns(tmp_path, monkeypatch):
    real, synced = os.fsync, []
    monkeypatch.setattr(os, "fsync", lambda number: (synced.append(os.fstat(number).st_ino), real(number)))
    contents = {"a": b"1", "b": b"", "c": bytes(2**20)}
    files.write_files(tmp_path, contents)
    assert {name: (tmp_path / name).read_bytes() for name in contents} == contents
    places = [tmp_path, *(tmp_path / name for name in contents)]
    assert sorted(synced) == sorted(place.stat().st_ino for place in places)


@pytest.mark.parametrize("fails", range(3))
def test_a_file_of_a_folder_that_cannot_be_put_on_the_disk_is_an_error(tmp_path, monkeypatch, fails):
    numbers = iter(range(3))

    def full(number):
        if next(numbers) == fails:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        files.write_files(tmp_path, {"a": b"1", "b": b"2"})
