"""A store of many trials, written by the store's own writer: time and memory of `list`, `runs` and a query.

python -m benchmarks.store [--trials 10000] [--folder FOLDER]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from stairwise.lab import grid, registry
from stairwise.lab.contract import Outcome, Trial
from stairwise.lab.store import Store

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


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--trials", type=int, default=10_000)
    arguments.add_argument("--folder", help="keep the store here (default: a temporary folder)")
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(options.folder or temporary) / "store"
        began = time.perf_counter()
        store = Store.open(root) if root.exists() else fill(root, options.trials)
        print(f"{options.trials} trials written in {time.perf_counter() - began:.1f} s")
        time.sleep(1.1)  # younger files are not entered
        began = time.perf_counter()
        store.index().refresh()
        print(f"index made in {time.perf_counter() - began:.1f} s")
        found = {name: [measure(root, words) for _ in range(3)] for name, words in COMMANDS.items()}
        for name, rows in found.items():
            print(f"  {name:8} {min(row[0] for row in rows):6.2f} s   {max(row[1] for row in rows):7.1f} MB")
        print(json.dumps({"trials": options.trials, "seconds and megabytes": found}))


if __name__ == "__main__":
    main()
