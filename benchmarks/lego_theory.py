"""The theory's transformer, value token: gathers (Stairwise) against 5d-wide products (JAX and plain PyTorch).

One core, one process, float32, after all three have been checked against each other. The dense forms get embedded
clauses as input and W as one matrix of 5d rows, so that their time is that of one good matrix product. A gather does
5d/(3L+2l) times fewer multiplications (46 at these sizes), each at a lower rate: the ratio in time grows with d.

python -m benchmarks.lego_theory [--action C6] [--variables 161] [--length 5] [--step 2] [--neurons 12] [--batch 8]
"""

import argparse
import os
import sys

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import jax
import jax.numpy as jnp
import numpy as np
import torch

from benchmarks.timing import repeat, row, show
from stairwise.papers.lego import model as models
from stairwise.papers.lego.task import lego
from stairwise.papers.lego.theory import chains, literal


def network(task, neurons: int) -> models.Transformer:
    """Random W and random Q43, Q44."""
    key, d = jax.random.key(0), task.vocabulary
    settings = {"sigma0": 0.3, "bias": 0.05, "clip": 20.0, "rho": 0.8, "q": 4}
    model = models.initial(key, d, neurons, positions=1, **settings)
    blocks = jax.random.normal(jax.random.fold_in(key, 1), (2, d, d), dtype=jnp.float32)
    scores = models.SparseScores(blocks[0], blocks[1])
    return models.Transformer(model.weights, scores, model.bias, model.clip, model.rho, model.q)


def dense_jax(W, Q, neurons: int, bias: float, clip: float, rho: float, q: int):
    """F of a batch of embedded contexts (batch, clauses, 5d), as Definition 3.5 writes it."""

    @jax.jit
    def run(W, Q, Z):
        scores = jnp.einsum("bi,ij,bkj->bk", Z[:, -1], Q, Z)
        mixed = jnp.einsum("bk,bki->bi", jax.nn.softmax(scores), Z)
        pre = (mixed @ W).reshape(len(Z), -1, neurons) + bias
        return jnp.minimum(models.smooth_relu(pre, rho, q).sum(axis=-1), clip)

    return lambda Z: run(W, Q, Z)


def dense_torch(W: np.ndarray, Q: np.ndarray, neurons: int, bias: float, clip: float, rho: float, q: int):
    """The same in PyTorch."""
    weights, scores = torch.tensor(W), torch.tensor(Q)

    def run(Z: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            logits = torch.einsum("bi,ij,bkj->bk", Z[:, -1], scores, Z)
            mixed = torch.einsum("bk,bki->bi", torch.softmax(logits, dim=-1), Z)
            pre = (mixed @ weights).reshape(len(Z), -1, neurons) + bias
            low = pre.clamp(0, rho)
            return (low**q / (q * rho ** (q - 1)) + (pre - rho).clamp(min=0)).sum(dim=-1).clamp(max=clip)

    return run


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--action", default="C6")
    for name, value in (("variables", 161), ("length", 5), ("step", 2), ("neurons", 12), ("batch", 8), ("repeats", 25)):
        parser.add_argument(f"--{name}", type=int, default=value)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    task = lego(chosen.action, chosen.variables, chosen.length)
    model, L = network(task, chosen.neurons), chosen.length
    told = chains.sentences(task, chains.drawn(task, 0, chosen.batch))[:, : L + chosen.step]
    clauses = jnp.asarray(told, dtype=jnp.int32)
    gather = jax.jit(lambda model, rows: jax.vmap(lambda clauses: model.logits(clauses, L)[0])(rows))

    written = literal.network_of(model)
    Q = written.scores.astype(np.float32)
    W = np.ascontiguousarray(written.weights[0].reshape(-1, Q.shape[0]).T, dtype=np.float32)  # 5d by d m
    constants = chosen.neurons, written.bias, written.clip, written.rho, written.q
    Z = np.stack([literal.embed(row, task.vocabulary) for row in told]).astype(np.float32)
    in_jax, in_torch = dense_jax(jnp.asarray(W), jnp.asarray(Q), *constants), dense_torch(W, Q, *constants)
    embedded, tensor = jnp.asarray(Z), torch.tensor(Z)

    found = np.asarray(gather(model, clauses))
    differences = {
        "JAX": float(np.abs(np.asarray(in_jax(embedded)) - found).max()),
        "PyTorch": float(np.abs(in_torch(tensor).numpy() - found).max()),
    }
    assert max(differences.values()) < 1e-4 * max(1.0, np.abs(found).max()), differences

    torch_seconds = repeat(lambda: in_torch(tensor), chosen.repeats)
    jax_seconds = repeat(lambda: jax.block_until_ready(in_jax(embedded)), chosen.repeats)
    seconds = repeat(lambda: jax.block_until_ready(gather(model, clauses)), chosen.repeats)
    dense = [1e3 * value for value in jax_seconds]
    plain = [1e3 * value for value in torch_seconds]
    rows = [
        row("dense products, PyTorch", torch_seconds, 1),
        row("dense products, JAX", jax_seconds, 1),
        row("gathers, against PyTorch", seconds, 1, plain),
        row("gathers, against dense JAX", seconds, 1, dense),
    ]
    counted = 5 * task.vocabulary / (3 * L + 2 * chosen.step)
    facts = {"differences": differences, "multiplications, dense over gathers": counted}
    show(
        f"value token, {chosen.action}, d={task.vocabulary}, {L + chosen.step} clauses, batch {chosen.batch}",
        rows,
        facts,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
