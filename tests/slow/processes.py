"""What tests of disturbed processes share: how commands are started and waited for, and what a store holds."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from stairwise.lab.store.store import Store

REPOSITORY = Path(__file__).parents[2]


def with_misbehaving(folder: Path) -> dict[str, str]:
    """The environment of processes that have the misbehaving paper installed, and share compiled programs."""
    facts = folder / "site" / "misbehaving-1.0.dist-info"
    facts.mkdir(parents=True)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: misbehaving\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[stairwise.papers]\nmisbehaving = tests.slow.misbehaving:PAPER\n")
    paths = [str(facts.parent), str(REPOSITORY), str(REPOSITORY / "src"), os.environ.get("PYTHONPATH", "")]
    cache = str(folder / "cache")
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "JAX_COMPILATION_CACHE_DIR": cache}


def _answer_signals() -> None:
    """Tests that run in the background ignore these, and so would what they start."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def start(*words: str, module: str = "stairwise", cwd: Path | None = None, **environment: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", module, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
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
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def table(root: Path) -> dict[str, tuple]:
    """Every stored trial: how it ended, and the bytes of its three files that depend on nothing else."""
    store = Store.open(root, create=False)
    assert store.damaged() == []
    names = ("config.json", "metrics.parquet", "arrays.safetensors")
    return {
        record.digest: (record.status, record.run["message"], *((record.path / name).read_bytes() for name in names))
        for record in store.trials()
    }
