"""What PyTorch twins are made of: the layers of `stairwise.nn`, with their weights. Batches are leading axes."""

from typing import Any

import equinox as eqx
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from stairwise.config import ConfigError
from stairwise.nn.positions import LearnedPositions, NoPositions, RotaryPositions


def parameter(array: Any) -> nn.Parameter:
    """An array of JAX as a parameter, copied."""
    return nn.Parameter(torch.from_numpy(np.array(array)))


def linear(layer: Any) -> nn.Linear:
    """x W + b; PyTorch keeps W as [outputs, inputs]."""
    made = nn.Linear(*layer.weight.shape)
    made.weight, made.bias = parameter(np.asarray(layer.weight).T), parameter(layer.bias)
    return made


def norm(layer: Any) -> nn.Module:
    """LayerNorm or RMSNorm, or nothing where there is none."""
    if layer is None:
        return nn.Identity()
    if isinstance(layer, eqx.nn.RMSNorm):
        made = nn.RMSNorm(list(layer.shape), eps=layer.eps)
    else:
        made = nn.LayerNorm(list(layer.shape), eps=layer.eps)
        made.bias = parameter(layer.bias)
    made.weight = parameter(layer.weight)
    return made


class Perceptron(nn.Module):
    """GELU(x W_1 + b_1) W_2 + b_2, GELU in its tanh form."""

    def __init__(self, mlp: Any):
        super().__init__()
        self.expand, self.contract = linear(mlp.expand), linear(mlp.contract)

    def forward(self, x: Tensor) -> Tensor:
        return self.contract(functional.gelu(self.expand(x), approximate="tanh"))


class Positions(nn.Module):
    """None, a learned table, or rotary ones."""

    def __init__(self, positions: Any):
        super().__init__()
        if type(positions) not in (NoPositions, LearnedPositions, RotaryPositions):
            raise ConfigError(f"positions={type(positions).__name__} have no twin in PyTorch yet")
        self.table = parameter(positions.table) if isinstance(positions, LearnedPositions) else None
        self.base = positions.base if isinstance(positions, RotaryPositions) else None

    def add(self, embeddings: Tensor) -> Tensor:
        return embeddings if self.table is None else embeddings + self.table[: embeddings.shape[-2]]

    def rotate(self, vectors: Tensor, first: int = 0) -> Tensor:
        """Vectors (..., length, heads, width) at positions first, first + 1, ..."""
        if self.base is None:
            return vectors
        length, width = vectors.shape[-3], vectors.shape[-1]
        like: Any = {"dtype": torch.float32, "device": vectors.device}
        frequencies = self.base ** (-torch.arange(0, width, 2, **like) / width)
        angles = torch.arange(first, first + length, **like)[:, None, None] * frequencies
        cosine, sine = angles.cos(), angles.sin()
        one, two = vectors.chunk(2, dim=-1)
        return torch.cat([one * cosine - two * sine, two * cosine + one * sine], dim=-1)


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    """Softmax attention of (..., length, heads, width); the heads are joined."""
    parts = (part.transpose(-3, -2) for part in (query, key, value))
    return functional.scaled_dot_product_attention(*parts, attn_mask=mask).transpose(-3, -2).flatten(-2)
