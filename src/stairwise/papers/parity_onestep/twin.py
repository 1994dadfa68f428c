"""The PyTorch twin of the one-layer model: a roll-out by levels."""

import math

import numpy as np
import torch
from torch import Tensor, nn

from stairwise.config import ConfigError
from stairwise.interop.torch.parts import parameter
from stairwise.papers.parity_onestep.model import PositionalAttention

LINKS = {"poly4": lambda t: -1 + 4 * t**2 - 2 * t**4, "cos": lambda t: -torch.cos(math.pi * t)}


class PositionalTwin(nn.Module):
    """Inputs (..., slots) to all tokens (..., tokens), the nodes generated level by level."""

    visible: Tensor
    height: Tensor

    def __init__(self, model: PositionalAttention):
        super().__init__()
        if model.link.name not in LINKS:
            raise ConfigError(f"link={model.link.name} must be one of {', '.join(LINKS)} for a twin in PyTorch")
        self.W, self.link, self.levels = parameter(model.W), LINKS[model.link.name], model.tree.levels
        self.register_buffer("visible", torch.from_numpy(np.array(model.tree.visible(model.mask))))
        self.register_buffer("height", torch.from_numpy(np.array(model.tree.height)))

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = torch.where(self.visible, self.W, -torch.inf).softmax(dim=0)
        scores = hidden.nan_to_num()  # a column that sees nothing is zero
        values = torch.zeros(*inputs.shape[:-1], self.W.shape[1], dtype=inputs.dtype, device=inputs.device)
        for level in range(1, self.levels + 1):
            z = torch.cat([inputs, values], dim=-1) @ scores
            values = torch.where(self.height.eq(level), self.link(z), values)
        return torch.cat([inputs, values], dim=-1)


TWINS = {PositionalAttention: PositionalTwin}
