"""Running benches: one process, one machine, one row after another, each written down as soon as it is there."""

import importlib
import importlib.util
import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from benchmarks import BENCHES, USUAL
from benchmarks.row import Job, Row, Settings, first_line
from stairwise.config import ConfigError
from stairwise.extras import missing

MISSING = missing("stairwise bench", "bench")
ONE_CORE = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"


def chosen(names: Sequence[str], device: str = "cpu") -> list[str]:
    """The benches that were named; all of the usual ones where none was, and on a GPU `seeds` too."""
    for name in names:
        if name not in BENCHES:
            raise ConfigError(f"bench={name} must be one of {', '.join(BENCHES)}")
    return list(dict.fromkeys(names)) or [*USUAL, *(["seeds"] if device == "gpu" else [])]


def check(settings: Settings) -> None:
    """Bad input is refused before JAX or PyTorch is imported."""
    check_repeats(settings.repeats)
    if importlib.util.find_spec("torch") is None:
        raise ConfigError(MISSING)


def check_repeats(repeats: int) -> None:
    if not 1 <= repeats <= 1000:
        raise ConfigError(f"repeats={repeats} must lie in 1..1000")


def own_core(device: str) -> None:
    """Before JAX is imported: a CPU means one core of it and one thread, and a GPU's memory is taken as needed."""
    if device == "cpu":
        os.environ["JAX_PLATFORMS"] = "cpu"
        flags = os.environ.get("XLA_FLAGS", "")
        if "xla_cpu_multi_thread_eigen" not in flags:  # the user's word counts
            os.environ["XLA_FLAGS"] = f"{flags} {ONE_CORE}".strip()
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # leaves room for PyTorch


def prepare(settings: Settings) -> dict[str, Any]:
    """Set both libraries up alike, before either is imported, and say what they run on.

    CPU: one core and one thread for both. GPU: both may round factors of float32 products (TF32), which is JAX's way.
    """
    own_core(settings.device)
    import jax
    import torch

    from stairwise.lab.run.execute import device, prepare_jax

    prepare_jax()
    torch.manual_seed(0)
    if settings.device == "cpu":
        torch.set_num_threads(1)
    elif device()["platform"] == "cpu" or not torch.cuda.is_available():
        raise ConfigError("device=gpu needs a GPU that both JAX and PyTorch see")
    else:
        torch.set_float32_matmul_precision("high")
    versions = {"python": platform.python_version(), "jax": jax.__version__, "torch": torch.__version__}
    return {"device": device(), "cores": 1 if settings.device == "cpu" else os.cpu_count(), "versions": versions}


def jobs(names: Sequence[str], settings: Settings) -> Iterator[tuple[str, Job]]:
    """Each bench's jobs; the modules are looked up by name, so that nothing is imported that was not asked for."""
    for name in names:
        for module in BENCHES[name]:
            for job in importlib.import_module(module).jobs(settings):
                yield name, job


def rows(names: Sequence[str], settings: Settings, limit: float | None = None) -> Iterator[Row]:
    """One row after another; a job that fails is a row that says so, and so is one that would begin after the limit."""
    began = time.monotonic()
    for name, job in jobs(names, settings):
        if limit is not None and time.monotonic() - began > limit:
            yield Row(name, job.work, failure=f"not begun: the limit of {limit:g} s was over")
        else:
            yield protected(name, job, settings)


def protected(name: str, job: Job, settings: Settings) -> Row:
    import jax
    import torch

    from benchmarks.accelerator import memory

    def precise(call: Callable[[], Any]) -> Any:
        with jax.enable_x64(job.precision == 64):
            return call()

    torch.compiler.reset()  # what was compiled for other sizes must not make this one slower
    try:
        made = precise(partial(job.make, settings))
    except Exception as error:
        return Row(name, job.work, failure=f"{type(error).__name__}: {first_line(error)}")
    timed = made.timed and made.timed._replace(call=partial(precise, made.timed.call))
    return replace(made, facts={**made.facts, **memory()}, timed=timed)


@dataclass
class Findings:
    """The rows of a run so far, and what they were made with."""

    machine: dict[str, Any]
    settings: Settings
    rows: list[Row] = field(default_factory=list)
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        facts = {"machine": self.machine, "settings": vars(self.settings), "seconds": round(self.seconds, 1)}
        return facts | {"rows": [row.as_dict() for row in self.rows]}


def collect(names: Sequence[str], settings: Settings, limit: float | None = None) -> Iterator[Findings]:
    """What is known after each row; on a GPU once more at the end, with the share of the time that it waits.

    That takes a profiler, which may leave every later launch slower: so it is switched on after all rows.
    """
    found = Findings(prepare(settings), settings)
    began = time.monotonic()
    for row in rows(names, settings, limit):
        found.rows.append(row)
        found.seconds = time.monotonic() - began
        yield found
    if settings.device == "gpu":
        from benchmarks.accelerator import waiting_share

        found.rows = [replace(row, facts={**row.facts, **waiting_share(row)}) for row in found.rows]
        found.seconds = time.monotonic() - began
        yield found
