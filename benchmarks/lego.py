"""Greedy roll-out of the one-layer decoder against length: full recomputation in plain PyTorch, and Stairwise's cache.

`PyTorch, full` runs the usual causal transformer over the whole sentence for every clause it generates; `PyTorch, last`
is the same with queries, FFN and heads at the last clause only. Stairwise computes keys and values once a clause, and
one compiled program serves all lengths. One core, same process, same weights; the generated tokens are compared first.

python -m benchmarks.lego [--action C6] [--width 256] [--batch 8] [--lengths 10 20 40 80 160] [--repeats 3]
"""

import argparse
import os
import sys
import time
from collections.abc import Callable
from functools import partial

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import jax
import jax.numpy as jnp
import numpy as np
import torch
from torch.nn import functional

from benchmarks.timing import repeat, row, show
from stairwise.papers.lego.decoder import Decoder
from stairwise.papers.lego.evaluate import cut
from stairwise.papers.lego.rollout import roll_out
from stairwise.papers.lego.task import Lego, lego
from stairwise.papers.lego.theory.chains import drawn


class TorchDecoder:
    """The decoder (no positions, norms, both residuals) in eager PyTorch, on a batch of sentences."""

    def __init__(self, model: Decoder):
        def tensor(array) -> torch.Tensor:
            return torch.from_numpy(np.array(array, dtype=np.float32))

        self.heads = model.heads
        self.table = tensor(model.table.at[:, 0].set(0))
        self.query, self.key_value, self.out = (
            (tensor(layer.weight), tensor(layer.bias)) for layer in (model.query, model.key_value, model.out)
        )
        self.expand, self.contract = (
            (tensor(layer.weight), tensor(layer.bias)) for layer in (model.mlp.expand, model.mlp.contract)
        )
        self.unembedding = tensor(model.unembedding)

    def norm(self, x: torch.Tensor) -> torch.Tensor:
        return functional.rms_norm(x, x.shape[-1:], eps=1e-5)

    def __call__(self, clauses: torch.Tensor, last_only: bool) -> torch.Tensor:
        """Logits after the last clause."""
        batch, _, slots = clauses.shape
        embedded = self.table[torch.arange(slots), clauses].sum(dim=2)
        x = self.norm(embedded)
        asking = slice(-1, None) if last_only else slice(None)
        keys, values = (x @ self.key_value[0] + self.key_value[1]).chunk(2, dim=-1)
        query = x[:, asking] @ self.query[0] + self.query[1]

        def split(part: torch.Tensor) -> torch.Tensor:
            return part.reshape(batch, -1, self.heads, part.shape[-1] // self.heads).transpose(1, 2)

        attended = functional.scaled_dot_product_attention(
            split(query), split(keys), split(values), is_causal=not last_only
        )
        merged = attended.transpose(1, 2).reshape(batch, -1, x.shape[-1])
        stream = embedded[:, asking] + merged @ self.out[0] + self.out[1]
        hidden = functional.gelu(self.norm(stream) @ self.expand[0] + self.expand[1], approximate="tanh")
        stream = self.norm(stream + hidden @ self.contract[0] + self.contract[1])
        return torch.einsum("bkw,swv->bksv", stream, self.unembedding)[:, -1]

    @torch.no_grad()
    def roll_out(self, clauses: torch.Tensor, steps: int, last_only: bool) -> torch.Tensor:
        for _ in range(steps):
            following = self(clauses, last_only).argmax(dim=-1)
            clauses = torch.cat([clauses, following[:, None]], dim=1)
        return clauses[:, -steps:]


def sentences(task: Lego, batch: int):
    chains = drawn(task, 0, batch)
    return jax.vmap(task.predicates)(chains), jax.vmap(task.answers)(chains)[:, 0], chains


def compare(action: str, variables: int, width: int, batch: int, lengths: list[int], repeats: int) -> None:
    longest = max(lengths)
    task = lego(action, variables, longest)
    # weights away from their start, so that roll-outs do not settle on one clause
    model = Decoder(vocabulary=task.vocabulary, width=width, heads=2, key=jax.random.key(0))
    model = jax.tree.map(lambda leaf: 1.5 * leaf if leaf.ndim > 1 else leaf, model)
    mirror = TorchDecoder(model)
    predicates, start, chains = sentences(task, batch)
    program = jax.jit(jax.vmap(partial(roll_out, model), in_axes=(0, 0, None)))
    began = time.perf_counter()
    jax.block_until_ready(program(predicates, start, jnp.int32(1)))
    compiling = time.perf_counter() - began

    rows, ratios, milliseconds = [], {}, {}
    for length in lengths:
        shorter = lego(action, variables, length)
        prompt = torch.from_numpy(
            np.asarray(jax.vmap(shorter.clauses)(cut(chains, length)), dtype=np.int64)[:, : length + 1]
        )
        ours: Callable[[], object] = partial(_ours, program, predicates, start, length)
        full = partial(mirror.roll_out, prompt, length, last_only=False)
        last = partial(mirror.roll_out, prompt, length, last_only=True)
        made = np.asarray(ours())[:, :length]
        for name, theirs in (("full", full()), ("last", last())):
            if not np.array_equal(made, theirs.numpy()):
                share = float(np.mean(made == theirs.numpy()))
                sys.exit(f"the tokens differ at L={length} ({name}): {share:.4f} agree")
        slow, lean = repeat(full, 1 if length > 40 else repeats), repeat(last, repeats)
        fast = repeat(ours, repeats)
        rows.append(row(f"L={length}: PyTorch, full", slow, length))
        rows.append(row(f"L={length}: PyTorch, last", lean, length))
        reference, leaner = ([1e3 * value / length for value in taken] for taken in (slow, lean))
        rows.append(row(f"L={length}: Stairwise against full", fast, length, reference))
        rows.append(row(f"L={length}: Stairwise against last", fast, length, leaner))
        ratios[length], milliseconds[length] = rows[-2]["ratio"], 1e3 * float(np.median(fast))
    facts = {
        "action": action,
        "width": width,
        "batch": batch,
        "threads": 1,
        "programs compiled": program._cache_size(),  # type: ignore[attr-defined]
        "compile, s": round(compiling, 1),
        "ms a roll-out": {str(length): round(value, 2) for length, value in milliseconds.items()},
        "times faster": {str(length): round(value, 1) for length, value in ratios.items()},
    }
    show(f"lego: greedy roll-out of {batch} sentences a clause, {action}, width {width}, one core", rows, facts)


def _ours(program: Callable[..., jax.Array], predicates, start, length: int):
    return jax.block_until_ready(program(predicates, start, jnp.int32(length)))


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--action", default="C6")
    arguments.add_argument("--variables", type=int, default=170)
    arguments.add_argument("--width", type=int, default=256)
    arguments.add_argument("--batch", type=int, default=8, help="sentences rolled out side by side")
    arguments.add_argument("--lengths", type=int, nargs="+", default=[10, 20, 40, 80, 160])
    arguments.add_argument("--repeats", type=int, default=3)
    options = arguments.parse_args()
    torch.set_num_threads(1)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    compare(options.action, options.variables, options.width, options.batch, options.lengths, options.repeats)


if __name__ == "__main__":
    main()
