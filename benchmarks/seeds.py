"""What the experiments train: small transformers, several seeds side by side, against PyTorch one seed after another.

A step is everything: examples, forward, loss, gradient, Adam. Ours are steps of the training loop as it runs a group of
trials; PyTorch's are those of one seed. On a GPU each row has its rate of model flops (of the dense model, in which
every position goes through every layer) as a share of a large matrix product in the same precision.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import torch
from torch import nn
from torch.nn import functional as F

from benchmarks import parity_cot
from benchmarks.accelerator import matrix_rate
from benchmarks.mirror import full_precision, relative_error, tensor, waiting
from benchmarks.row import Job, Row, Settings, Work, contest
from stairwise.config import structure
from stairwise.papers.composition import encoder
from stairwise.papers.composition import presets as composition
from stairwise.papers.composition.config import Encoder
from stairwise.papers.lego import train as lego
from stairwise.papers.lego.config.practical import Practical
from stairwise.papers.lego.presets import practical
from stairwise.papers.lego.task import BLANK, SLOTS
from stairwise.papers.parity_cot import train as parity
from stairwise.papers.parity_cot.config.training import Training
from stairwise.papers.parity_cot.presets.arms import WIDE
from stairwise.papers.parity_cot.task import Layout
from stairwise.train.gradient import gradient_training
from stairwise.train.loop import Loop, Program, RunningTrial
from stairwise.train.stage import Stage

SEEDS = 8
STEPS = 20  # of one timed call


@dataclass(frozen=True)
class Contest:
    """A training on both sides; `loss` takes the module, or what compiles it, and a batch of ours as tensors."""

    work: str
    stage: Stage
    config: Any
    precision: str
    flops: float  # of a step of one seed
    module: Callable[[Any], nn.Module]  # of a model of ours, with its weights
    ours: Callable[[Any, Any], Any]
    batch: Callable[[RunningTrial, Any], Any]
    loss: Callable[[Any, Any], torch.Tensor]


def seeds(settings: Settings) -> int:
    return 2 if settings.tiny else SEEDS


def our_steps(contest: Contest, settings: Settings, graph: bool = True) -> tuple[Work, Any]:
    """Steps of all seeds as the training loop takes them, and the model that the first starts from."""
    width, stage, steps = seeds(settings), contest.stage, 2 if settings.tiny else STEPS
    program = Program([Stage(stage.name, stage.init, stage.tick, 10**6, graph=graph)], width).stages[0]
    config = jax.tree.map(lambda value: jnp.stack([jnp.asarray(value)] * width), contest.config)
    trial = RunningTrial(config, jnp.arange(width, dtype=jnp.uint32))
    state = program.init(trial, None)
    first = jax.tree.map(lambda leaf: jnp.copy(leaf[0]), state.model)
    held = Loop(jnp.int32(0), state, jnp.ones(width, dtype=bool), jnp.full(width, -1, dtype=jnp.int32))
    kept = {"loop": held, "ticks": 0}

    def work() -> None:
        kept["ticks"] += steps
        kept["loop"] = jax.block_until_ready(program.advance(trial, kept["loop"], jnp.int32(kept["ticks"])))

    return Work(work, steps * width), first


def drawn(contest: Contest) -> Any:
    """A batch of ours."""
    trial = RunningTrial(jax.tree.map(jnp.asarray, contest.config), jnp.uint32(0))
    return jax.jit(contest.batch)(trial, jax.random.key(1))


def agreement(contest: Contest, model: Any, batch: Any, device: str) -> float:
    """Largest relative difference of loss and gradients in float32."""
    module = contest.module(model).to(device)
    with full_precision():
        value, gradient = jax.jit(jax.value_and_grad(contest.ours))(model, batch)
        theirs = contest.loss(module, jax.tree.map(partial(tensor, device=device), batch))
        theirs.backward()
    pairs = module.pairs(gradient)  # type: ignore[operator]
    return relative_error([(value, theirs), *((array, own.grad) for own, array in pairs)])


def torch_steps(contest: Contest, model: Any, batch: Any, settings: Settings, compile: bool) -> Work:
    """Steps of one seed; its batch is one and the same, which costs PyTorch nothing."""
    device, half = settings.torch_device, contest.precision == "bfloat16"
    module = contest.module(model).to(device)
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-4, fused=True)
    called = torch.compile(module) if compile else module
    given = jax.tree.map(partial(tensor, device=device), batch)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, dtype=torch.bfloat16, enabled=half):
            loss = contest.loss(called, given)
        loss.backward()
        optimizer.step()

    return waiting(step, device, times=2 if settings.tiny else STEPS)


def row(make: Callable[[Settings, str], Contest], precision: str, settings: Settings) -> Row:
    contested, exact = make(settings, precision), make(settings, "float32")
    work, model = our_steps(contested, settings)
    # the same weights in the model that computes in float32
    plain = jax.eval_shape(
        lambda: exact.stage.init(RunningTrial(exact.config, jnp.uint32(0)), None, jax.random.key(0)).model
    )
    plain = jax.tree.unflatten(jax.tree.structure(plain), jax.tree.leaves(model))
    batch = drawn(exact)
    made = contest(
        settings,
        Row(
            "seeds",
            f"{contested.work}, {precision}, {seeds(settings)} seeds",
            unit="step of one seed",
            mirror="one seed after another, dense" + (", autocast" if precision == "bfloat16" else ""),
            error=agreement(exact, plain, batch, settings.torch_device),
        ),
        work,
        torch_steps(contested, plain, batch, settings, compile=False),
        lambda: torch_steps(contested, plain, batch, settings, compile=True),
        profiled=our_steps(contested, settings, graph=False)[0] if settings.device == "gpu" else None,
        tolerance=1e-3,
    )
    if settings.device != "gpu" or not made.ours:
        return made
    return parity_cot.with_rate(
        made, contested.flops, matrix_rate(256 if settings.tiny else 8192, precision), precision
    )


def dense(batch: int, length: int, layers: int, width: int) -> float:
    """Flops of a step of a dense transformer."""
    positions = batch * length
    return 6.0 * positions * 12 * layers * width**2 + 6.0 * positions * layers * 2 * length * width


# --- composition's encoder --------------------------------------------------------------------------------------------


class TorchEncoder(parity_cot.TorchDecoder):
    """It reads both ways, and its head is its own."""

    def __init__(self, model: Any, heads: int):
        nn.Module.__init__(self)
        (length, width), vocabulary, outputs = model.positions.table.shape, len(model.table), len(model.head)
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(parity_cot.TorchBlock(width, heads, causal=False) for _ in model.blocks)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, outputs, bias=False)
        for own, theirs in self.pairs(model):
            own.data.copy_(tensor(theirs))

    def pairs(self, model: Any) -> list[tuple[nn.Parameter, Any]]:
        return [*super().pairs(model), (self.get_parameter("head.weight"), model.head)]

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def of_encoder(settings: Settings, precision: str) -> Contest:
    config: Encoder = composition.ENCODER.presets["gpu"].config  # type: ignore[assignment]
    sizes = {"width": 16, "heads": 2} if settings.tiny else {}
    config = replace(config, model=replace(config.model, compute=precision, **sizes))
    config = replace(config, batch=8) if settings.tiny else config
    shape = config.model

    def loss(module, batch) -> torch.Tensor:
        tokens, labels, query = batch
        rows = torch.arange(len(tokens), device=tokens.device)
        return F.cross_entropy(module(tokens)[rows, 1 + query].float(), labels[rows, query])

    length = 1 + config.task.tokens
    sizes = f"{shape.layers} layers, width {shape.width}, {length} tokens, batch {config.batch}"
    return Contest(
        work=f"composition's encoder, {sizes}",
        stage=encoder.training(structure(config))[0],
        config=config,
        precision=precision,
        flops=dense(config.batch, length, shape.layers, shape.width),
        module=partial(TorchEncoder, heads=shape.heads),
        ours=partial(encoder.batch_loss, config),
        batch=lambda trial, key: encoder.batch(trial, None, None, key, jnp.int32(0)),
        loss=loss,
    )


# --- LEGO's decoder ---------------------------------------------------------------------------------------------------


class TorchClauses(nn.Module):
    """The practical decoder on clauses: answers look at all before them."""

    table: nn.Parameter
    unembedding: nn.Parameter
    first: nn.Parameter
    second: nn.Parameter
    last: nn.Parameter

    def __init__(self, model: Any, heads: int, predicates: int):
        super().__init__()
        self.heads, self.predicates = heads, predicates
        for name, array in self.arrays(model).items():
            self.register_parameter(name, nn.Parameter(tensor(array)))

    @staticmethod
    def arrays(model: Any) -> dict[str, Any]:
        linear = {"query": model.query, "memory": model.key_value, "out": model.out}
        linear |= {"expand": model.mlp.expand, "contract": model.mlp.contract}
        found = {
            f"{name}_{part}": getattr(layer, part) for name, layer in linear.items() for part in ("weight", "bias")
        }
        norms = {"first": model.attention_norm, "second": model.mlp_norm, "last": model.norm}
        found |= {name: norm.weight for name, norm in norms.items()}
        return found | {"table": model.table, "unembedding": model.unembedding}

    def pairs(self, model: Any) -> list[tuple[nn.Parameter, Any]]:
        return [(self.get_parameter(name), array) for name, array in self.arrays(model).items()]

    def linear(self, name: str, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self.get_parameter(f"{name}_weight").T, self.get_parameter(f"{name}_bias"))

    def forward(self, clauses: torch.Tensor) -> torch.Tensor:
        batch, count, _ = clauses.shape
        told = (clauses != BLANK)[..., None]
        slots = torch.arange(SLOTS, device=clauses.device)
        embedded = (self.table[slots, clauses] * told).sum(dim=2)
        width = embedded.shape[-1]
        normed = F.rms_norm(embedded, (width,), self.first, eps=1e-5)
        answers = slice(self.predicates, count)

        def split(x: torch.Tensor) -> torch.Tensor:
            return x.reshape(batch, x.shape[1], self.heads, -1).transpose(1, 2)

        key, value = self.linear("memory", normed).chunk(2, dim=-1)
        query = self.linear("query", normed[:, answers])
        places = torch.arange(count, device=clauses.device)
        mask = places[None, :] <= places[answers, None]
        mixed = F.scaled_dot_product_attention(split(query), split(key), split(value), attn_mask=mask)
        stream = embedded[:, answers] + self.linear("out", mixed.transpose(1, 2).reshape(batch, -1, width))
        hidden = F.gelu(self.linear("expand", F.rms_norm(stream, (width,), self.second, eps=1e-5)), approximate="tanh")
        stream = stream + self.linear("contract", hidden)
        return torch.einsum("bkw,swv->bksv", F.rms_norm(stream, (width,), self.last, eps=1e-5), self.unembedding)


def of_clauses(settings: Settings, precision: str) -> Contest:
    config: Practical = practical.LENGTH.presets["gpu"].config  # type: ignore[assignment]
    if settings.tiny:
        config = replace(config, batch=8, model=replace(config.model, width=16))
    length, width, vocabulary = config.task.length, config.model.width, config.task.vocabulary

    def loss(module, batch) -> torch.Tensor:
        told = batch.sentences[:, length + 1 :]
        logits = module(batch.sentences[:, :-1]).float()
        return F.cross_entropy(logits.reshape(-1, vocabulary), told.reshape(-1), reduction="sum") / len(told)

    each = 2 * length * 2 * width**2 + length * (2 + 8) * width**2 + length * SLOTS * width * vocabulary
    return Contest(
        work=f"LEGO's decoder, one layer, width {width}, {vocabulary} tokens, L={length}, batch {config.batch}",
        stage=lego.training(structure(config))[0],
        config=config,
        precision=precision,
        flops=6.0 * config.batch * each,
        module=partial(TorchClauses, heads=config.model.heads, predicates=length),
        ours=partial(lego.batch_loss, config),
        batch=lambda trial, key: lego.with_places(config, lego.draw_sentences)(trial, None, None, key, jnp.int32(0)),
        loss=loss,
    )


# --- the parity decoder -----------------------------------------------------------------------------------------------


def of_parity(settings: Settings, precision: str) -> Contest:
    config: Training = replace(
        WIDE, model=replace(WIDE.model, compute=precision), task=replace(WIDE.task, size=3, padding=3)
    )
    if settings.tiny:
        config = replace(config, batch=8, look=8, model=replace(config.model, width=16))
    problem = parity.problem_of(config.task, jnp.uint32(0))
    shape, length = config.model, Layout.of(config.task).length

    def batch(trial: RunningTrial, key: Any) -> Any:
        return parity.batch(trial, problem, None, key, jnp.int32(0)).tokens

    def ours(model: Any, tokens: Any) -> Any:
        return parity.loss(model, parity.Batch(tokens, problem, jax.random.key(0)))

    return Contest(
        work=f"the parity decoder with CoT, one layer, width {shape.width}, {length} tokens, batch {config.batch}",
        stage=gradient_training(**parity.steps(), steps=config.steps),
        config=config,
        precision=precision,
        flops=dense(config.batch, length, shape.layers, shape.width),
        module=partial(parity_cot.TorchDecoder, heads=shape.heads),
        ours=ours,
        batch=batch,
        loss=lambda module, tokens: parity_cot.torch_loss(module, problem, tokens),
    )


def jobs(settings: Settings) -> list[Job]:
    asked = {
        "composition's encoder": (of_encoder, ("float32", "bfloat16")),
        "LEGO's decoder": (of_clauses, ("float32",)),
        "the parity decoder": (of_parity, ("float32", "bfloat16")),
    }
    return [
        Job(f"{name}, {precision}", partial(row, make, precision))
        for name, (make, precisions) in asked.items()
        for precision in precisions
        if precision == "float32" or settings.device == "gpu"
    ]
