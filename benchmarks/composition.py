"""A key-query gradient of Algorithm 1's last stage: dense attention in PyTorch, and Stairwise's two ways.

The dense version multiplies full d x d matrices, W_OV included; `structured` is our soft attention; `integer` counts
block indices, and its time includes drawing its samples. All gradients are compared at saturated layers. Batches follow
one another as in a training: here in one program, there in a Python loop that waits at its end only.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jaxtyping import Array, Float, Integer

from benchmarks.mirror import Mirror, blocking, full_precision, relative_error, tensor, waiting
from benchmarks.row import Job, Row, Settings, Work, contest
from stairwise.papers.composition import integer, rules, train
from stairwise.papers.composition.constructions import theorem4
from stairwise.papers.composition.model import AttentionOnly, untrained
from stairwise.papers.composition.task import Composition, draw_hidden


def stage_model(hidden: Integer[Array, "blocks alphabet"], t: int) -> AttentionOnly:
    """Layers below t as in Theorem 4, t and those above untrained."""
    blocks, alphabet = hidden.shape
    ideal = theorem4(hidden, 60.0)
    start = untrained(ideal.plan, blocks, alphabet, 1.0)
    return AttentionOnly((*ideal.key_query[:t], *start.key_query[t:]), start.readout, plan=ideal.plan)


def dense_weights(model: AttentionOnly) -> tuple[list[np.ndarray], list[np.ndarray], np.ndarray]:
    """W_KQ, W_OV and Psi of the last head as the paper writes them."""
    stream, T = model.readout.shape[1:3]
    key_query, value = [], []
    for number, W in enumerate(model.key_query):
        full = np.zeros((stream, T, stream, T), dtype=np.float32)
        full[: number + 2, :, : number + 2] = np.asarray(W).transpose(0, 2, 1, 3)
        key_query.append(full.reshape(stream * T, -1))
        copy = np.zeros((stream, stream), dtype=np.float32)
        copy[number + 2, number + 1] = 1
        value.append(np.kron(copy, np.eye(T, dtype=np.float32)))
    return key_query, value, np.asarray(model.readout[-1]).reshape(stream * T, -1)


def dense_inputs(sequences: np.ndarray, stream: int) -> np.ndarray:
    count, blocks, alphabet = sequences.shape
    T = blocks * alphabet
    seen = (alphabet * np.arange(blocks)[:, None] + sequences).reshape(count, T)
    X = np.zeros((count, stream, T, T), dtype=np.float32)
    X[:, 0] = np.eye(T)
    X[:, 1] = np.eye(T, dtype=np.float32)[seen].transpose(0, 2, 1)
    return X.reshape(count, stream * T, T)


class TorchMirror(Mirror):
    """The transformer of Definition 3 in PyTorch; the last key-query matrix has a gradient."""

    def __init__(self, model: AttentionOnly, device: str):
        key_query, value, readout = dense_weights(model)
        self.key_query = [tensor(W, device) for W in key_query]
        self.key_query[-1].requires_grad_(True)
        self.value, self.readout = [tensor(W, device) for W in value], tensor(readout, device)
        super().__init__()

    def loss(self, X: torch.Tensor, queries: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        for W, V in zip(self.key_query, self.value, strict=True):
            X = X + V @ X @ torch.softmax(X.mT @ W @ X, dim=1)
        column = X[torch.arange(len(X), device=X.device), :, queries]
        return torch.nn.functional.cross_entropy(column @ self.readout, labels)

    def gradient(self, *batch: torch.Tensor) -> torch.Tensor:
        return torch.autograd.grad(self.loss_of(*batch), self.key_query[-1])[0]


def structured_gradient(task: Composition, model: AttentionOnly, t: int, sequences, queries) -> Float[Array, "..."]:
    def loss(last):
        changed = AttentionOnly((*model.key_query[:t], last), model.readout, plan=model.plan)
        return jnp.mean(jax.vmap(partial(rules.one_hop_loss, t, task, changed))(sequences, queries))

    return jax.grad(loss)(model.key_query[t])


def counted_gradient(task: Composition, model: AttentionOnly, t: int, sequences, queries) -> Float[Array, "..."]:
    counts = integer.add_pairs(integer.no_counts(t, task.tokens), model.plan, t, task.hidden, sequences, queries)
    return integer.key_query_gradient(counts, task.alphabet, 1.0, len(sequences))


class Stage(NamedTuple):
    """The last stage of Algorithm 1: the task, the model, the layer that learns."""

    task: Composition
    model: AttentionOnly
    layer: int


def last_stage(blocks: int, alphabet: int) -> Stage:
    hidden, layer = draw_hidden(jax.random.key(0), blocks, alphabet), blocks.bit_length() - 1
    return Stage(Composition(hidden), stage_model(hidden, layer), layer)


def summed(gradient: Callable[..., Array], sequences, queries) -> Float[Array, "..."]:
    """The gradients of several batches, added up one after another as in a training."""
    first = jax.eval_shape(gradient, sequences[0], queries[0])
    start = jnp.zeros(first.shape, first.dtype)
    return jax.lax.scan(lambda total, batch: (total + gradient(*batch), None), start, (sequences, queries))[0]


def counted_blocks(stage: Stage, block: int, blocks: int, key) -> Float[Array, "..."]:
    """The gradient of many samples, which are drawn and counted block by block as in a training."""
    task, model, layer = stage

    def count(number, counts):
        samples = train.draw_samples(task, key, number * block, block)
        return integer.add_pairs(counts, model.plan, layer, task.hidden, *samples)

    counts = jax.lax.fori_loop(0, blocks, count, integer.no_counts(layer, task.tokens))
    return integer.key_query_gradient(counts, task.alphabet, 1.0, block * blocks)


def our_work(way: str, stage: Stage, batch: int, times: int) -> Work:
    """So many batches in one program."""
    key = jax.random.key(1)
    if way == "structured":
        sequences, queries = train.draw_samples(stage.task, key, 0, batch * times)
        batches = (sequences.reshape(times, batch, *sequences.shape[1:]), queries.reshape(times, batch))
        program = jax.jit(partial(summed, partial(structured_gradient, *stage)))
        return blocking(lambda: program(*batches), batch * times)
    program = jax.jit(partial(counted_blocks, stage, batch, times))
    return blocking(lambda: program(key), batch * times)


def row(way: str, settings: Settings) -> Row:
    blocks, alphabet, batch, counted = (4, 3, 4, 64) if settings.tiny else (16, 5, 16, 4096)
    times = 2 if settings.tiny else 32 if settings.device == "gpu" else 4
    drawn = times if settings.tiny or way == "structured" else 8 * times  # a stage has millions of samples
    device, stage = settings.torch_device, last_stage(blocks, alphabet)
    sequences, queries = train.draw_samples(stage.task, jax.random.key(1), 0, batch)
    labels = jax.vmap(lambda s, q: stage.task.hop(s, blocks).reshape(-1)[q])(sequences, queries)
    stream, T = stage.model.readout.shape[1:3]
    inputs = [tensor(one, device) for one in (dense_inputs(np.asarray(sequences), stream), queries, labels)]
    mirror, seen = TorchMirror(stage.model, device), stage.layer + 2
    ours = partial({"structured": structured_gradient, "integer": counted_gradient}[way], *stage)
    with full_precision():
        found = jax.jit(ours)(sequences, queries)
        theirs = mirror.gradient(*inputs).reshape(stream, T, stream, T).permute(0, 2, 1, 3)[:seen, :seen]

    def every(mirror: TorchMirror) -> Work:
        return waiting(partial(mirror.gradient, *inputs), device, batch, times)

    return contest(
        settings,
        Row(
            "composition",
            f"gradient of the last W_KQ, k={blocks} N={alphabet} d={stream * T}, {way}",
            unit="sample",
            mirror="dense attention",
            error=relative_error([(found, theirs)]),
        ),
        our_work(way, stage, batch if way == "structured" else counted, drawn),
        every(mirror),
        lambda: every(TorchMirror(stage.model, device).compiled()),
        tolerance=1e-4,
    )


def jobs(settings: Settings) -> list[Job]:
    return [Job(f"gradient of the last W_KQ, {way}", partial(row, way)) for way in ("structured", "integer")]
