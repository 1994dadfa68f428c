"""One gradient of Theorem 3's loss in A and W: dense autodiff (JAX compiled, PyTorch eager) against coefficient space.

The dense versions are the paper's formulas on whole batches, W (2m x 2d) and A (d x d) in float64. `by pattern` is our
path where no input can change an activation (as in all three steps of the experiment), `by neuron` the one for any
weights. All on one core of the same machine in the same process, after the gradients have been checked against each
other; milliseconds are per sample.

python -m benchmarks.parity_cot_theory [--inputs 20] [--size 4] [--width 2048] [--neurons 300] [--batch 8] [--repeats 3]
"""

import argparse
import os
import sys
from functools import partial

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import jax
import jax.numpy as jnp
import numpy as np
import torch

from benchmarks.timing import repeat, row, show
from stairwise.lab.config import split
from stairwise.papers.parity_cot import simplified, steps
from stairwise.papers.parity_cot.config.task import Task
from stairwise.papers.parity_cot.config.theorem3 import ThreeSteps
from stairwise.papers.parity_cot.simplified import Coefficients
from stairwise.train.keys import role_key

BAR = 100  # times faster than dense autodiff


def dense_loss(parameters, X, labels, h):
    """Mean hinge loss of embedded sequences X (batch, width, positions), as Definitions 4 to 6 write it."""
    A, W = parameters
    positions, queries = X.shape[2], labels.shape[1]
    below = np.tril(np.ones((positions, positions)), -1) > 0
    P = jax.nn.softmax(jnp.where(below, -jnp.inf, X.mT @ A @ X), axis=1)
    outputs = h @ jax.nn.relu(W @ jnp.concatenate([X, X @ P], axis=1))
    return jnp.sum(jax.nn.relu(1 - labels * outputs[:, positions - queries :])) / len(X)


class TorchMirror:
    """The same in eager PyTorch."""

    def __init__(self, A, W, X, labels, h):
        self.A, self.W = (torch.from_numpy(np.array(one)).requires_grad_(True) for one in (A, W))
        self.X, self.labels, self.h = (torch.from_numpy(np.array(one)) for one in (X, labels, h))
        positions = X.shape[2]
        self.below = torch.tril(torch.ones(positions, positions), -1) > 0

    def gradient(self):
        scores = (self.X.mT @ self.A @ self.X).masked_fill(self.below, -torch.inf)
        attended = self.X @ torch.softmax(scores, dim=1)
        outputs = self.h @ torch.relu(self.W @ torch.cat([self.X, attended], dim=1))
        loss = torch.relu(1 - self.labels * outputs[:, -self.labels.shape[1] :]).sum() / len(self.X)
        return torch.autograd.grad(loss, (self.A, self.W))


def problem(options):
    """The setting of a seed, the weights after one structured step, and sequences for both ways."""
    config = ThreeSteps(
        Task(options.inputs, options.size), width=options.width, neurons=options.neurons, logit=10.0,
        batch=options.samples, block=options.samples,
    )  # fmt: skip
    static, numbers = split(config)
    numbers = {**numbers, "seed": 0}
    setting = steps.setting_of(static, numbers)
    weights = simplified.start(setting.positive, config.positions, jnp.asarray(config.scale))
    tokens = steps.draw_tokens(static, setting.problem, 0.0, options.samples, jax.random.key(1))
    first = steps.gradient("hinge", setting.positive, weights.tables(setting.gram), tokens)
    weights = steps.moved(weights, first, float(steps.rates(static, numbers)[0]))
    random = np.random.default_rng(0).standard_normal(weights.attention.shape)
    weights = Coefficients(weights.first, weights.second, jnp.asarray(random))  # attention that is not uniform
    signs = simplified.draw_signs(role_key(0, "embedding"), 2 * config.positions, config.width)
    return config, setting, weights, tokens, np.asarray(simplified.vectors(signs, config.width))


def compare(options) -> None:
    config, setting, weights, tokens, E = problem(options)
    few = np.asarray(tokens[: options.batch])
    atoms = 2 * np.arange(config.positions) + few[:, :-1]
    X = E[atoms].transpose(0, 2, 1)
    labels = 2.0 * few[:, config.task.inputs + 1 :] - 1
    A = E.T @ np.asarray(weights.attention) @ E
    W = np.concatenate([np.asarray(weights.first) @ E, np.asarray(weights.second) @ E], axis=1)
    h = np.asarray(simplified.readout(config.neurons))
    mirror = TorchMirror(A, W, X, labels, h)
    dense = jax.jit(jax.grad(dense_loss))
    arrays = [jnp.asarray(one) for one in (X, labels, h)]
    parameters = (jnp.asarray(A), jnp.asarray(W))

    structured = jax.jit(partial(steps.gradient, "hinge", setting.positive))
    tables = weights.tables(setting.gram)
    by_pattern = bool(simplified.decided(tables, config.task.inputs))
    # the same tables with one neuron out of order: every activation must then be looked at
    undecided = tables._replace(own=tables.own.at[0].multiply(1e-3))
    found = structured(tables, jnp.asarray(few))
    reference = dense(parameters, *arrays)
    theirs = [one.numpy() for one in mirror.gradient()]
    mine = E.T @ np.asarray(found.scores) @ E, np.concatenate([found.own @ E, found.seen @ E], axis=1)
    differences = {
        f"{name}, {part}": float(np.abs(np.asarray(one) - np.asarray(two)).max() / np.abs(np.asarray(two)).max())
        for name, one_way in (("PyTorch", theirs), ("coefficients", mine))
        for part, one, two in zip(("A", "W"), one_way, reference, strict=True)
    }
    if not by_pattern or max(differences.values()) > 1e-10:
        sys.exit(f"by pattern: {by_pattern}; the gradients differ: {differences}")
    dense_seconds = {
        "JAX compiled, dense": repeat(lambda: jax.block_until_ready(dense(parameters, *arrays)), options.repeats),
        "PyTorch eager, dense": repeat(mirror.gradient, options.repeats),
    }
    ours = {
        "Stairwise, by pattern": repeat(lambda: jax.block_until_ready(structured(tables, tokens)), options.repeats),
        "Stairwise, by neuron": repeat(lambda: jax.block_until_ready(structured(undecided, tokens)), options.repeats),
    }
    rows = [row(name, seconds, options.batch) for name, seconds in dense_seconds.items()]
    for other, seconds in dense_seconds.items():
        milliseconds = [1e3 * value / options.batch for value in seconds]
        rows += [row(f"{name}, against {other}", own, options.samples, milliseconds) for name, own in ours.items()]
    slowest = min(made["ratio"] for made in rows if "ratio" in made)
    facts = {"n": options.inputs, "k": options.size, "d": options.width, "m": options.neurons, "threads": 1}
    facts |= {"batch, dense": options.batch, "batch, ours": options.samples, **differences}
    facts |= {f"at least {BAR}x dense autodiff": slowest >= BAR}
    title = f"parity_cot: gradient of Theorem 3's loss in A and W per sample, n={options.inputs} k={options.size}"
    show(f"{title} d={options.width} m={options.neurons}, float64, one core", rows, facts)


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--inputs", type=int, default=20)
    arguments.add_argument("--size", type=int, default=4)
    arguments.add_argument("--width", type=int, default=2048)
    arguments.add_argument("--neurons", type=int, default=300)
    arguments.add_argument("--batch", type=int, default=8, help="samples of one dense gradient")
    arguments.add_argument("--samples", type=int, default=400, help="samples of one gradient in coefficient space")
    arguments.add_argument("--repeats", type=int, default=3)
    options = arguments.parse_args()
    torch.set_num_threads(1)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with jax.enable_x64(True):
        compare(options)


if __name__ == "__main__":
    main()
