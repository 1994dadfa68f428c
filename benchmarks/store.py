"""A store of many trials, written by the store's own writer: time and memory of `list`, `runs` and a query.

The commands run as a user runs them, the start of Python included; nothing in PyTorch is comparable.
"""

import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.row import Job, Row, Settings, Work, contest
from stairwise.lab import registry
from stairwise.lab.contract.experiment import Trial
from stairwise.lab.run import grid
from stairwise.lab.store.store import Store
from stairwise.train.stage import Outcome

TARGET = "selection/online"
GROUP_BY = (
    "select learning_rate, arm, count(*) as points, median(value) as middle from metrics join trials using (digest) "
    "where name = 'loss' group by all order by all"
)
COMMANDS = {"list": ["list"], "runs": ["runs"], "query": ["query", GROUP_BY], "version": ["--version"]}
MAKING = {"device": {"platform": "cpu", "kind": "cpu", "count": 1}, "group_width": 1, "precision": 32}


def outcome(trial: Trial) -> Outcome:
    """Thirty looks at eight metrics, and weights of the usual size."""
    made, draws = Outcome(), np.random.default_rng(trial.seed)
    for step in range(0, 1500, 50):
        made.add(
            "train", step, {"loss": 1 / (step + 1 + trial.seed), **{f"loss {k}": draws.random() for k in range(7)}}
        )
    made.arrays = {"train/W": draws.normal(size=(53, 53)).astype(np.float32)}
    return made


def fill(root: Path, count: int) -> Store:
    """A store of `count` trials of a sweep over learning rates and seeds, and the run that asked for them.

    Nothing is forced to the disk: what is measured is reading.
    """
    experiment, store = registry.experiment(TARGET), Store.open(root)
    axes = grid.axes(experiment.preset("quick").config, {"learning_rate": "0.01:1:log10"})
    trials = grid.trials(experiment, "quick", axes, range(-(-count // 20)))[:count]
    fsync, os.fsync = os.fsync, lambda descriptor: None
    try:
        for k, trial in enumerate(trials):
            timing = {"started": 1.7e9 + k, "seconds": 0.5, "seconds_per_trial": 0.5}
            store.write(trial, outcome(trial), MAKING | {"source_hash": "0" * 64, "timing": timing})
    finally:
        os.fsync = fsync
    digests = [trial.digest for trial in trials]
    run = {"experiment": TARGET, "preset": "quick", "command": "stairwise sweep", "started": 1.7e9, "seconds": 5e3}
    store.write_run({**run, "trials": digests})
    return store


MEASURED = """
import sys, time
began = time.perf_counter()
from stairwise.cli import main
status = main(sys.argv[1:])
seconds = time.perf_counter() - began
assert status == 0 and "jax" not in sys.modules
peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(seconds, int(peak) / 1024, file=sys.stderr)
"""


def measure(root: Path, words: list[str]) -> tuple[float, float]:
    """Seconds, with the start of Python, and peak megabytes of one command in a process of its own."""
    began = time.perf_counter()
    store = [] if words == ["--version"] else ["--store", str(root)]
    command = [sys.executable, "-c", MEASURED, *words, *store]
    done = subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    return time.perf_counter() - began, float(done.stderr.split()[-1])


def row(name: str, settings: Settings) -> Row:
    trials = 50 if settings.tiny else 10_000
    with tempfile.TemporaryDirectory() as temporary:
        store = fill(Path(temporary) / "store", trials)
        time.sleep(1.1)  # younger files are not entered
        store.index().refresh()
        megabytes = measure(store.root, COMMANDS[name])[1]
        named = Row("store", f"{name} with {trials} trials", unit="command", facts={"peak MB": megabytes})
        return contest(settings, named, Work(partial(measure, store.root, COMMANDS[name])))


def jobs(settings: Settings) -> list[Job]:
    return [Job(f"{name} with many trials", partial(row, name)) for name in COMMANDS]
