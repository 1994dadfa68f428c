"""The one gradient step of Theorem 5: plain PyTorch with autograd, and Stairwise.

A step is everything: n inputs, the k-1 true nodes of each, forward, gradient, update of W, on one core of the same
machine in the same process, after the gradients have been checked against each other; memory is what a step adds to a
process of its own. The mirror comes in three forms: W as the (d+k-1)-square matrix of the paper, on the whole batch at
once or summed over blocks of our size, and only the k-1 columns of W that matter (over blocks).

python -m benchmarks.parity_onestep [--bits 64 128 256] [--samples 65536] [--repeats 3] [--large]
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import jax
import jax.numpy as jnp
import numpy as np
import torch

from benchmarks.timing import repeat, row, show
from stairwise.lab.config import split
from stairwise.papers.parity_onestep import gradient, train
from stairwise.papers.parity_onestep.config import Descent, Rate, Task
from stairwise.train.loop import Member, Program
from stairwise.train.stage import Stage

MODES = ("whole", "square", "columns", "ours")


class TorchMirror:
    """Masked softmax of W, z = X s, phi(z) against the true nodes; gradients by autograd, block by block."""

    def __init__(self, config: Descent, children: list[list[int]], square: bool):
        self.config, self.square, self.children = config, square, children
        self.bits, self.nodes = config.task.bits, config.task.size - 1
        tokens = self.bits + self.nodes
        token, target = torch.arange(tokens)[:, None], torch.arange(tokens)
        self.visible = token < target
        if not square:
            self.visible = self.visible[:, self.bits :]
        self.W = torch.zeros(self.visible.shape, requires_grad=True)

    def block(self) -> torch.Tensor:
        X = torch.empty(self.config.block, self.bits + self.nodes)
        X[:, : self.bits] = 1.0 - 2.0 * torch.randint(0, 2, (self.config.block, self.bits))
        for i, (left, right) in enumerate(self.children):
            torch.mul(X[:, left], X[:, right], out=X[:, self.bits + i])
        return X

    def loss(self, X: torch.Tensor) -> torch.Tensor:
        logits = self.W.masked_fill(~self.visible, -torch.inf)
        if self.square:
            logits = logits[:, 1:]  # token 0 sees nothing
        z = X @ torch.softmax(logits, dim=0)
        z = z[:, -self.nodes :]
        return 0.5 * ((-1 + 4 * z**2 - 2 * z**4 - X[:, self.bits :]) ** 2).sum()

    def step(self) -> None:
        n, c = self.config.samples, 4.0
        for _ in range(n // self.config.block):
            (self.loss(self.block()) / n).backward()
        with torch.no_grad():
            self.W -= self.config.rate.lam * (self.bits + self.nodes - 1) ** 2 / (2 * c) * self.W.grad
            self.W.grad = None
            self.W.zero_()  # every repetition is the first step


def program(config: Descent) -> tuple[Program, dict]:
    """Our step without its evaluation: the blocks, and the update."""
    static, numbers = split(config)
    stage = train.descent(static)[0]

    def finish(numbers, state, key):
        return None, {"W": train.stepped(static, numbers, state, jnp.float32(config.samples), 0)[0]}

    return Program([Stage(stage.name, stage.init, stage.tick, stage.max_ticks, finish=finish)]), numbers


def check_agreement(config: Descent) -> float:
    """Largest relative difference of the gradients on one block."""
    numbers = {"seed": jnp.uint32(0)}
    tree = train.tree_of(split(config)[0], numbers)
    tokens = gradient.draw_block(jax.random.key(0), tree, config.block)
    sums = gradient.forced_at_zero(tree, train.link_of(config), config.mask, tokens, jnp.ones(config.block))
    scores = train.model_of(config, tree, jnp.zeros_like(sums.S)).scores()
    ours = np.asarray(gradient.gradient(scores, sums.S, config.block))
    worst = 0.0
    for square in (True, False):
        mirror = TorchMirror(config, tree.children.tolist(), square)
        (mirror.loss(torch.from_numpy(np.array(tokens.T))) / config.block).backward()
        theirs = mirror.W.grad.numpy()[:, -mirror.nodes :]
        worst = max(worst, float(np.abs(ours - theirs).max() / np.abs(theirs).max()))
    return worst


def work(config: Descent, mode: str):
    """One whole step in one of the ways, as a function without arguments."""
    if mode == "ours":
        compiled, numbers = program(config)
        return partial(compiled.run, [Member(0, numbers)])
    if mode == "whole":
        config = replace(config, block=config.samples)
    bits, size = config.task.bits, config.task.size
    queue = [*range(size), *range(bits, bits + size - 1)]
    children = [queue[2 * i : 2 * i + 2] for i in range(size - 1)]
    return TorchMirror(config, children, square=mode != "columns").step


def sized(bits: int, samples: int) -> Descent:
    return Descent(task=Task(bits, bits // 2), samples=samples, rate=Rate(lam=9.0))


def peak_megabytes(bits: int, samples: int, mode: str) -> float:
    """What one step adds to the memory of a process of its own, compilation included."""
    command = [sys.executable, "-m", "benchmarks.parity_onestep", "--peak", mode, "--bits", str(bits)]
    done = subprocess.run([*command, "--samples", str(samples)], check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])["peak"]


def peak_here() -> float:
    """Peak resident memory of this process in MB (getrusage would also count what the parent held at the fork)."""
    try:
        with open("/proc/self/status") as lines:
            return round(next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024, 1)
    except OSError:
        return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)


def compare(bits: int, samples: int, repeats: int) -> None:
    config = sized(bits, samples)
    difference = check_agreement(config)
    if difference > 1e-4:
        sys.exit(f"the implementations differ by {difference:.2g}")
    taken = {mode: repeat(work(config, mode), repeats) for mode in MODES}
    milliseconds = {mode: [1e3 * value for value in values] for mode, values in taken.items()}
    rows = [
        row("PyTorch, (d+k-1)-square softmax, whole batch", taken["whole"], 1),
        row("PyTorch, (d+k-1)-square softmax, blocks", taken["square"], 1),
        row("PyTorch, only the k-1 columns, blocks", taken["columns"], 1),
        row("Stairwise, against the whole batch", taken["ours"], 1, milliseconds["whole"]),
        row("Stairwise, against the square blocks", taken["ours"], 1, milliseconds["square"]),
        row("Stairwise, against the columns", taken["ours"], 1, milliseconds["columns"]),
    ]
    peaks = {f"MB added by {mode}": peak_megabytes(bits, samples, mode) for mode in MODES}
    facts = {"d": bits, "k": bits // 2, "n": samples, "agreement": difference, "threads": 1, **peaks}
    show(f"parity_onestep: one gradient step, d={bits} k={bits // 2} n={samples}, one core", rows, facts)
    print("  " + ", ".join(f"{name} {value:.0f}" for name, value in peaks.items()))


def large() -> None:
    """d = 4096, k = 32, n = 2^19 with evaluation, from a cold start."""
    config = Descent(task=Task(4096, 32), samples=2**19, rate=Rate(lam=20.3))
    began = time.perf_counter()
    static, numbers = split(config)
    outcome = Program(train.descent(static)).run([Member(0, numbers)])[0]
    facts = {name: outcome.last(name) for name in ("accuracy", "root sup", "nodes sup")}
    facts |= {"seconds": round(time.perf_counter() - began, 1), "peak": peak_here()}
    print(json.dumps({"title": "d=4096 k=32 n=2**19, compile and evaluation included", **facts}))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--bits", type=int, nargs="+", default=[64, 128, 256])
    arguments.add_argument("--samples", type=int, default=2**16)
    arguments.add_argument("--repeats", type=int, default=3)
    arguments.add_argument("--large", action="store_true", help="only the run at d=4096, k=32, n=2**19")
    arguments.add_argument("--peak", choices=MODES, help="one step only, and the peak memory of this process")
    options = arguments.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if options.large:
        return large()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    if options.peak:
        before = peak_here()
        work(sized(options.bits[0], options.samples), options.peak)()
        return print(json.dumps({"peak": round(peak_here() - before, 1)}))
    for bits in options.bits:
        compare(bits, options.samples, options.repeats)


if __name__ == "__main__":
    main()
