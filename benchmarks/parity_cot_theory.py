"""One gradient of Theorem 3's loss in A and W: dense autodiff in PyTorch against coefficient space.

The dense version is the paper's formula on whole batches, W (2m x 2d) and A (d x d), in float64. `by pattern` is our
path where no input can change an activation (as in all three steps of the experiment), `by neuron` the one for any
weights.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import torch

from benchmarks.mirror import Mirror, blocking, relative_error, tensor, waiting
from benchmarks.row import Job, Row, Settings, contest
from stairwise.papers.parity_cot import simplified, steps
from stairwise.papers.parity_cot.config.task import Task
from stairwise.papers.parity_cot.config.theorem3 import ThreeSteps
from stairwise.papers.parity_cot.simplified import Coefficients
from stairwise.train.keys import role_key
from stairwise.train.loop import RunningTrial


class TorchMirror(Mirror):
    """Mean hinge loss of embedded sequences X (batch, width, positions), as Definitions 4 to 6 write it."""

    def __init__(self, A, W, X, labels, h, device: str):
        self.A, self.W = (tensor(one, device).requires_grad_(True) for one in (A, W))
        self.X, self.labels, self.h = (tensor(one, device) for one in (X, labels, h))
        positions = X.shape[2]
        self.below = torch.tril(torch.ones(positions, positions, device=device), -1) > 0
        super().__init__()

    def loss(self) -> torch.Tensor:
        scores = (self.X.mT @ self.A @ self.X).masked_fill(self.below, -torch.inf)
        attended = self.X @ torch.softmax(scores, dim=1)
        outputs = self.h @ torch.relu(self.W @ torch.cat([self.X, attended], dim=1))
        return torch.relu(1 - self.labels * outputs[:, -self.labels.shape[1] :]).sum() / len(self.X)

    def gradient(self) -> tuple[torch.Tensor, ...]:
        return torch.autograd.grad(self.loss_of(), (self.A, self.W))


def after_one_step(config: ThreeSteps):
    """The setting of a seed, the weights after one structured step, attention random, and sequences."""
    trial = RunningTrial(config, 0)
    setting = steps.setting_of(trial)
    weights = simplified.start(setting.positive, config.positions, jnp.asarray(config.scale))
    tokens = steps.draw_tokens(config, setting.problem, 0.0, config.batch, jax.random.key(1))
    first = steps.gradient("hinge", setting.positive, weights.tables(setting.gram), tokens)
    weights = steps.moved(weights, first, float(steps.rates(trial)[0]))
    random = np.random.default_rng(0).standard_normal(weights.attention.shape)
    return setting, Coefficients(weights.first, weights.second, jnp.asarray(random)), tokens


def row(way: str, settings: Settings) -> Row:
    drawn = 8000 if settings.device == "gpu" else 400  # the experiment's batch, and a part of it
    sizes = (8, 2, 64, 8, 2, 8) if settings.tiny else (20, 4, 2048, 300, 8, drawn)
    inputs, size, width, neurons, batch, samples = sizes
    config = ThreeSteps(Task(inputs, size), width=width, neurons=neurons, logit=10.0, batch=samples, block=samples)
    setting, weights, tokens = after_one_step(config)
    signs = simplified.draw_signs(role_key(0, "embedding"), 2 * config.positions, config.width)
    E = np.asarray(simplified.vectors(signs, config.width))

    few = np.asarray(tokens[:batch])
    X = E[2 * np.arange(config.positions) + few[:, :-1]].transpose(0, 2, 1)
    labels = 2.0 * few[:, inputs + 1 :] - 1
    A = E.T @ np.asarray(weights.attention) @ E
    W = np.concatenate([np.asarray(weights.first) @ E, np.asarray(weights.second) @ E], axis=1)
    device, readout = settings.torch_device, np.asarray(simplified.readout(neurons))

    def mirror() -> TorchMirror:
        return TorchMirror(A, W, X, labels, readout, device)

    tables = weights.tables(setting.gram)
    decided = way == "by pattern" and bool(simplified.decided(tables, inputs))
    if way == "by neuron":  # the same tables with one neuron out of order: every activation must then be looked at
        tables = tables._replace(own=tables.own.at[0].multiply(1e-3))
    done = "by pattern" if decided else "by neuron"
    structured = jax.jit(partial(steps.gradient, "hinge", setting.positive))
    found = structured(weights.tables(setting.gram), jnp.asarray(few))
    ours = E.T @ np.asarray(found.scores) @ E, np.concatenate([found.own @ E, found.seen @ E], axis=1)
    return contest(
        settings,
        Row(
            "parity_cot",
            f"gradient of Theorem 3's loss in A and W, n={inputs} k={size} d={width} m={neurons}, float64, {done}",
            unit="sample",
            mirror="dense",
            error=relative_error(list(zip(ours, mirror().gradient(), strict=True))),
        ),
        blocking(lambda: structured(tables, tokens), samples),
        waiting(mirror().gradient, device, batch),
        lambda: waiting(mirror().compiled().gradient, device, batch),
        tolerance=1e-10,
    )


def jobs(settings: Settings) -> list[Job]:
    ways = ("by pattern",) if settings.device == "gpu" else ("by pattern", "by neuron")
    return [Job(f"gradient of Theorem 3's loss, {way}", partial(row, way), 64) for way in ways]
