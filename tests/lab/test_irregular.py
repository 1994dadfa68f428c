"""Where a file of the store should be there is a pipe, a socket, a folder or a link to nothing: refused, never read."""

import os
import signal
import socket
from contextlib import suppress

import numpy as np
import pytest

from stairwise.cli import main
from stairwise.lab.run.execute import execute
from stairwise.lab.store import segment
from stairwise.lab.store.files import StoreError
from stairwise.lab.store.query import query
from stairwise.lab.store.store import Store
from stairwise.report.site.folder import Folder
from tests.lab.tiny import FILES, RUN, outcome, run_record, trial
from tests.lab.walking import PAPER

KINDS = ("pipe", "socket", "folder", "link to nothing")


@pytest.fixture(autouse=True)
def never_for_ever():
    """A pipe that is opened blocks, and no Python code is run any more: the alarm ends the test."""
    before = signal.signal(signal.SIGALRM, lambda *_: pytest.fail("it waits for somebody who writes to the pipe"))
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def opened(tmp_path) -> Store:
    return Store.open(tmp_path / "store")


def put(path, kind: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileNotFoundError):
        path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        here = os.getcwd()
        os.chdir(path.parent)  # the address of a socket is short
        try:
            socket.socket(socket.AF_UNIX).bind(path.name)
        finally:
            os.chdir(here)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("nowhere")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FILES)
def test_a_trial_with_one_is_damaged_and_the_file_is_named(opened, name, kind):
    folder = opened.write(trial(0), outcome(0), RUN)
    put(folder / name, kind)
    why = "is missing" if kind == "link to nothing" else "is not a regular file"
    assert opened.damaged() == [(folder, f"{name} {why}")]
    assert opened.trials() == opened.glance() == []
    opened.write(trial(0), outcome(0), RUN)
    assert opened.has(trial(0))


@pytest.mark.parametrize("kind", KINDS)
def test_runs_and_verdicts_that_are_none_are_named_and_skipped(opened, kind):
    opened.write_verdict("tiny/thm1", "0123456789", {"status": "holds"})
    run = opened.root / "runs" / f"{opened.write_run(run_record(0))}.json"
    verdict = opened.root / "verdicts" / "tiny" / "thm1" / "0123456789.json"
    for path in (run, verdict):
        put(path, kind)
    assert (opened.runs(), opened.verdicts(), opened.read_verdict("tiny/thm1", "0123456789")) == ([], [], None)
    assert [path for path, _ in opened.damaged()] == [run, verdict]


@pytest.mark.parametrize("kind", KINDS)
def test_a_checkpoint_that_is_none_is_refused_by_name(opened, kind, capsys):
    place = opened.checkpoint("0123456789")
    put(place.path, kind)
    assert place.peek() is None
    if kind == "link to nothing":
        assert place.load() is None
        place.save({"state": np.zeros(3, dtype=np.float32)}, {"tick": 1})
        assert place.load()[1] == {"tick": 1}
        return
    with pytest.raises(StoreError, match=r"^\S*0123456789\.safetensors is not a regular file$"):
        place.load()
    assert main(["gc", "--yes", "--store", str(opened.root)]) == 0
    assert "0123456789.safetensors: not a checkpoint, left alone" in capsys.readouterr().out
    assert os.path.lexists(place.path)


@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_a_reservation_that_is_none_is_refused_by_name(opened, kind, capsys):
    wanted = PAPER.experiment("walk").trials("quick", [0])
    put(opened.root / "reserved" / wanted[0].digest, kind)
    with pytest.raises(StoreError, match=rf"^\S*reserved/{wanted[0].digest} is not a regular file$"):
        execute(wanted, opened, width=1)
    assert main(["gc", "--yes", "--store", str(opened.root)]) == 0
    assert f"{wanted[0].digest}: not a reservation, left alone" in capsys.readouterr().out
    assert os.path.lexists(opened.root / "reserved" / wanted[0].digest)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [segment.LINES, segment.TRIALS, segment.FINALS, segment.MEASUREMENTS])
def test_a_segment_of_the_index_with_one_is_made_anew(opened, monkeypatch, name, kind):
    pytest.importorskip("duckdb")
    monkeypatch.setattr("stairwise.lab.store.index.WORTH_WRITING", 1)
    monkeypatch.setattr("stairwise.lab.store.index.SETTLED_NS", -1)
    opened.write(trial(0), outcome(0), RUN)
    opened.index().refresh()
    [there] = (opened.root / "index").iterdir()
    put(there / name, kind)
    assert query(opened, "select count(*) as n, sum(value) as total from metrics where name = 'loss'").num_rows == 1
    assert query(opened, "select seed from trials").to_pylist() == [{"seed": 0}]
    [there] = (opened.root / "index").iterdir()
    assert (there / name).is_file()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["site.json", "page.html"])
def test_a_file_of_a_report_that_is_none_is_written_anew(tmp_path, name, kind):
    def build() -> Folder:
        folder = Folder(tmp_path / "out")
        folder.step("page", 1, lambda: ({"page.html": b"text"}, None))
        folder.close()
        return folder

    build()
    put(tmp_path / "out" / name, kind)
    if kind == "folder":
        with pytest.raises(StoreError, match="cannot write the report to"):
            build()
        return
    assert build().redone == ["page"]
    assert (tmp_path / "out" / name).is_file()
