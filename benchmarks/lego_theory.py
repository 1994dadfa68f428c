"""The theory's transformer, value token: gathers (Stairwise) against 5d-wide products (PyTorch).

The dense form gets embedded clauses as input and W as one matrix of 5d rows, so that its time is that of one good
matrix product. A gather does 5d/(3L+2l) times fewer multiplications, each at a lower rate: the ratio grows with d.
Batches follow one another as in a training: here in one program, there in a Python loop that waits at its end only.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jaxtyping import Array, Integer

from benchmarks.mirror import blocking, full_precision, relative_error, tensor, waiting
from benchmarks.row import Job, Row, Settings, Work, contest
from stairwise.papers.lego import model as models
from stairwise.papers.lego.task import Lego, lego
from stairwise.papers.lego.theory import chains, literal

STEP = 2  # clauses of the answer that are told
UNROLL = 25  # batches in one turn of the loop: a GPU takes longer to begin a turn than for a batch


def network(task: Lego, neurons: int) -> models.ClauseTransformer:
    """Random W and random Q43, Q44."""
    key, d = jax.random.key(0), task.vocabulary
    model = models.initial(key, d, neurons, positions=1, sigma0=0.3, bias=0.05, clip=20.0, rho=0.8, q=4)
    blocks = jax.random.normal(jax.random.fold_in(key, 1), (2, d, d), dtype=jnp.float32)
    scores = models.SparseScores(blocks[0], blocks[1])
    return models.ClauseTransformer(model.weights, scores, model.bias, model.clip, model.rho, model.q)


class TorchMirror:
    """F of a batch of embedded contexts (batch, clauses, 5d), as Definition 3.5 writes it."""

    def __init__(self, model: models.ClauseTransformer, neurons: int, device: str):
        self.written, self.neurons = literal.network_of(model), neurons
        Q = self.written.scores.astype(np.float32)
        W = np.ascontiguousarray(self.written.weights[0].reshape(-1, Q.shape[0]).T, dtype=np.float32)  # 5d by d m
        self.weights, self.scores = tensor(W, device), tensor(Q, device)

    @torch.no_grad()
    def logits(self, Z: torch.Tensor) -> torch.Tensor:
        rho, q = self.written.rho, self.written.q
        attention = torch.softmax(torch.einsum("bi,ij,bkj->bk", Z[:, -1], self.scores, Z), dim=-1)
        mixed = torch.einsum("bk,bki->bi", attention, Z)
        pre = (mixed @ self.weights).reshape(len(Z), -1, self.neurons) + self.written.bias
        low = pre.clamp(0, rho)
        smooth = low**q / (q * rho ** (q - 1)) + (pre - rho).clamp(min=0)
        return smooth.sum(dim=-1).clamp(max=self.written.clip)


def batches_of(L: int, model: models.ClauseTransformer, clauses: Integer[Array, "batches batch clauses 5"]):
    """The value token's logits of one batch after another."""
    one = jax.vmap(lambda clauses: model.logits(clauses, L)[0])
    return jax.lax.scan(lambda none, batch: (none, one(batch)), None, clauses, unroll=UNROLL)[1]


def row(settings: Settings) -> Row:
    variables, L, neurons, batch, batches = (
        (6, 3, 2, 2, 50) if settings.tiny else (161, 5, 12, 8, 800 if settings.device == "gpu" else 100)
    )
    task, device = lego("C6", variables, L), settings.torch_device
    model = jax.device_put(network(task, neurons))  # the numbers among its leaves, too, are there once and for all
    told = chains.sentences(task, chains.drawn(task, 0, batch * batches))[:, : L + STEP]
    clauses = jnp.asarray(told.reshape(batches, batch, *told.shape[1:]), dtype=jnp.int32)
    Z = np.stack([literal.embed(sentence, task.vocabulary) for sentence in told]).astype(np.float32)
    embedded, mirror = tensor(Z, device).split(batch), TorchMirror(model, neurons, device)

    gather, compiled = jax.jit(partial(batches_of, L)), torch.compile(mirror.logits)
    with full_precision():
        ours = gather(model, clauses)
        error = relative_error([(ours, torch.stack([mirror.logits(Z) for Z in embedded]))])

    def every(logits: Callable[[torch.Tensor], torch.Tensor]) -> Work:
        return waiting(lambda: [logits(Z) for Z in embedded], device, units=batches)

    return contest(
        settings,
        Row(
            "lego",
            f"logits of the value token, C6, d={task.vocabulary}, {L + STEP} clauses, batch {batch}",
            unit="batch",
            mirror="dense products",
            error=error,
            facts={"multiplications, dense over gathers": 5 * task.vocabulary / (3 * L + 2 * STEP)},
        ),
        blocking(lambda: gather(model, clauses), batches),
        every(mirror.logits),
        lambda: every(compiled),
        tolerance=1e-4,
    )


def jobs(settings: Settings) -> list[Job]:
    return [Job("logits of the value token", row)]
