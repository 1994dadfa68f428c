"""One training step of sparse token selection at the paper's sizes: plain PyTorch, and Stairwise.

A step is everything: tokens, subsets, encodings with rejection, forward, gradient, SGD update.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import torch

from benchmarks.mirror import Mirror, full_precision, relative_error, tensor, waiting
from benchmarks.row import Job, Row, Settings, Work, contest
from stairwise.config import structure
from stairwise.papers.selection import train
from stairwise.papers.selection.config import Encodings, Online, Task
from stairwise.train.loop import Member, Program, RunningTrial
from stairwise.train.stage import Stage


class TorchMirror(Mirror):
    """Eq. (2), f = V Z softmax(Z^T W z_query), with Z = [X; E] formed for every sample.

    `cheapest` multiplies in the best order, Z^T (W z) and V (Z s); otherwise from left to right, as the formula reads.
    """

    def __init__(self, config: Online, cheapest: bool = True, device: str = "cpu"):
        self.config, self.cheapest, self.device = config, cheapest, device
        joint = config.task.width + config.encoding.width
        self.W = torch.zeros(joint, joint, device=device, requires_grad=True)
        self.V = torch.zeros(config.task.width, joint, device=device, requires_grad=True)
        super().__init__()

    def signs(self, rows: int) -> torch.Tensor:
        width = self.config.encoding.width
        return (2.0 * torch.randint(0, 2, (rows, width), device=self.device) - 1) / width**0.5

    def encodings(self) -> torch.Tensor:
        """Sign vectors, redrawing those too close to an earlier one (the vectorised form of rejection)."""
        chosen = self.config.encoding
        E = self.signs(self.config.task.length)
        while chosen.scheme != "none":
            bad = (torch.tril(E @ E.T, -1).abs() > chosen.threshold + 1e-6).any(dim=1)
            if not bad.any():
                break
            E[bad] = self.signs(int(bad.sum()))
        return E

    def loss(self, X: torch.Tensor, y: torch.Tensor, E: torch.Tensor) -> torch.Tensor:
        B, _, d = X.shape
        E_y = E[y].transpose(1, 2)  # (B, d_e, q)
        gram = E_y.transpose(1, 2) @ E_y
        e_y = (E_y @ torch.linalg.inv(gram) @ torch.ones(B, y.shape[1], 1, device=X.device))[..., 0]
        z_query = torch.cat([torch.zeros(B, d, device=X.device), e_y], dim=1)
        Z = torch.cat([X.transpose(1, 2), E.T.expand(B, -1, -1)], dim=1)  # (B, D, T)
        query, Zt = z_query[..., None], Z.transpose(1, 2)
        scores = torch.softmax(Zt @ (self.W @ query) if self.cheapest else Zt @ self.W @ query, dim=1)
        output = self.V @ (Z @ scores) if self.cheapest else self.V @ Z @ scores
        targets = X.gather(1, y[..., None].expand(-1, -1, d)).mean(1)
        return 0.5 * ((targets - output[..., 0]) ** 2).sum(1).mean()

    def step(self) -> None:
        sizes = self.config.task
        X = torch.randn(self.config.batch, sizes.length, sizes.width, device=self.device)
        y = torch.rand(self.config.batch, sizes.length, device=self.device).argsort(dim=1)[:, : sizes.sparsity]
        self.loss_of(X, y, self.encodings()).backward()
        with torch.no_grad():
            for p in (self.W, self.V):
                assert p.grad is not None
                p -= self.config.learning_rate * p.grad
                p.grad = None


def agreement(config: Online, cheapest: bool, device: str) -> float:
    """Largest relative difference of loss and gradients on one batch with random weights."""
    mirror, rng = TorchMirror(config, cheapest, device), np.random.default_rng(0)
    with torch.no_grad():
        for p in (mirror.W, mirror.V):
            p += tensor(rng.normal(size=p.shape, scale=0.1).astype(np.float32), device)
    trial = RunningTrial(jax.tree.map(jnp.asarray, config), jnp.uint32(0))
    keys = jax.vmap(partial(train.example_key, trial, jax.random.key(1)))(jnp.arange(config.batch, dtype=jnp.int32))
    encodings = train.encoding_set(trial, config.task.length, jnp.int32(3))
    parameters = {name: jnp.asarray(getattr(mirror, name).detach().cpu().numpy()) for name in ("W", "V")}
    task = train.SparseSelection(config.task.length, config.task.sparsity, config.task.width)
    with full_precision():
        ours = jax.jit(jax.value_and_grad(partial(train.batch_loss, trial)))
        batch = train.Batch(keys, encodings[None], jnp.zeros(1, dtype=bool))
        loss, gradient = ours(parameters, batch, None)
        theirs = mirror.loss(*(tensor(a, device) for a in (*jax.vmap(task.sample)(keys), encodings)))
        theirs.backward()
    return relative_error([(loss, theirs), (gradient["W"], mirror.W.grad), (gradient["V"], mirror.V.grad)])


def our_steps(config: Online, width: int = 1, graph: bool = True) -> Work:
    """The whole training of a group of models without its measurements."""
    stage = train.online(structure(config))[0]
    program = Program(
        [Stage(stage.name, stage.init, stage.tick, stage.max_ticks, graph=graph, tuned=stage.tuned)], width
    )
    members = [Member(seed, config) for seed in range(width)]
    return Work(lambda: program.run(members), config.steps * width)


def row(cheapest: bool, settings: Settings) -> Row:
    sizes = (24, 48, 16, 10) if settings.tiny else (200, 170, 256, 1000 if settings.device == "gpu" else 40)
    length, width, batch, steps = sizes
    # at the tiny width a threshold below 1 would reject for ever
    encoding = Encodings(width=width, threshold=1.0 if settings.tiny else 0.35)
    config = Online(task=Task(length, 3, 5), encoding=encoding, batch=batch, steps=steps, measure_every=steps)
    device, few = settings.torch_device, max(2, min(20, steps // 10))
    order = "products in the best order" if cheapest else "products from left to right"
    return contest(
        settings,
        Row(
            "selection",
            f"a training step, T={length} q=3 d=5 d_e={width}, batch {batch}",
            mirror=order,
            error=agreement(config, cheapest, device),
        ),
        our_steps(config),
        waiting(TorchMirror(config, cheapest, device).step, device, times=few),
        lambda: waiting(TorchMirror(config, cheapest, device).compiled().step, device, times=few),
        profiled=our_steps(config, graph=False),
        tolerance=1e-4,
    )


def jobs(settings: Settings) -> list[Job]:
    both = {"best order": True} | ({} if settings.device == "gpu" else {"left to right": False})
    return [Job(f"a training step, {name}", partial(row, cheapest)) for name, cheapest in both.items()]
