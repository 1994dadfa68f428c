"""Many small trials: Stairwise in few programs, one process per trial, and a plain PyTorch loop over trials.

A trial is a training of sparse token selection at small sizes (T=24, q=3, d=5, d_e=48, batch 16), data included; trials
differ in seed and learning rate. On a GPU: time a model and step at 64 and 256 models in one program, against PyTorch
eager, one model at a time.

python -m benchmarks.sweep [--trials 1000] [--steps 100] [--processes 3]
python -m benchmarks.sweep --gpu [--steps 2000]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace

import torch

from benchmarks.selection import TorchMirror
from benchmarks.timing import repeat, row, show
from stairwise.lab.config import split
from stairwise.papers.selection.config import Encodings, Online, Task

SIZES = Online(
    task=Task(24, 3, 5),
    encoding=Encodings(width=48, threshold=1.0, scheme="none"),
    batch=16,
    test_lengths=(30,),
    test_sparsities=(4,),
    test_examples=16,
)
WIDE = 50  # a CPU core gains nothing from vmap, but the host is asked fifty times less often
FIELDS = {"batch": 16, "test_lengths": "30", "test_sparsities": "4", "test_examples": 16, "encoding.pool": 0}


class TorchTrial(TorchMirror):
    """The mirror's training step on any device, encodings drawn without rejection, as the quick preset does."""

    def __init__(self, config: Online, device: str = "cpu"):
        super().__init__(config, cheapest=True)
        self.device = torch.device(device)
        self.W, self.V = (p.detach().to(self.device).requires_grad_() for p in (self.W, self.V))

    def encodings(self) -> torch.Tensor:
        sizes = self.config
        signs = torch.randint(0, 2, (sizes.task.length, sizes.encoding.width), device=self.device)
        return (2.0 * signs - 1) / sizes.encoding.width**0.5


def torch_trial(config: Online, seed: int, device: str = "cpu") -> TorchTrial:
    torch.manual_seed(seed)
    with torch.device(device):
        trial = TorchTrial(config, device)
        for _ in range(config.steps):
            trial.step()
    return trial


def words(store: str, trials: int, steps: int, group: int) -> list[str]:
    """The command of a sweep of that many trials: ten learning rates, the rest seeds."""
    fields = [word for name, value in FIELDS.items() for word in (f"--{name}", str(value))]
    grid = ["--grid", "learning_rate=0.1:1:log10"] if trials > 1 else ["--grid", "learning_rate=0.1"]
    seeds = ["--seeds", str(max(1, trials // 10))]
    length = ["--steps", str(steps), "--measure_every", str(steps)]
    command = [sys.executable, "-m", "stairwise.cli", "sweep", "selection/online", *grid, *seeds, *length]
    return [*command, *fields, "--group", str(group), "--store", store]


def sweep_seconds(trials: int, steps: int, group: int = 1) -> tuple[float, dict]:
    """The whole command, start of Python and compiling included, and the plan it followed."""
    with tempfile.TemporaryDirectory() as store:
        command = words(store, trials, steps, group)
        planned = json.loads(subprocess.check_output([*command, "--dry-run", "--json"], text=True))
        began = time.perf_counter()
        subprocess.run([*command, "--json"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return time.perf_counter() - began, planned


def torch_seconds(config: Online, threads: int) -> float:
    """Seconds a trial, in one process that has warmed up: the best of five."""
    torch.set_num_threads(threads)
    torch_trial(config, 0)
    taken = []
    for seed in range(5):
        began = time.perf_counter()
        torch_trial(config, seed)
        taken.append(time.perf_counter() - began)
    return min(taken)


def on_cpu(options: argparse.Namespace) -> None:
    config = replace(SIZES, steps=options.steps)
    ours, planned = sweep_seconds(options.trials, options.steps)
    grouped, _ = sweep_seconds(options.trials, options.steps, WIDE)
    alone = [sweep_seconds(1, options.steps)[0] for _ in range(options.processes)]
    loop = min(torch_seconds(config, threads) for threads in (1, os.cpu_count() or 1))
    rates = {
        "Stairwise sweep": planned["trials"] / ours,
        f"Stairwise sweep --group {WIDE}": planned["trials"] / grouped,
        "one process per trial": 1 / min(alone),
        "PyTorch loop over trials (training only)": 1 / loop,
    }
    print(f"{planned['trials']} trials of {options.steps} steps: {planned['programs']} programs, {ours:.1f} s in all")
    for name, rate in rates.items():
        print(f"  {name:42} {rate:8.2f} trials a second  ({rates['Stairwise sweep'] / rate:.1f}x)")
    print(json.dumps({"trials a second": rates, "programs": planned["programs"], "steps": options.steps}))


def on_gpu(options: argparse.Namespace) -> None:
    import jax

    from stairwise.papers.selection import train
    from stairwise.train.loop import Member, Program

    if jax.devices()[0].platform == "cpu" or not torch.cuda.is_available():
        sys.exit("--gpu needs a GPU that both JAX and PyTorch see")
    config = replace(SIZES, batch=128, steps=options.steps, measure_every=options.steps)
    few = max(50, options.steps // 20)
    short = replace(config, steps=few, measure_every=few)

    def eager() -> None:
        torch_trial(short, 0, "cuda")
        torch.cuda.synchronize()

    one = repeat(eager, 5)
    stage = train.online(split(config)[0])[0]
    bare = type(stage)(**{**stage.__dict__, "measure": None, "finish": None})
    numbers = split(config)[1]
    rows = [row("PyTorch eager, one model", one, few)]
    against = [1e3 * value / few for value in one]
    for width in (1, 64, 256):
        program = Program([bare], width)
        members = [Member(seed, numbers) for seed in range(width)]
        taken = repeat(lambda program=program, members=members: program.run(members), 5)
        rows.append(row(f"Stairwise, {width} models, per model", taken, options.steps * width, against))
    show(f"selection: a step of one model, batch 128, {options.steps} steps", rows, {"device": str(jax.devices()[0])})


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--trials", type=int, default=1000)
    arguments.add_argument("--steps", type=int, default=None)
    arguments.add_argument("--processes", type=int, default=3, help="how many single-trial processes are timed")
    arguments.add_argument("--gpu", action="store_true", help="per-model step time on a GPU instead")
    options = arguments.parse_args()
    options.steps = options.steps or (2000 if options.gpu else 100)
    (on_gpu if options.gpu else on_cpu)(options)


if __name__ == "__main__":
    main()
