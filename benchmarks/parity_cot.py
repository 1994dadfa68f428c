"""A training step of the GPT-2-like decoder on parities: plain PyTorch, and Stairwise.

A step is everything: sequences, forward, cross-entropy, gradient, Adam, at the paper's width 720. On the CPU one layer
(dense in PyTorch against tables over position x bit); on a GPU four layers in bfloat16, with the rate of model flops as
a share of what a large matrix product reaches. Loss and gradients are compared in float32.
"""

import statistics
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from benchmarks.accelerator import matrix_rate
from benchmarks.mirror import full_precision, relative_error, tensor, waiting
from benchmarks.row import Job, Row, Settings, Work, contest
from stairwise import compiler
from stairwise.nn.transformer import Transformer
from stairwise.papers.parity_cot import train
from stairwise.papers.parity_cot.config.task import PaddedTask
from stairwise.papers.parity_cot.config.training import Decoder, Training
from stairwise.papers.parity_cot.decoder import cross_entropy, logits_of
from stairwise.papers.parity_cot.structured import attention_of
from stairwise.papers.parity_cot.task import Problem
from stairwise.train.gradient import gradient_training
from stairwise.train.loop import RunningTrial

STEPS = 20  # of one timed call on a GPU
CHECKED = 32  # sequences on which the two sides are compared


class TorchBlock(nn.Module):
    def __init__(self, width: int, heads: int, causal: bool = True):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.attention_norm, self.mlp_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.expand, self.contract = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.attention_norm(x)).reshape(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=self.causal)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.contract(F.gelu(self.expand(self.mlp_norm(x)), approximate="tanh"))


class TorchDecoder(nn.Module):
    """GPT-2 on {0, 1}, with the weights of ours."""

    def __init__(self, model: Transformer, heads: int):
        super().__init__()
        length, width = model.positions.table.shape  # type: ignore[attr-defined]
        self.tokens, self.places = nn.Embedding(2, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(TorchBlock(width, heads) for _ in model.blocks)
        self.norm = nn.LayerNorm(width)
        for own, theirs in self.pairs(model):
            own.data.copy_(tensor(theirs))

    def pairs(self, model: Transformer) -> list[tuple[nn.Parameter, Any]]:
        """Our arrays (of weights or of gradients) in PyTorch's layout, each beside the parameter it belongs to."""
        found = [(self.tokens.weight, model.table), (self.places.weight, model.positions.table)]  # type: ignore
        found += [(self.norm.weight, model.norm.weight), (self.norm.bias, model.norm.bias)]  # type: ignore
        for own, ours in zip(self.blocks, model.blocks, strict=True):
            for name in ("attention_norm", "mlp_norm"):
                layer, theirs = getattr(own, name), getattr(ours, name)
                found += [(layer.weight, theirs.weight), (layer.bias, theirs.bias)]
            attention = attention_of(ours)
            linear = {"qkv": attention.qkv, "out": attention.out}
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
        self.absorbs = tensor(np.asarray(problem.absorbs, dtype=np.float32), device)
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


def agreement(model: Transformer, problem: Problem, heads: int, device: str) -> float:
    """Largest relative difference of loss and gradients."""
    module = TorchDecoder(model, heads).to(device)
    tokens = TorchSequences(problem, CHECKED, device).draw()
    ours = jnp.asarray(tokens.cpu().numpy(), dtype=jnp.int8)

    def loss_of(model):
        return cross_entropy(logits_of(model, problem.layout, ours), problem.labels(ours), problem.live)

    with full_precision():
        value, gradient = jax.jit(jax.value_and_grad(loss_of))(model)
        theirs = torch_loss(module, problem, tokens)
        theirs.backward()
    return relative_error([(value, theirs), *((array, own.grad) for own, array in module.pairs(gradient))])


def our_steps(config: Training, steps: int, graph: bool = True) -> tuple[Work, Transformer, Problem]:
    """Some training steps in one compiled loop, the model they start from, and the problem."""
    options = compiler.for_stage(graph=True) if graph else {}
    trial, key = RunningTrial(jax.tree.map(jnp.asarray, config), jnp.uint32(0)), jax.random.key(0)
    stage = gradient_training(**train.steps(), steps=steps, steps_per_tick=steps)
    start = jax.jit(partial(stage.init, trial, None))(key)

    def ticking(state: Any, t: Any) -> Any:
        return stage.tick(trial, state, key, t)

    advance = jax.jit(ticking, donate_argnums=0, compiler_options=options or None)
    held = {"state": jax.tree.map(jnp.copy, start), "ticks": 0}

    def work() -> None:
        held["state"] = jax.block_until_ready(advance(held["state"], jnp.int32(held["ticks"])))
        held["ticks"] += 1

    return Work(work, steps), start.model, start.aux


def in_float32(model: Transformer, config: Training) -> Transformer:
    """The same weights in the model that computes in float32; only its shape is made anew, and nothing compiled."""
    exact = replace(config, model=replace(config.model, compute="float32"))
    shape = jax.eval_shape(lambda: train.decoder(exact, jax.random.key(0)))
    return jax.tree.unflatten(jax.tree.structure(shape), jax.tree.leaves(model))


def torch_steps(model: Transformer, problem: Problem, config: Training, settings: Settings, compile: bool) -> Work:
    """The same training in PyTorch, with the weights of ours."""
    device, half = settings.torch_device, config.model.compute == "bfloat16"
    module: nn.Module = TorchDecoder(model, config.model.heads).to(device)
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-4, fused=True)
    sequences = TorchSequences(problem, config.batch, device)
    called = torch.compile(module) if compile else module
    times = STEPS if settings.device == "gpu" else 1
    return waiting(partial(torch_step, called, optimizer, problem, sequences, half), device, times=times)


def model_flops(config: Training, length: int) -> float:
    """Of a dense step: 6 for every weight and position, and attention's own products."""
    width, layers = config.model.width, config.model.layers
    positions = config.batch * length
    return 6.0 * positions * 12 * layers * width**2 + 6.0 * positions * layers * 2 * length * width


def config_of(cot: bool, decoder: Decoder, batch: int) -> Training:
    return Training(
        task=PaddedTask(bits=30, size=3, padding=3, cot=cot), model=decoder, learning_rate=1e-4, batch=batch,
        look=batch, budget=10_000 * batch, test_examples=batch, clip=0.0,
    )  # fmt: skip


def row(cot: bool, settings: Settings) -> Row:
    gpu, width = settings.device == "gpu", 16 if settings.tiny else 720
    layers, heads = (4, 4) if gpu else (1, 1)
    decoder = Decoder(width=width, layers=layers, heads=heads, std=0.02, compute="bfloat16" if gpu else "float32")
    config = config_of(cot, decoder, 8 if settings.tiny else 512 if gpu else 128)
    work, model, problem = our_steps(config, STEPS if gpu else 1)
    plain = in_float32(model, config)
    layer = f"{layers} layers, {heads} heads, bfloat16" if gpu else "one layer, one head"
    chain = "with CoT" if cot else "no CoT"
    made = contest(
        settings,
        Row(
            "parity_cot",
            f"a training step, {layer}, width {width}, batch {config.batch}, n=30 k=3 {chain}",
            mirror="autocast, fused Adam" if gpu else "dense, fused Adam",
            error=agreement(plain, problem, heads, settings.torch_device),
        ),
        work,
        torch_steps(model, problem, config, settings, compile=False),
        lambda: torch_steps(model, problem, config, settings, compile=True),
        profiled=our_steps(config, STEPS, graph=False)[0] if gpu else None,
        tolerance=1e-3,
    )
    if not gpu or not made.ours:
        return made
    return with_rate(made, model_flops(config, problem.layout.length), matrix_rate(256 if settings.tiny else 8192))


def with_rate(row: Row, flops: float, top: float, precision: str = "bfloat16") -> Row:
    """The row with its rate of model flops, at the median, and the share of the measured matrix rate that it is."""
    rate = flops / (statistics.median(row.ours) / 1e3)
    rates = {
        "model TFLOP/s": rate / 1e12,
        f"{precision} matrix TFLOP/s": top / 1e12,
        "share of matrix rate": rate / top,
    }
    return replace(row, facts={**row.facts, **rates})


def jobs(settings: Settings) -> list[Job]:
    chains = {"no CoT": False, "with CoT": True}
    return [Job(f"a training step of the decoder, {name}", partial(row, cot)) for name, cot in chains.items()]
