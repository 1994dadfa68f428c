"""One training step of sparse token selection at the paper's sizes: plain PyTorch, and Stairwise.

A step is everything: tokens, subsets, encodings with rejection, forward, gradient, SGD update. Both run on one core of
the same machine in the same process, after their losses and gradients have been checked against each other.

python -m benchmarks.selection [--batch 256] [--steps 40] [--memory]
"""

import argparse
import os
import resource
import sys
from functools import partial

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import jax
import jax.numpy as jnp
import numpy as np
import torch

from benchmarks.timing import repeat, row, show
from stairwise.lab.config import split
from stairwise.papers.selection import train
from stairwise.papers.selection.config import Encodings, Online, Task
from stairwise.train.loop import Member, Program


class TorchMirror:
    """Eq. (2), f = V Z softmax(Z^T W z_query), with Z = [X; E] formed for every sample.

    `cheapest` multiplies in the best order, Z^T (W z) and V (Z s); otherwise from left to right, as the formula reads.
    """

    def __init__(self, config: Online, cheapest: bool):
        self.config = config
        self.cheapest = cheapest
        joint = config.task.width + config.encoding.width
        self.W = torch.zeros(joint, joint, requires_grad=True)
        self.V = torch.zeros(config.task.width, joint, requires_grad=True)

    def encodings(self) -> torch.Tensor:
        """Sign vectors, redrawing those too close to an earlier one (the vectorised form of rejection)."""
        sizes, limit = self.config, self.config.encoding.threshold + 1e-6
        T, d_e = sizes.task.length, sizes.encoding.width
        E = (2.0 * torch.randint(0, 2, (T, d_e)) - 1) / d_e**0.5
        while True:
            gram = torch.tril(E @ E.T, -1).abs()
            bad = (gram > limit).any(dim=1)
            if not bad.any():
                return E
            E[bad] = (2.0 * torch.randint(0, 2, (int(bad.sum()), d_e)) - 1) / d_e**0.5

    def loss(self, X: torch.Tensor, y: torch.Tensor, E: torch.Tensor) -> torch.Tensor:
        B, _, d = X.shape
        E_y = E[y].transpose(1, 2)  # (B, d_e, q)
        gram = E_y.transpose(1, 2) @ E_y
        e_y = (E_y @ torch.linalg.inv(gram) @ torch.ones(B, y.shape[1], 1))[..., 0]
        z_query = torch.cat([torch.zeros(B, d), e_y], dim=1)
        Z = torch.cat([X.transpose(1, 2), E.T.expand(B, -1, -1)], dim=1)  # (B, D, T)
        query, Zt = z_query[..., None], Z.transpose(1, 2)
        scores = torch.softmax(Zt @ (self.W @ query) if self.cheapest else Zt @ self.W @ query, dim=1)
        output = self.V @ (Z @ scores) if self.cheapest else self.V @ Z @ scores
        return 0.5 * ((self._targets(X, y) - output[..., 0]) ** 2).sum(1).mean()

    @staticmethod
    def _targets(X: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return X.gather(1, y[..., None].expand(-1, -1, X.shape[2])).mean(1)

    def step(self) -> None:
        sizes = self.config.task
        X = torch.randn(self.config.batch, sizes.length, sizes.width)
        y = torch.rand(self.config.batch, sizes.length).argsort(dim=1)[:, : sizes.sparsity]
        loss = self.loss(X, y, self.encodings())
        loss.backward()
        with torch.no_grad():
            for p in (self.W, self.V):
                p -= self.config.learning_rate * p.grad
                p.grad = None


def check_agreement(config: Online, cheapest: bool) -> float:
    """Largest relative difference of loss and gradients on one batch with random weights."""
    mirror = TorchMirror(config, cheapest)
    rng = np.random.default_rng(0)
    with torch.no_grad():
        mirror.W += torch.from_numpy(rng.normal(size=mirror.W.shape, scale=0.1).astype(np.float32))
        mirror.V += torch.from_numpy(rng.normal(size=mirror.V.shape, scale=0.1).astype(np.float32))
    numbers = {name: jnp.asarray(value) for name, value in split(config)[1].items()} | {"seed": jnp.uint32(0)}
    keys = jax.vmap(partial(train.example_key, numbers, jax.random.key(1)))(jnp.arange(config.batch, dtype=jnp.int32))
    encodings = train.encoding_set(config, numbers, config.task.length, jnp.int32(3))
    parameters = {"W": jnp.asarray(mirror.W.detach().numpy()), "V": jnp.asarray(mirror.V.detach().numpy())}
    ours = jax.jit(jax.value_and_grad(partial(train.batch_loss, config, numbers)))
    loss, gradient = ours(parameters, keys, encodings[None])
    task = train.SparseSelection(config.task.length, config.task.sparsity, config.task.width)
    examples = jax.vmap(task.sample)(keys)
    theirs = mirror.loss(*(torch.from_numpy(np.array(a)) for a in examples), torch.from_numpy(np.array(encodings)))
    theirs.backward()
    pairs = [(loss, theirs.detach()), (gradient["W"], mirror.W.grad), (gradient["V"], mirror.V.grad)]
    return max(float(np.abs(np.asarray(a) - b.numpy()).max() / np.abs(b.numpy()).max()) for a, b in pairs)


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--batch", type=int, default=256)
    arguments.add_argument("--steps", type=int, default=40)
    arguments.add_argument(
        "--memory", action="store_true", help="also run 100,000 small steps and print the peak memory"
    )
    options = arguments.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    torch.set_num_threads(1)
    torch.manual_seed(0)
    config = Online(
        task=Task(200, 3, 5),
        encoding=Encodings(width=170, threshold=0.35),
        batch=options.batch,
        steps=options.steps,
        measure_every=options.steps,
    )
    difference = max(check_agreement(config, cheapest) for cheapest in (True, False))
    if difference > 1e-4:
        sys.exit(f"the two implementations differ by {difference:.2g}")
    few = max(2, options.steps // 10)
    cheapest, printed = (TorchMirror(config, order) for order in (True, False))
    best = repeat(lambda: [cheapest.step() for _ in range(few)], 5)
    plain = repeat(lambda: [printed.step() for _ in range(few)], 3)
    stage = train.online(split(config)[0])[0]
    program = Program([type(stage)(**{**stage.__dict__, "measure": None, "finish": None})])
    numbers = split(config)[1]
    ours = repeat(lambda: program.run([Member(0, numbers)]), 5)
    against_best, against_plain = ([1e3 * value / few for value in taken] for taken in (best, plain))
    rows = [
        row("PyTorch eager, products from left to right", plain, few),
        row("PyTorch eager, products in the best order", best, few),
        row("Stairwise, against left to right", ours, options.steps, against_plain),
        row("Stairwise, against the best order", ours, options.steps, against_best),
    ]
    facts = {"batch": options.batch, "agreement": difference, "threads": 1}
    if options.memory:
        facts |= memory()
    show(f"selection: one training step, T=200 q=3 d=5 d_e=170 B={options.batch}, one core", rows, facts)


def memory() -> dict[str, float]:
    """Peak memory after 1,000 and after 100,000 steps of the quick sizes."""
    config = Online(task=Task(24, 3, 5), encoding=Encodings(width=48, scheme="none"), batch=64, measure_every=10_000)
    found = {}
    for steps in (1_000, 100_000):
        stages = train.online(split(Online(**{**config.__dict__, "steps": steps}))[0])
        Program(stages).run([Member(0, split(config)[1])])
        found[f"peak MB after {steps} steps"] = round(peak_megabytes(), 1)
    return found


if __name__ == "__main__":
    main()
