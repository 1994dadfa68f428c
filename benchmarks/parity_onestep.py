"""The one gradient step of Theorem 5: plain PyTorch with autograd, and Stairwise.

A step is everything: n inputs, the k-1 true nodes of each, forward, gradient, update of W. The mirror comes in three
forms: W as the (d+k-1)-square matrix of the paper, on the whole batch at once or summed over blocks of our size, and
only the k-1 columns of W that matter (over blocks, or on the whole batch at once).

On a GPU PyTorch's time is that of its launches, of which one block has the fewest: both are timed. There a group of
seeds is timed too, as an experiment runs it.
"""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import torch

from benchmarks.mirror import Mirror, full_precision, relative_error, tensor, waiting
from benchmarks.row import Job, Row, Settings, Work, contest
from stairwise.config import structure
from stairwise.papers.parity_onestep import gradient, train
from stairwise.papers.parity_onestep.config import Descent, Rate, Task
from stairwise.train.loop import Hooks, Member, Program, RunningTrial
from stairwise.train.stage import Stage

FORMS = {
    "columns": "only the k-1 columns, blocks",
    "square": "(d+k-1)-square softmax, blocks",
    "whole": "(d+k-1)-square softmax, whole batch",
    "columns, whole": "only the k-1 columns, whole batch",
}
SEEDS = 64


class TorchMirror(Mirror):
    """Masked softmax of W, z = X s, phi(z) against the true nodes; gradients by autograd, block by block."""

    def __init__(self, config: Descent, children: list[list[int]], square: bool, device: str = "cpu"):
        self.config, self.square, self.children, self.device = config, square, children, device
        self.bits, self.nodes = config.task.bits, config.task.size - 1
        tokens = self.bits + self.nodes
        token, target = torch.arange(tokens, device=device)[:, None], torch.arange(tokens, device=device)
        self.visible = token < target
        if not square:
            self.visible = self.visible[:, self.bits :]
        self.W = torch.zeros(self.visible.shape, device=device, requires_grad=True)
        super().__init__()

    def block(self) -> torch.Tensor:
        count = self.config.block
        X = torch.empty(count, self.bits + self.nodes, device=self.device)
        X[:, : self.bits] = 1.0 - 2.0 * torch.randint(0, 2, (count, self.bits), device=self.device)
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
            (self.loss_of(self.block()) / n).backward()
        assert self.W.grad is not None
        with torch.no_grad():
            self.W -= self.config.rate.lam * (self.bits + self.nodes - 1) ** 2 / (2 * c) * self.W.grad
            self.W.grad = None
            self.W.zero_()  # every repetition is the first step


class Waiting(Hooks):
    """Waits for the weights, which stay on the device as PyTorch's do."""

    def handed_over(self, carry) -> None:
        jax.block_until_ready(carry)


def our_step(config: Descent, width: int = 1, graph: bool = True) -> Work:
    """The blocks and the update of a group of seeds, without the evaluation."""
    stage = train.descent(structure(config))[0]

    def finish(trial, state, key):
        return train.stepped(trial, state, jnp.float32(config.samples), 0)[0], {}

    program = Program([Stage(stage.name, stage.init, stage.tick, stage.max_ticks, finish=finish, graph=graph)], width)
    return Work(partial(program.run, [Member(seed, config) for seed in range(width)], Waiting()), width)


def agreement(config: Descent, square: bool, device: str) -> float:
    """Largest relative difference of the gradients on one block."""
    tree = train.tree_of(RunningTrial(config, jnp.uint32(0)))
    tokens = gradient.draw_block(jax.random.key(0), tree, config.block)
    weights = jnp.ones(config.block, dtype=jnp.float32)
    mirror = TorchMirror(config, np.asarray(tree.children).tolist(), square, device)
    with full_precision():
        sums = gradient.forced_at_zero(tree, train.link_of(config), config.mask, tokens, weights)
        scores = train.model_of(config, tree, jnp.zeros_like(sums.S)).scores()
        ours = gradient.gradient(scores, sums.S, config.block)
        (mirror.loss(tensor(tokens.T, device)) / config.block).backward()
    assert mirror.W.grad is not None
    return relative_error([(ours, mirror.W.grad[:, -mirror.nodes :])])


def balanced_children(bits: int, size: int) -> list[list[int]]:
    """The tree over the first `size` bits, level by level."""
    queue = [*range(size), *range(bits, bits + size - 1)]
    return [queue[2 * i : 2 * i + 2] for i in range(size - 1)]


def row(bits: int, form: str, width: int, settings: Settings) -> Row:
    samples = 2**12 if settings.tiny else 2**16
    config = Descent(task=Task(bits, bits // 2), samples=samples, rate=Rate(lam=9.0))
    device, square = settings.torch_device, not form.startswith("columns")
    blocks = replace(config, block=samples) if form.endswith("whole") else config
    seeds = "" if width == 1 else f", {width} seeds in one program"

    def mirror() -> TorchMirror:
        return TorchMirror(blocks, balanced_children(bits, bits // 2), square, device)

    return contest(
        settings,
        Row(
            "parity_onestep",
            f"one gradient step, d={bits} k={bits // 2} n={samples}{seeds}",
            mirror=FORMS[form],
            error=agreement(config, square, device),
        ),
        our_step(config, width),
        waiting(mirror().step, device),
        lambda: waiting(mirror().compiled().step, device),
        profiled=our_step(config, width, graph=False),
        tolerance=1e-4,
    )


def jobs(settings: Settings) -> list[Job]:
    sizes = [16] if settings.tiny else [256] if settings.device == "gpu" else [64, 256]
    forms = ["columns", "columns, whole"] if settings.device == "gpu" else ["columns", "square", "whole"]
    widths = [1, SEEDS] if settings.device == "gpu" else [1]
    return [
        Job(f"one gradient step, d={bits}, {width} seeds, {FORMS[form]}", partial(row, bits, form, width))
        for bits in sizes
        for width in widths
        for form in forms
    ]
