"""The PyTorch twin of a model: the same weights, the same logits, for PyTorch's optimisers, hooks and tools.

    network = twin(sw.load_model(digest))
    logits = network(torch.tensor([[0, 1, 1]]))

The standard transformer's is here; the twins of a paper's own networks are in the module `twin` of the paper.
"""

import importlib
from typing import Any

import torch
from torch import Tensor, nn

from stairwise.config import ConfigError
from stairwise.interop.torch.parts import Perceptron, Positions, attend, linear, norm, parameter
from stairwise.nn.attention import MultiHeadAttention
from stairwise.nn.transformer import Block, Transformer


def twin(model: Any) -> nn.Module:
    """A PyTorch module that computes what the model does; ConfigError where there is none."""
    if type(model) is Transformer:
        return TransformerTwin(model)
    package = type(model).__module__.rpartition(".")[0]
    try:
        known = importlib.import_module(f"{package}.twin").TWINS if package.startswith("stairwise.papers.") else {}
    except ModuleNotFoundError:
        known = {}
    if type(model) not in known:
        raise ConfigError(f"model={type(model).__name__} has no twin in PyTorch")
    return known[type(model)](model)


class TransformerTwin(nn.Module):
    """The standard transformer, from tokens (..., length) or embeddings (..., length, width) to logits."""

    def __init__(self, model: Transformer):
        super().__init__()
        if model.compute_dtype == "bfloat16":
            raise ConfigError("compute_dtype=bfloat16 must be float32 or float64 for a twin in PyTorch")
        self.table = None if model.table is None else parameter(model.table)
        self.positions = Positions(model.positions)
        self.blocks = nn.ModuleList(BlockTwin(block, self.positions, model.causal) for block in model.blocks)
        self.loops = model.loops
        self.norm = norm(model.norm)
        self.head = None if model.head is None else parameter(model.head)

    def forward(self, inputs: Tensor) -> Tensor:
        if not inputs.is_floating_point():
            if self.table is None:
                raise ConfigError("inputs must be embeddings: the model has no vocabulary")
            inputs = self.table[inputs]
        stream = self.positions.add(inputs)
        for _ in range(self.loops):
            for block in self.blocks:
                stream = block(stream)
        head = self.table if self.head is None else self.head
        assert head is not None
        return self.norm(stream) @ head.T


class BlockTwin(nn.Module):
    """One layer."""

    def __init__(self, block: Block, positions: Positions, causal: bool):
        super().__init__()
        if not isinstance(block.attention, MultiHeadAttention):
            raise ConfigError(f"mixer={type(block.attention).__name__} has no twin in PyTorch yet")
        self.attention_norm, self.mlp_norm = norm(block.attention_norm), norm(block.mlp_norm)
        self.qkv, self.out = linear(block.attention.qkv), linear(block.attention.out)
        self.mlp = Perceptron(block.mlp)
        self.heads, self.causal, self.positions = block.attention.heads, causal, positions
        self.attention_residual, self.mlp_residual = block.attention_residual, block.mlp_residual

    def forward(self, stream: Tensor) -> Tensor:
        length = stream.shape[-2]
        packed = self.qkv(self.attention_norm(stream)).unflatten(-1, (3, self.heads, -1))
        query, key, value = packed.unbind(-3)
        mask = torch.ones(length, length, dtype=torch.bool, device=stream.device).tril() if self.causal else None
        rotated = (self.positions.rotate(query), self.positions.rotate(key))
        mixed = self.out(attend(*rotated, value, mask))
        stream = stream + mixed if self.attention_residual else mixed
        update = self.mlp(self.mlp_norm(stream))
        return stream + update if self.mlp_residual else update
