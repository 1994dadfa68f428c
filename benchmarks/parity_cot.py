"""A training step of the GPT-2-like decoder on parities: plain PyTorch, and Stairwise.

A step is everything: sequences, forward, cross-entropy, gradient, Adam, at the paper's width 720. On the CPU one layer
(eager PyTorch against tables over position x bit) on one core; with --gpu four layers in bfloat16 against eager and
compiled PyTorch, and the rate of model flops as a share of what a large matrix product reaches. All in one process on
one machine, after loss and gradients have been checked against each other.

python -m benchmarks.parity_cot [--batch 128] [--width 720] [--repeats 3] [--gpu]
"""

import argparse
import os
import sys
import time
from collections.abc import Callable
from functools import partial

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # leaves room for PyTorch
if "--gpu" not in sys.argv:
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import jax
import jax.numpy as jnp
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from benchmarks.timing import repeat, row, show
from stairwise.lab.config import split
from stairwise.nn.transformer import Transformer
from stairwise.papers.parity_cot import train
from stairwise.papers.parity_cot.config.task import PaddedTask
from stairwise.papers.parity_cot.config.training import Decoder, Training
from stairwise.papers.parity_cot.decoder import cross_entropy, logits_of
from stairwise.papers.parity_cot.task import Problem, problem_of

STEPS = 20  # of one timed call on the GPU


class TorchBlock(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.attention_norm, self.mlp_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.expand, self.contract = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.attention_norm(x)).reshape(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.contract(F.gelu(self.expand(self.mlp_norm(x)), approximate="tanh"))


class TorchDecoder(nn.Module):
    """GPT-2 on {0, 1}, with the weights of ours."""

    def __init__(self, model: Transformer, width: int, heads: int):
        super().__init__()
        length = model.positions.table.shape[0]  # type: ignore[attr-defined]
        self.tokens, self.places = nn.Embedding(2, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(TorchBlock(width, heads) for _ in model.blocks)
        self.norm = nn.LayerNorm(width)
        for own, theirs in self.pairs(model):
            own.data.copy_(torch.from_numpy(np.array(theirs, dtype=np.float32)))

    def pairs(self, model: Transformer) -> list[tuple[nn.Parameter, np.ndarray]]:
        """Our arrays (of weights or of gradients) in PyTorch's layout, each beside the parameter it belongs to."""
        found = [(self.tokens.weight, model.table), (self.places.weight, model.positions.table)]  # type: ignore
        found += [(self.norm.weight, model.norm.weight), (self.norm.bias, model.norm.bias)]  # type: ignore
        for own, ours in zip(self.blocks, model.blocks, strict=True):
            for name in ("attention_norm", "mlp_norm"):
                layer, theirs = getattr(own, name), getattr(ours, name)
                found += [(layer.weight, theirs.weight), (layer.bias, theirs.bias)]
            linear = {"qkv": ours.attention.qkv, "out": ours.attention.out}
            for name, theirs in (linear | {"expand": ours.mlp.expand, "contract": ours.mlp.contract}).items():
                layer = getattr(own, name)
                found += [(layer.weight, theirs.weight.T), (layer.bias, theirs.bias)]
        return found

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.tokens.weight.T


def torch_loss(decoder: Callable, problem: Problem, tokens: torch.Tensor) -> torch.Tensor:
    first, rows = problem.layout.first, problem.layout.rows
    logits = decoder(tokens[:, : problem.layout.length])[:, first : first + rows]
    return F.cross_entropy(logits.reshape(-1, 2).float(), tokens[:, first + 1 : first + 1 + rows].reshape(-1))


class TorchSequences:
    """Random sequences of the same task, made on the device."""

    def __init__(self, problem: Problem, batch: int, device: str):
        self.absorbs = torch.from_numpy(np.array(problem.absorbs, dtype=np.float32)).to(device)
        self.batch, self.device = batch, device

    def draw(self) -> torch.Tensor:
        bits = torch.randint(0, 2, (self.batch, self.absorbs.shape[1]), device=self.device)
        steps = (bits.float() @ self.absorbs.T).cumsum(1).long() % 2
        return torch.cat([bits, torch.zeros(self.batch, 1, dtype=torch.long, device=self.device), steps], dim=1)


def torch_step(decoder, optimizer, problem: Problem, sequences: TorchSequences, half: bool) -> None:
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast(sequences.device, dtype=torch.bfloat16, enabled=half):
        loss = torch_loss(decoder, problem, sequences.draw())
    loss.backward()
    optimizer.step()


def largest_difference(model: Transformer, decoder: TorchDecoder, problem: Problem, tokens) -> float:
    """Of loss and gradients, relative to their scale, in the precision of the run."""

    def loss_of(model):
        return cross_entropy(logits_of(model, problem.layout, tokens), problem.labels(tokens), problem.live)

    value, gradient = jax.jit(jax.value_and_grad(loss_of))(model)
    theirs = torch_loss(decoder, problem, torch.from_numpy(np.array(tokens, dtype=np.int64)))
    theirs.backward()
    differences = [abs(float(value) - theirs.item()) / theirs.item()]
    for own, ours in decoder.pairs(gradient):
        assert own.grad is not None
        expected = own.grad.numpy()
        differences.append(float(np.abs(expected - np.asarray(ours)).max() / max(np.abs(expected).max(), 1e-8)))
    decoder.zero_grad()
    return max(differences)


def problem_and_numbers(config: Training):
    static, numbers = split(config)
    numbers = {name: jnp.asarray(value) for name, value in numbers.items()} | {"seed": jnp.uint32(0)}
    return static, numbers, problem_of(config.task, numbers)


def our_steps(config: Training, steps: int) -> tuple[Callable[[], object], Transformer, Problem]:
    """A call that takes some training steps in one compiled loop, the model it starts from, and the problem."""
    static, numbers, problem = problem_and_numbers(config)
    state = jax.jit(partial(train.init, static, numbers, None))(jax.random.key(0))

    @partial(jax.jit, donate_argnums=0)
    def advance(trained, begin):
        return jax.lax.fori_loop(0, steps, lambda i, s: train.step(static, numbers, problem, s, begin + i), trained)

    copied = jax.tree.map(jnp.copy, (state.model, state.memory, state.loss))
    held = {"trained": copied, "done": 0}

    def work():
        held["trained"] = jax.block_until_ready(advance(held["trained"], jnp.int32(held["done"])))
        held["done"] += steps

    return work, state.model, problem


def one_layer(cot: bool, batch: int, width: int, repeats: int) -> None:
    size = 3
    config = Training(
        task=PaddedTask(inputs=30, size=size, padding=size, cot=cot),
        decoder=Decoder(width=width, layers=1, heads=1, std=0.02),
        rate=1e-4, batch=batch, look=batch, budget=1000 * batch, validation=batch, clip=0.0,
    )  # fmt: skip
    work, model, problem = our_steps(config, 1)
    decoder, sequences = TorchDecoder(model, width, 1), TorchSequences(problem, batch, "cpu")
    tokens = jnp.asarray(sequences.draw().numpy(), dtype=jnp.int8)
    difference = largest_difference(model, decoder, problem, tokens)
    if difference > 1e-3:
        sys.exit(f"loss or gradients differ by {difference:.2g}")
    optimizer = torch.optim.Adam(decoder.parameters(), lr=1e-4)
    theirs = repeat(lambda: torch_step(decoder, optimizer, problem, sequences, False), repeats)
    ours = repeat(work, 3 * repeats)
    rows = [row("PyTorch eager", theirs, 1), row("Stairwise, tables", ours, 1, [1e3 * value for value in theirs])]
    chain = f"k={size} with CoT" if cot else "without CoT"
    facts = {"width": width, "batch": batch, "difference": difference, "threads": 1}
    show(f"parity_cot: a training step, one layer, one head, n=30, {chain}, one core", rows, facts)


def matrix_rate() -> float:
    """Flops a second of a large bfloat16 matrix product, the best of several."""
    size = 8192
    a = jnp.ones((size, size), dtype=jnp.bfloat16)
    product = jax.jit(lambda a: jax.lax.fori_loop(0, 10, lambda _, x: (a @ x) * jnp.bfloat16(1 / size), a))
    return 10 * 2 * size**3 / min(repeat(lambda: jax.block_until_ready(product(a)), 5))


def model_flops(config: Training, length: int) -> float:
    """Of a dense step: 6 for every weight and position, and attention's own products."""
    width, layers = config.decoder.width, config.decoder.layers
    positions = config.batch * length
    return 6.0 * positions * 12 * layers * width**2 + 6.0 * positions * layers * 2 * length * width


def deep(cot: bool, batch: int, width: int, repeats: int) -> None:
    """Four layers, four heads in bfloat16 on the GPU."""
    decoder = Decoder(width=width, layers=4, heads=4, std=0.02, compute="bfloat16")
    config = Training(
        task=PaddedTask(inputs=30, size=3, padding=3, cot=cot), decoder=decoder, rate=1e-4, batch=batch, look=batch,
        budget=10_000 * batch, validation=batch, clip=0.0,
    )  # fmt: skip
    work, model, problem = our_steps(config, STEPS)
    sequences = TorchSequences(problem, batch, "cuda")
    taken = {"Stairwise": repeat(work, repeats)}
    for name in ("PyTorch eager", "PyTorch compiled"):
        module: nn.Module = TorchDecoder(model, width, 4).to("cuda")
        optimizer = torch.optim.Adam(module.parameters(), lr=1e-4, fused=True)
        called = torch.compile(module) if name.endswith("compiled") else module

        def many(called=called, optimizer=optimizer):
            for _ in range(STEPS):
                torch_step(called, optimizer, problem, sequences, True)
            torch.cuda.synchronize()

        try:
            taken[name] = repeat(many, repeats)
        except Exception as error:  # torch.compile needs a C compiler, which a bare machine may not have
            print(f"{name} did not run: {str(error).splitlines()[0]}")
    ours = min(taken["Stairwise"]) / STEPS
    flops, top = model_flops(config, problem.layout.length) / ours, matrix_rate()
    rows = [row("Stairwise", taken["Stairwise"], STEPS)]
    for name in list(taken)[1:]:
        reference = [1e3 * value / STEPS for value in taken[name]]
        rows += [row(name, taken[name], STEPS), row(f"Stairwise, against {name}", taken["Stairwise"], STEPS, reference)]
    facts = {"batch": batch, "width": width, "model TFLOP/s": flops / 1e12, "bf16 matrix TFLOP/s": top / 1e12}
    facts |= {"share": flops / top, "device": jax.devices()[0].device_kind}
    show(f"parity_cot: a training step, 4 layers, 4 heads, bfloat16, n=30, {'CoT' if cot else 'no CoT'}", rows, facts)


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--batch", type=int, help="sequences of a step (CPU: 128, GPU: 512)")
    arguments.add_argument("--width", type=int, default=720)
    arguments.add_argument("--repeats", type=int, default=3)
    arguments.add_argument("--gpu", action="store_true", help="only the four-layer step on the GPU")
    options = arguments.parse_args()
    began = time.perf_counter()
    if options.gpu:
        for cot in (False, True):
            deep(cot, options.batch or 512, options.width, options.repeats)
    else:
        torch.set_num_threads(1)
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        for cot in (False, True):
            one_layer(cot, options.batch or 128, options.width, options.repeats)
    print(f"{time.perf_counter() - began:.0f} s in all")


if __name__ == "__main__":
    main()
