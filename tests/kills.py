"""SIGKILLs at random moments of every command that writes: in the end all is as if there had been none.

`python -m tests.kills 100 7` kills a hundred commands, their workers and their schedulers at moments drawn from seed 7
and prints what was killed. After each kill no process is left and no stored trial is half there or altered; after all
of them the commands are run once more, and store and files are those of a folder in which nothing was disturbed.
"""

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil

from stairwise.lab.store.store import Store
from tests.slow.processes import eventually, start, table, with_misbehaving

SIZES = ["--seeds", "2", "--steps", "30000", "--save-every", "0.1"]
SWEEP = ["sweep", "misbehaving/walk", "--grid", "rate=0.1:0.4:0.1", *SIZES]
PUBLISHED = ["misbehaving/walk", "--preset", "quick", "--rate", "0.2", *SIZES[:4], "--to", "published"]
COMMANDS = {
    "run": ["run", "misbehaving/walk", "--rate", "0.2", *SIZES],
    "sweep": SWEEP,
    "cluster": [*SWEEP, "--cluster", "local:2"],  # its scheduler is in the same process
    "worker": [*SWEEP, "--cluster", "local:2"],  # of which a worker is killed
    "scheduler": SWEEP,  # on a scheduler of its own, which is killed and started again
    "report": ["report", "--out", "report"],
    "gc": ["gc", "--yes"],
    "data": ["data", "parity_chain", "-n", "5000", "-o", "examples.jsonl"],
    "export": ["export", "parity_cot/thm1", "-o", "model"],
    "verify": ["verify", "parity_cot/thm1"],
    "record": ["record", "add", *PUBLISHED],
}
SHARES = {"run": 20, "sweep": 8, "cluster": 4, "worker": 3, "scheduler": 1, "report": 3, "gc": 20, "data": 18}
SHARES |= {"export": 10, "verify": 6, "record": 8}
FINISH = ("cluster", "verify", "export", "data", "record", "report", "gc")  # in this order all of it is done
DASK = ["-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--no-dashboard", "--port"]
WORKER = ["-m", "distributed.cli.dask_worker", "--nworkers", "1", "--nthreads", "1", "--no-dashboard", "--no-nanny"]
MARK = "STAIRWISE_RANDOM_KILLS"


class Place:
    """A folder in which commands are run, with everything that they may write to."""

    def __init__(self, folder: Path, environment: dict[str, str]):
        self.folder, self.store = folder, folder / "store"
        (folder / "tmp").mkdir(parents=True)
        self.mark = uuid.uuid4().hex
        own = {"STAIRWISE_STORE": str(self.store), "TMPDIR": str(folder / "tmp"), MARK: self.mark}
        self.environment = environment | own

    def start(self, name: str, *more: str) -> subprocess.Popen:
        if name == "export":
            shutil.rmtree(self.folder / "model", ignore_errors=True)  # it writes to a new folder only
        module = "tests.slow.few_papers" if name == "report" else "stairwise"
        return start(*COMMANDS[name], *more, module=module, cwd=self.folder, **self.environment)

    def beside(self, *words: str) -> subprocess.Popen:
        """Another program of Python, of which nobody reads what it says."""
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": self.folder / "tmp"}
        return subprocess.Popen([sys.executable, *words], env=self.environment, **quiet)

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
                ended = process.status() == psutil.STATUS_ZOMBIE
                if not ended and mark in Path(f"/proc/{process.pid}/environ").read_bytes():
                    found.append(process.pid)
            except (OSError, psutil.Error):
                continue
        return found

    def files(self) -> set[str]:
        """The names of all files; runs have names of their own."""
        names = {str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if not path.is_dir()}
        return {name for name in names if not name.startswith("store/runs/")}


def end(process: subprocess.Popen, statuses: tuple[int, ...] = (0,)) -> None:
    said = process.communicate(timeout=240)
    assert process.returncode in statuses, (process.args, said)
    assert "Traceback" not in said[1], (process.args, said)


def kill(place: Place, name: str, seconds: float) -> bool:
    """Kills the command, or one that works for it, after some seconds; whether it was still at work."""
    if name == "scheduler":
        return kill_scheduler(place, seconds)
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


def kill_scheduler(place: Place, seconds: float) -> bool:
    """Kills the scheduler of a sweep and its worker, and starts both again: the sweep goes on by itself."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    programs = [[*DASK, address.rpartition(":")[2]], [*WORKER, f"tcp://{address}"]]
    beside = [place.beside(*words) for words in programs]
    try:
        client = place.start("scheduler", "--cluster", f"tcp://{address}", "--cluster-timeout", "60")
        with suppress(subprocess.TimeoutExpired):
            client.wait(seconds)
        killed = client.poll() is None
        for process in beside:
            process.kill()
            process.wait()
        beside = [place.beside(*words) for words in programs] if killed else []
        end(client)
        return killed
    finally:
        for process in beside:
            process.kill()
            process.wait()
        shutil.rmtree(place.folder / "tmp", ignore_errors=True)  # Dask's own
        (place.folder / "tmp").mkdir()


def drawn(kills: int, chance: random.Random) -> list[str]:
    """What is killed: each kind once, where there is room, and then by its share."""
    names = [*SHARES, *chance.choices(list(SHARES), list(SHARES.values()), k=kills)][:kills]
    chance.shuffle(names)
    return names


def disturb(folder: Path, kills: int, seed: int, tell: Callable[[str], None] = lambda text: None) -> Counter[str]:
    """Kills that many times, asserts that nothing came of it, and says what was killed."""
    environment, chance = with_misbehaving(folder / "installed"), random.Random(seed)
    quiet, place = Place(folder / "quiet", environment), Place(folder / "disturbed", environment)
    quiet.finish("run")  # compiles the program
    shutil.rmtree(quiet.store)
    seconds = {name: quiet.finish(name) for name in ("run", *FINISH)}
    seconds |= {"sweep": seconds["run"] + 1.0, "worker": seconds["cluster"], "scheduler": seconds["cluster"]}
    expected, killed = table(quiet.store), Counter()
    assert len(expected) == 8
    for name in drawn(kills, chance):
        hit = False
        while not hit:  # until it was at work when the signal came
            moment = chance.uniform(0.0, seconds[name])
            hit = kill(place, name, moment)
            tell(f"{name} after {moment:.2f} s{'' if hit else ': had ended'}")
            seconds[name] *= 1.0 if hit else 0.7  # the machine is less busy than it was
            assert eventually(lambda: not place.processes(), 15.0), name  # none outlives it
            found = table(place.store)  # none is half there
            assert found.items() <= expected.items(), name  # none is altered
            if found == expected:  # nothing is left to disturb: once more
                shutil.rmtree(place.store)
        killed[name] += 1
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
    assert not place.processes()
    return killed


if __name__ == "__main__":
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as made:
        killed = disturb(Path(made), int(sys.argv[1]), int(sys.argv[2]), partial(print, flush=True))
    shown = ", ".join(f"{name} {count}" for name, count in sorted(killed.items()))
    print(f"{killed.total()} kills of seed {sys.argv[2]} ({shown}): nothing lost, altered or left behind", end="")
    print(f", {time.monotonic() - began:.0f} s")
