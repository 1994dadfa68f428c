"""The PyTorch twin of the theory's transformer: dense products, block by block."""

from typing import Any

import torch
from torch import Tensor, nn

from stairwise.interop.torch.parts import parameter
from stairwise.papers.composition.model import AttentionOnly


class AttentionOnlyTwin(nn.Module):
    """What every head says at every token, (heads, tokens, alphabet), from the letters (blocks, alphabet)."""

    def __init__(self, model: AttentionOnly):
        super().__init__()
        self.key_query = nn.ParameterList(map(parameter, model.key_query))
        self.readout, self.plan = parameter(model.readout), model.plan
        self.values = None if model.values is None else nn.ParameterList(map(parameter, model.values))
        self.codes = None if model.codes is None else parameter(model.codes)

    def forward(self, sequence: Tensor) -> Tensor:
        blocks, alphabet = sequence.shape
        like: Any = {"dtype": self.readout.dtype, "device": self.readout.device}
        seen = (alphabet * torch.arange(blocks, device=sequence.device)[:, None] + sequence).flatten()
        codes = torch.eye(blocks, **like) if self.codes is None else self.codes
        place = torch.kron(codes.T.contiguous(), torch.eye(alphabet, **like))
        stream = [place, place[:, seen]]
        for number, layer in enumerate(self.plan):
            X = torch.stack(stream)
            attention = torch.einsum("aup,abuv,bvq->pq", X, self.key_query[number], X).softmax(dim=0)
            copied = stream[layer.value] if self.values is None else self.values[number] @ stream[layer.value]
            stream.append(copied @ attention)
        return torch.einsum("buq,hbun->hqn", torch.stack(stream), self.readout)


TWINS = {AttentionOnly: AttentionOnlyTwin}
