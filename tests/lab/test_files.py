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
