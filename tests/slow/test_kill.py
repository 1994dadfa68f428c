"""Commands that are killed or interrupted leave no process, and no file that the next of them does not remove."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest

from stairwise.lab.store import Store
from tests.report.tiny import RUN, outcome
from tests.slow.drawing import PAPER

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def _answer_signals() -> None:
    """Tests that run in the background ignore these, and so would what they start."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def start(*words: str, module: str = "stairwise", **environment: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", module, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
        start_new_session=True,
        preexec_fn=_answer_signals,
    )


def eventually(true, seconds: float = 60.0) -> bool:
    deadline = time.monotonic() + seconds
    while not true() and time.monotonic() < deadline:
        time.sleep(0.02)
    return bool(true())


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] != "Z"


@pytest.fixture
def drawing(tmp_path):
    """A report whose figures are being drawn, and the processes that draw them."""
    store, marks = Store.open(tmp_path / "store"), tmp_path / "marks"
    for trial in PAPER.experiment("walk").trials("quick"):
        store.write(trial, outcome(trial), RUN)
    marks.mkdir()
    words = ["report", "--store", str(store.root), "--out", str(tmp_path / "out")]
    process = start(*words, module="tests.slow.drawing", DRAWING=str(marks))
    try:
        assert eventually(lambda: len(os.listdir(marks)) > 1), process.poll()
        yield process, [int(name) for name in os.listdir(marks)]
    finally:
        for pid in (process.pid, *map(int, os.listdir(marks))):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.communicate()


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one core draws in one process")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_no_drawing_process_outlives_a_report_that_is_ended(drawing, number):
    process, drawers = drawing
    assert all(map(alive, drawers))
    began = time.monotonic()
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # as a terminal does
    else:
        process.send_signal(number)
    err = process.communicate(timeout=10)[1]
    assert time.monotonic() - began < 2.0
    assert eventually(lambda: not any(map(alive, drawers)), 5.0)
    assert "Traceback" not in err
    assert "resource_tracker" not in err
    if number in (signal.SIGINT, signal.SIGTERM):
        assert process.returncode == 128 + number


def test_the_next_command_removes_what_a_killed_one_left_beside_its_file(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    process = start("data", "lego", "-n", "3000000", "-o", str(out / "x.jsonl"))
    assert eventually(lambda: any(out.iterdir()))
    process.kill()
    process.communicate()
    (left,) = out.iterdir()
    assert left.name.startswith(".stairwise-")
    done = start("data", "lego", "-n", "10", "-o", str(out / "y.jsonl"))
    assert (done.communicate()[1], done.returncode) == ("", 0)
    assert [path.name for path in out.iterdir()] == ["y.jsonl"]


COMMANDS = {
    "list": ["list"],
    "doctor": ["doctor"],
    "reproduce": ["reproduce", "--out", "report"],
    "query": ["query", "select count(*) from range(100000000000) a, range(1000) b"],
    "eval": ["eval", "lego", "--model", "nowhere"],
}


@pytest.mark.parametrize("seconds", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("name", COMMANDS)
def test_ctrl_c_ends_any_command_within_two_seconds_without_a_traceback(tmp_path, monkeypatch, name, seconds):
    monkeypatch.chdir(tmp_path)
    process = start(*COMMANDS[name])
    time.sleep(seconds)
    if process.poll() is not None:
        pytest.skip("it was over by then")
    began = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)
    err = process.communicate(timeout=20)[1]
    assert time.monotonic() - began < 2.0
    assert process.returncode in (130, -signal.SIGINT), err  # the latter while the interpreter ends
    assert "Traceback" not in err
    if process.returncode < 0:
        return
    assert err.endswith("stairwise: stopped\n") or "Go on with: stairwise" in err
