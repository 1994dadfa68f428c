"""Greedy roll-out of the one-layer decoder against length: full recomputation in PyTorch, and Stairwise's cache.

`full` runs the usual causal transformer over the whole sentence for every clause it generates; `last` is the same with
queries, FFN and heads at the last clause only. Stairwise computes keys and values once a clause, and one compiled
program serves all lengths. Every token that Stairwise generates must be the mirror's best to within rounding.
"""

from functools import cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jaxtyping import Array, Integer
from torch.nn import functional

from benchmarks.mirror import blocking, full_precision, tensor, waiting
from benchmarks.row import Job, Row, Settings, contest
from stairwise.papers.lego.decoder import Decoder
from stairwise.papers.lego.evaluate import cut
from stairwise.papers.lego.rollout import roll_out
from stairwise.papers.lego.task import Chain, Lego, lego
from stairwise.papers.lego.theory.chains import drawn

ACTION = "C6"


class TorchDecoder:
    """The decoder (no positions, norms, both residuals) in PyTorch, on a batch of sentences."""

    def __init__(self, model: Decoder, last_only: bool, device: str):
        self.heads, self.last_only = model.heads, last_only
        self.table = tensor(model.table.at[:, 0].set(0), device)
        layers = (model.query, model.key_value, model.out, model.mlp.expand, model.mlp.contract)
        weights = [(tensor(layer.weight, device), tensor(layer.bias, device)) for layer in layers]  # type: ignore
        self.query, self.key_value, self.out, self.expand, self.contract = weights
        self.unembedding = tensor(model.unembedding, device)
        self.logits_of = self.logits

    def compiled(self) -> "TorchDecoder":
        """Itself, compiled for any length of a sentence."""
        self.logits_of = torch.compile(self.logits, dynamic=True)
        return self

    def norm(self, x: torch.Tensor) -> torch.Tensor:
        return functional.rms_norm(x, x.shape[-1:], eps=1e-5)

    def split(self, part: torch.Tensor) -> torch.Tensor:
        batch, count, width = part.shape
        return part.reshape(batch, count, self.heads, width // self.heads).transpose(1, 2)

    def logits(self, clauses: torch.Tensor) -> torch.Tensor:
        """After every clause, or after the last one only."""
        slots = clauses.shape[2]
        embedded = self.table[torch.arange(slots, device=clauses.device), clauses].sum(dim=2)
        x = self.norm(embedded)
        asking = slice(-1, None) if self.last_only else slice(None)
        keys, values = (x @ self.key_value[0] + self.key_value[1]).chunk(2, dim=-1)
        query = x[:, asking] @ self.query[0] + self.query[1]
        query, keys, values = (self.split(part) for part in (query, keys, values))
        attended = functional.scaled_dot_product_attention(query, keys, values, is_causal=not self.last_only)
        merged = attended.transpose(1, 2).flatten(2)
        stream = embedded[:, asking] + merged @ self.out[0] + self.out[1]
        hidden = functional.gelu(self.norm(stream) @ self.expand[0] + self.expand[1], approximate="tanh")
        stream = self.norm(stream + hidden @ self.contract[0] + self.contract[1])
        return torch.einsum("bkw,swv->bksv", stream, self.unembedding)

    @torch.no_grad()
    def roll_out(self, clauses: torch.Tensor, steps: int) -> torch.Tensor:
        for _ in range(steps):
            following = self.logits_of(clauses)[:, -1].argmax(dim=-1)
            clauses = torch.cat([clauses, following[:, None]], dim=1)
        return clauses


class Prompts(NamedTuple):
    """Padded predicates and first answers for our program, and the chains they come from."""

    predicates: Integer[Array, "batch longest 5"]
    start: Integer[Array, "batch 5"]
    chains: Chain


def prompts(task: Lego, batch: int) -> Prompts:
    chains = drawn(task, 0, batch)
    return Prompts(jax.vmap(task.predicates)(chains), jax.vmap(task.answers)(chains)[:, 0], chains)


def random_decoder(task: Lego, width: int) -> Decoder:
    """Weights away from their start, so that roll-outs do not settle on one clause."""
    model = Decoder(vocabulary=task.vocabulary, width=width, heads=2, key=jax.random.key(0))
    return jax.tree.map(lambda leaf: 1.5 * leaf if leaf.ndim > 1 else leaf, model)


@cache
def batched_roll_out():
    """One program for every length up to the longest; the model is an argument."""
    return jax.jit(jax.vmap(roll_out, in_axes=(None, 0, 0, None)))


def shortfall(model: Decoder, device: str, prompt: torch.Tensor, made: np.ndarray) -> float:
    """How far below the mirror's best logit a generated token is at most, relative to the scale of logits.

    The mirror reads the whole generated sentence, once by full attention and once for its last clause only.
    """
    steps = made.shape[1]
    sentence = torch.cat([prompt, tensor(made, device)], dim=1)[:, :-1]
    with torch.no_grad():
        logits = TorchDecoder(model, False, device).logits(sentence)[:, -steps:]
        last = TorchDecoder(model, True, device).logits(sentence)[:, -1]
    chosen = logits.gather(-1, tensor(made, device)[..., None])[..., 0]
    below = (logits.amax(dim=-1) - chosen).amax() / logits.abs().amax()
    return max(below.item(), ((last - logits[:, -1]).abs().amax() / logits.abs().amax()).item())


def row(length: int, last_only: bool, settings: Settings) -> Row:
    longest, width, batch = (12, 32, 2) if settings.tiny else (160, 256, 8)
    variables, device = longest + 10, settings.torch_device
    task = lego(ACTION, variables, longest)
    model, told = random_decoder(task, width), prompts(task, batch)
    shorter = cut(told.chains, length)
    prompt = tensor(jax.vmap(lego(ACTION, variables, length).clauses)(shorter)[:, : length + 1], device)
    program = partial(batched_roll_out(), model, told.predicates, told.start, jnp.int32(length))
    with full_precision():
        error = shortfall(model, device, prompt, np.asarray(program())[:, :length])
    return contest(
        settings,
        Row(
            "lego",
            f"greedy roll-out of {batch} sentences, L={length}, {ACTION}, width {width}",
            unit="clause",
            mirror="last clause only" if last_only else "full recomputation",
            error=error,
        ),
        blocking(program, length),
        waiting(partial(TorchDecoder(model, last_only, device).roll_out, prompt, length), device, length),
        lambda: waiting(
            partial(TorchDecoder(model, last_only, device).compiled().roll_out, prompt, length), device, length
        ),
        tolerance=1e-4,
    )


def jobs(settings: Settings) -> list[Job]:
    lengths = [6] if settings.tiny else [160] if settings.device == "gpu" else [20, 160]
    ways = {"last clause only": True} | ({} if settings.device == "gpu" else {"full recomputation": False})
    return [
        Job(f"greedy roll-out, L={length}, {name}", partial(row, length, last_only))
        for length in lengths
        for name, last_only in ways.items()
    ]
