"""A key-query gradient of Algorithm 1's last stage: dense attention (JAX and plain PyTorch), and Stairwise's two ways.

The dense versions multiply full d x d matrices, W_OV included; `structured` is our soft attention; `integer` counts
block indices, and its time includes drawing its samples. All on one core of the same machine in the same process, after
the gradients have been checked against each other at saturated layers.

python -m benchmarks.composition [--blocks 16] [--alphabet 5] [--batch 16] [--repeats 5] [--large]
"""

import argparse
import json
import os
import resource
import sys
import time
from functools import partial

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import jax
import jax.numpy as jnp
import numpy as np
import torch

from benchmarks.timing import repeat, row, show
from stairwise.lab.config import split
from stairwise.papers.composition import integer, rules, train
from stairwise.papers.composition.config import Descent, Task
from stairwise.papers.composition.constructions import theorem4
from stairwise.papers.composition.model import AttentionOnly, untrained
from stairwise.papers.composition.task import Composition, draw_hidden
from stairwise.train.loop import Hooks, Member, Program

COUNTED = 4096  # samples of one call of the integer way


def stage_model(hidden, t: int) -> AttentionOnly:
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


class TorchMirror:
    """The transformer of Definition 3 in eager PyTorch; the last key-query matrix has a gradient."""

    def __init__(self, model: AttentionOnly):
        key_query, value, readout = dense_weights(model)
        self.key_query = [torch.from_numpy(W) for W in key_query]
        self.key_query[-1].requires_grad_(True)
        self.value, self.readout = [torch.from_numpy(W) for W in value], torch.from_numpy(np.array(readout))

    def gradient(self, X: torch.Tensor, queries: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        for W, V in zip(self.key_query, self.value, strict=True):
            X = X + V @ X @ torch.softmax(X.mT @ W @ X, dim=1)
        column = X[torch.arange(len(X)), :, queries]
        loss = torch.nn.functional.cross_entropy(column @ self.readout, labels)
        return torch.autograd.grad(loss, self.key_query[-1])[0]


def dense_gradient(value, readout, key_query, X, queries, labels):
    """The same in JAX."""

    def loss(last):
        stream = X
        for W, V in zip([*key_query[:-1], last], value, strict=True):
            stream = stream + V @ stream @ jax.nn.softmax(stream.mT @ W @ stream, axis=1)
        column = jnp.take_along_axis(stream, queries[:, None, None], axis=2)[:, :, 0]
        return jnp.mean(rules.cross_entropy(column @ readout, labels))

    return jax.grad(loss)(key_query[-1])


def structured_gradient(task: Composition, model: AttentionOnly, t: int, sequences, queries):
    def loss(last):
        changed = AttentionOnly((*model.key_query[:t], last), model.readout, plan=model.plan)
        return jnp.mean(jax.vmap(partial(rules.one_hop_loss, t, task, changed))(sequences, queries))

    return jax.grad(loss)(model.key_query[t])


def counted_gradient(task: Composition, model: AttentionOnly, t: int, sequences, queries):
    counts = integer.add_pairs(integer.no_counts(t, task.tokens), model.plan, t, task.hidden, sequences, queries)
    return integer.key_query_gradient(counts, task.alphabet, 1.0, len(sequences))


def compare(blocks: int, alphabet: int, batch: int, repeats: int) -> None:
    hidden = draw_hidden(jax.random.key(0), blocks, alphabet)
    task, t = Composition(hidden), blocks.bit_length() - 1
    model = stage_model(hidden, t)
    sequences, queries = train.draw_samples(task, jax.random.key(1), 0, batch)
    labels = jax.vmap(lambda s, q: task.hop(s, blocks).reshape(-1)[q])(sequences, queries)
    stream, T = model.readout.shape[1:3]
    X = dense_inputs(np.asarray(sequences), stream)
    mirror = TorchMirror(model)
    for_torch = [
        torch.from_numpy(np.array(one)) for one in (X, np.asarray(queries, np.int64), np.asarray(labels, np.int64))
    ]
    key_query, value, readout = (jax.tree.map(jnp.asarray, part) for part in dense_weights(model))

    dense = jax.jit(dense_gradient)
    structured = partial(jax.jit(structured_gradient, static_argnums=2), task, model, t)
    counted = partial(jax.jit(counted_gradient, static_argnums=2), task, model, t)

    @jax.jit
    def draw_and_count(key):
        return counted_gradient(task, model, t, *train.draw_samples(task, key, 0, COUNTED))

    work = {
        "PyTorch eager, dense": lambda: mirror.gradient(*for_torch),
        "JAX, dense": lambda: jax.block_until_ready(dense(value, readout, key_query, jnp.asarray(X), queries, labels)),
        "Stairwise, structured": lambda: jax.block_until_ready(structured(sequences, queries)),
    }
    full = np.asarray(dense(value, readout, key_query, jnp.asarray(X), queries, labels))
    reference = full.reshape(stream, T, stream, T).transpose(0, 2, 1, 3)[: t + 2, : t + 2]
    theirs = mirror.gradient(*for_torch).numpy().reshape(stream, T, stream, T).transpose(0, 2, 1, 3)[: t + 2, : t + 2]
    differences = {
        name: float(np.abs(np.asarray(found) - reference).max() / np.abs(reference).max())
        for name, found in (
            ("PyTorch", theirs),
            ("structured", structured(sequences, queries)),
            ("integer", counted(sequences, queries)),
        )
    }
    if max(differences.values()) > 1e-4:
        sys.exit(f"the gradients differ: {differences}")
    taken = {name: repeat(one, repeats) for name, one in work.items()}
    counting = repeat(lambda: jax.block_until_ready(draw_and_count(jax.random.key(2))), repeats)
    rows = [row(name, seconds, batch) for name, seconds in taken.items()]
    for reference_name in ("JAX, dense", "PyTorch eager, dense"):
        milliseconds = [1e3 * value / batch for value in taken[reference_name]]
        against = f"against {reference_name}"
        rows.append(row(f"structured, {against}", taken["Stairwise, structured"], batch, milliseconds))
        rows.append(row(f"integer, {against}", counting, COUNTED, milliseconds))
    facts = {"k": blocks, "N": alphabet, "d": stream * T, "batch": batch, "threads": 1, **differences}
    show(
        f"composition: gradient of the last layer's W_KQ per sample, k={blocks} N={alphabet} d={stream * T}, one core",
        rows,
        facts,
    )


def large(blocks: int, alphabet: int) -> None:
    """Algorithm 1 by counts at k = 64, with evaluation, from a cold start."""
    task = Task(blocks, alphabet)
    block = 1024
    needed = 48 * task.tokens * (task.layers + 1) ** 2
    samples = -(-needed // block) * block
    margin = (alphabet - 1) / (blocks * alphabet**2) / task.tokens
    config = Descent(
        task=task, path="integer", samples=samples, block=block, rate=2000 / margin, guard_sequences=4, test_sequences=4
    )
    static, numbers = split(config)
    began, marks = time.perf_counter(), []

    class Clock(Hooks):
        def progress(self, stage, tick, max_ticks, metrics):
            marks.append((tick, time.perf_counter() - began))

    counting = train.descent(static)[:1]  # where its guard stops it, it stays: soft attention at k=64 needs a large GPU
    outcome = Program(counting).run([Member(0, numbers)], Clock())[0]
    total = time.perf_counter() - began
    last = config.ticks * (config.turns - 2)  # the last key-query step begins here
    times = dict(marks)
    stage = times[last + config.ticks] - times[last]
    facts = {
        f"accuracy {layer.hops}": outcome.last(f"accuracy {layer.hops} hop{'s' if layer.hops > 1 else ''}")
        for layer in task.plan
    }
    facts |= {"samples a step": samples, "last key-query step, s": round(stage, 1), "whole run, s": round(total, 1)}
    facts |= {"peak, MB": peak_here(), "steps taken": f"{outcome.last('steps taken'):.0f} of {config.turns}"}
    facts |= {"leak below the last step": outcome.last("leak below")}
    print(json.dumps({"title": f"k={blocks} N={alphabet}, integer path, compile and evaluation included", **facts}))


def peak_here() -> float:
    """Peak resident memory of this process in MB."""
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--blocks", type=int)
    arguments.add_argument("--alphabet", type=int, default=5)
    arguments.add_argument("--batch", type=int, default=16, help="samples of one dense or structured gradient")
    arguments.add_argument("--repeats", type=int, default=5)
    arguments.add_argument("--large", action="store_true", help="only the whole run at k=64 (or --blocks) by counts")
    options = arguments.parse_args()
    torch.set_num_threads(1)
    if options.large:
        return large(options.blocks or 64, options.alphabet)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    compare(options.blocks or 16, options.alphabet, options.batch, options.repeats)


if __name__ == "__main__":
    main()
