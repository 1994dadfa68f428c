"""Commands that are killed or interrupted leave no process, and no file that the next of them does not remove."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from stairwise.lab.store.store import Store
from tests.report.tiny import RUN, outcome
from tests.slow.drawing import PAPER
from tests.slow.processes import alive, eventually, start

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


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


@pytest.mark.quiet
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
    assert sorted(path.name for path in out.iterdir()) == [".y.jsonl.header", "y.jsonl"]


COMMANDS = {
    "list": ["list"],
    "doctor": ["doctor"],
    "reproduce": ["reproduce", "--out", "report"],
    "query": ["query", "select count(*) from range(100000000000) a, range(1000) b"],
    "eval": ["eval", "lego", "--model", "nowhere"],
}


SCRIPT = Path(sys.executable).with_name("stairwise")


@pytest.mark.parametrize("reached", ["email", "stairwise.compiler", "stairwise.config"])
@pytest.mark.parametrize("command", [["-m", "stairwise"], [str(SCRIPT)]], ids=["module", "script"])
def test_ctrl_c_while_the_command_is_imported_prints_no_traceback(command, reached):
    if command == [str(SCRIPT)] and not SCRIPT.exists():
        pytest.skip("the command is not installed")
    words = [sys.executable, "-X", "importtime", *command, "list"]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    lines = iter(process.stderr.readline, "")  # one per module, when its import has ended
    assert any(line.endswith(f" {reached}\n") for line in lines)
    process.send_signal(signal.SIGINT)
    assert "Traceback" not in process.communicate(timeout=20)[1]
    assert process.returncode in (130, -signal.SIGINT)


@pytest.mark.quiet
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
