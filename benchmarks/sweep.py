"""Many small trials: a sweep in few programs against a loop over trials in PyTorch.

A trial is a training of sparse token selection at small sizes (T=24, q=3, d=5, d_e=48), data included; trials differ in
seed and learning rate. On a CPU the whole command is timed, start of Python and compiling included, against trainings
alone in a PyTorch process that is warm. On a GPU: a step of one model at 1, 64 and 256 models in one program, against
PyTorch, one model at a time.
"""

import json
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from functools import partial

import torch

from benchmarks.mirror import waiting
from benchmarks.row import Job, Row, Settings, Work, contest
from benchmarks.selection import TorchMirror, agreement, our_steps
from stairwise.papers.selection.config import Encodings, Online, Task

SIZES = Online(
    task=Task(24, 3, 5),
    encoding=Encodings(width=48, threshold=1.0, scheme="none"),
    batch=16,
    test_lengths=(30,),
    test_sparsities=(4,),
    test_examples=16,
)
FIELDS = {"batch": 16, "test_lengths": "30", "test_sparsities": "4", "test_examples": 16, "encoding.pool": 0}


def command(store: str, trials: int, steps: int, group: int = 1) -> list[str]:
    """A sweep of that many trials, `group` of them per program: ten learning rates, the rest seeds."""
    fields = [word for name, value in FIELDS.items() for word in (f"--{name}", str(value))]
    grid = ["--grid", "learning_rate=0.1:1:log10"] if trials > 1 else ["--grid", "learning_rate=0.1"]
    length = ["--steps", str(steps), "--measure_every", str(steps), "--seeds", str(max(1, trials // 10))]
    words = [sys.executable, "-m", "stairwise.cli", "sweep", "selection/online", *grid, *length, *fields]
    return [*words, "--group", str(group), "--store", store, "--json"]


def whole_command(trials: int, steps: int, group: int = 1) -> float:
    """Seconds of the command."""
    with tempfile.TemporaryDirectory() as store:
        began = time.perf_counter()
        subprocess.run(command(store, trials, steps, group), check=True, capture_output=True)
        return time.perf_counter() - began


def programs(trials: int, steps: int) -> int:
    """How many programs the command compiles."""
    with tempfile.TemporaryDirectory() as store:
        return json.loads(subprocess.check_output([*command(store, trials, steps), "--dry-run"], text=True))["programs"]


def torch_trial(mirror: TorchMirror) -> None:
    """A training from zero."""
    with torch.no_grad():
        mirror.W.zero_()
        mirror.V.zero_()
    for _ in range(mirror.config.steps):
        mirror.step()


def commands_row(group: int, settings: Settings) -> Row:
    trials, steps = (10, 5) if settings.tiny else (500, 100)
    side_by_side = "" if group == 1 else f", {group} side by side"
    config = replace(SIZES, steps=steps)
    alone = whole_command(1, steps)
    facts = {"programs": programs(trials, steps), "one process per trial, ms": 1e3 * alone}
    return contest(
        replace(settings, repeats=min(settings.repeats, 3)),
        Row(
            "sweep",
            f"{trials} trials of {steps} steps{side_by_side}, the whole command",
            unit="trial",
            mirror="training alone, warm",
            error=agreement(config, True, "cpu"),
            facts=facts,
        ),
        Work(partial(whole_command, trials, steps, group), trials),
        Work(partial(torch_trial, TorchMirror(config))),
        lambda: Work(partial(torch_trial, TorchMirror(config).compiled())),
        tolerance=1e-4,
    )


def models_row(width: int, settings: Settings) -> Row:
    steps = 10 if settings.tiny else 1000
    config = replace(SIZES, batch=128, steps=steps, measure_every=steps)
    device, few = settings.torch_device, max(2, steps // 20)
    models = "one model" if width == 1 else f"{width} models in one program"
    return contest(
        settings,
        Row(
            "sweep",
            f"a training step a model, T=24 q=3 d=5 d_e=48, batch 128, {models}",
            mirror="one model",
            error=agreement(config, True, device),
        ),
        our_steps(config, width),
        waiting(TorchMirror(config, True, device).step, device, times=few),
        (lambda: waiting(TorchMirror(config, True, device).compiled().step, device, times=few)) if width == 1 else None,
        profiled=our_steps(config, width, graph=False),
        tolerance=1e-4,
    )


def jobs(settings: Settings) -> list[Job]:
    if settings.device == "cpu":
        named = {group: f"a sweep, groups of {group}, the whole command" for group in (1, 10)}
        return [Job(name, partial(commands_row, group)) for group, name in named.items()]
    return [Job(f"a training step a model, {width} models", partial(models_row, width)) for width in (1, 64, 256)]
