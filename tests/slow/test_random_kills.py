"""A hundred SIGKILLs at random moments of every command that writes: in the end all is as if there had been none."""

import os
import random
import shutil
import signal
import subprocess
import time
import uuid
from contextlib import suppress
from pathlib import Path

import pytest

from stairwise.lab.store.store import Store
from tests.slow.processes import eventually, start, table, with_misbehaving

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
pytest.importorskip("distributed")
pytest.importorskip("cryptography")
psutil = pytest.importorskip("psutil")

SIZES = ["--seeds", "2", "--steps", "30000", "--save-every", "0.1"]
SWEEP = ["sweep", "misbehaving/walk", "--grid", "rate=0.1:0.4:0.1", *SIZES]
COMMANDS = {
    "run": ["run", "misbehaving/walk", "--rate", "0.2", *SIZES],
    "sweep": SWEEP,
    "cluster": [*SWEEP, "--cluster", "local:2"],  # the scheduler is in the same process
    "worker": [*SWEEP, "--cluster", "local:2"],  # of which a worker is killed
    "report": ["report", "--out", "report"],
    "gc": ["gc", "--yes"],
    "data": ["data", "parity_chain", "-n", "5000", "-o", "examples.jsonl"],
    "export": ["export", "parity_cot/thm1", "-o", "model"],
    "verify": ["verify", "parity_cot/thm1"],
    "record": [
        "record",
        "add",
        "misbehaving/walk",
        "--preset",
        "quick",
        "--rate",
        "0.2",
        *SIZES[:4],
        "--to",
        "published",
    ],
}
KILLS = {"run": 20, "sweep": 8, "cluster": 4, "worker": 3, "report": 3, "gc": 20, "data": 18, "export": 10, "verify": 6}
KILLS |= {"record": 8}
FINISH = ("cluster", "verify", "export", "data", "record", "report", "gc")  # in this order all of it is done
MARK = "STAIRWISE_RANDOM_KILLS"


class Place:
    """A folder in which commands are run, with everything that they may write to."""

    def __init__(self, folder: Path, environment: dict[str, str]):
        self.folder, self.store = folder, folder / "store"
        (folder / "tmp").mkdir(parents=True)
        self.mark = uuid.uuid4().hex
        own = {"STAIRWISE_STORE": str(self.store), "TMPDIR": str(folder / "tmp"), MARK: self.mark}
        self.environment = environment | own

    def start(self, name: str):
        if name == "export":
            shutil.rmtree(self.folder / "model", ignore_errors=True)  # it writes to a new folder only
        return start(*COMMANDS[name], cwd=self.folder, **self.environment)

    def finish(self, name: str) -> float:
        """Runs a command to its end; how many seconds that takes."""
        began = time.monotonic()
        end(self.start(name))
        return time.monotonic() - began

    def processes(self) -> list[int]:
        """Everything alive that was started here, and what that has started."""
        mark, found = f"{MARK}={self.mark}".encode(), []
        for process in psutil.process_iter():
            try:
                if (
                    process.status() != psutil.STATUS_ZOMBIE
                    and mark in Path(f"/proc/{process.pid}/environ").read_bytes()
                ):
                    found.append(process.pid)
            except (OSError, psutil.Error):
                continue
        return found

    def files(self) -> set[str]:
        """The names of all files; runs have names of their own."""
        names = {str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if not path.is_dir()}
        return {name for name in names if not name.startswith("store/runs/")}


def end(process) -> None:
    said = process.communicate(timeout=120)
    assert process.returncode == 0, (process.args, said)


def kill(place: Place, name: str, seconds: float) -> bool:
    """Kills the command, or one of its workers, after some seconds; whether it was still at work."""
    process = place.start(name)
    with suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    if name == "worker":
        workers = [pid for pid in place.processes() if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        if workers:
            os.kill(max(workers), signal.SIGKILL)
        end(process)  # it does without
        return bool(workers)
    process.kill()
    said = process.communicate()
    refused = (2,) if name == "record" else ()  # where trials are still missing
    assert process.returncode in (0, -signal.SIGKILL, *refused), said
    return process.returncode < 0


def test_after_a_hundred_kills_at_random_moments_everything_is_as_without(tmp_path):
    assert sum(KILLS.values()) == 100
    environment, chance = with_misbehaving(tmp_path / "installed"), random.Random(20261116)
    quiet, place = Place(tmp_path / "quiet", environment), Place(tmp_path / "disturbed", environment)
    quiet.finish("run")  # compiles the program
    shutil.rmtree(quiet.store)
    seconds = {name: quiet.finish(name) for name in ("run", *FINISH)}
    seconds |= {"sweep": seconds["run"] + 1.0, "worker": seconds["cluster"]}
    expected, left = table(quiet.store), dict(KILLS)
    assert len(expected) == 8
    while left:
        name = chance.choices(list(left), list(left.values()))[0]
        killed = kill(place, name, chance.uniform(0.0, seconds[name]))
        assert eventually(lambda: not place.processes(), 15.0), name  # none outlives it
        found = table(place.store)  # none is half there
        assert found.items() <= expected.items(), name  # none is altered
        if killed:
            left = {each: count - (each == name) for each, count in left.items() if count > (each == name)}
        if found == expected:  # nothing is left to disturb: once more
            shutil.rmtree(place.store)
    for name in FINISH:
        place.finish(name)
    assert table(place.store) == expected
    assert place.files() == quiet.files()
    assert not [name for name in quiet.files() if "/.stairwise-" in f"/{name}"]
    for name in (
        "examples.jsonl",
        ".examples.jsonl.header",
        *(f"model/{each}" for each in os.listdir(quiet.folder / "model")),
    ):
        assert (place.folder / name).read_bytes() == (quiet.folder / name).read_bytes(), name
    assert [run.seconds is None for run in Store.open(place.store).runs()].count(False) >= 1
