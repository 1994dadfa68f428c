"""The PyTorch twin of the paper's attention."""

import torch
from torch import Tensor, nn

from stairwise.interop.torch.parts import parameter
from stairwise.papers.selection.model import SelectionAttention


class SelectionTwin(nn.Module):
    """f(X, y; E) = V Z softmax(Z^T W z_query), with Z^T = [X, E] written out."""

    def __init__(self, model: SelectionAttention):
        super().__init__()
        self.W, self.V = parameter(model.W), parameter(model.V)

    def forward(self, tokens: Tensor, encodings: Tensor, query: Tensor) -> Tensor:
        joint = torch.cat([tokens, encodings], dim=-1)
        attention = (joint @ self.W @ query[..., None]).softmax(dim=-2)
        return ((joint * attention).sum(dim=-2)) @ self.V.T


TWINS = {SelectionAttention: SelectionTwin}
