"""PyTorch twins of the practical decoder and of the theory's network."""

import torch
from torch import Tensor, nn

from stairwise.interop.torch.parts import Perceptron, Positions, attend, linear, norm, parameter
from stairwise.papers.lego.decoder import Decoder
from stairwise.papers.lego.model import ANSWER_SLOTS, PREDICATE_SLOTS, ClauseTransformer, FullScores
from stairwise.papers.lego.task import BLANK


class DecoderTwin(nn.Module):
    """Clauses (..., clauses, 5) to the logits of the clause after each answer."""

    def __init__(self, model: Decoder):
        super().__init__()
        self.table, self.unembedding = parameter(model.table), parameter(model.unembedding)
        self.positions, self.heads = Positions(model.positions), model.heads
        self.query, self.key_value, self.out = linear(model.query), linear(model.key_value), linear(model.out)
        self.attention_norm, self.mlp_norm = norm(model.attention_norm), norm(model.mlp_norm)
        self.norm, self.mlp = norm(model.norm), Perceptron(model.mlp)
        self.attention_residual, self.mlp_residual = model.attention_residual, model.mlp_residual

    def forward(self, clauses: Tensor, predicates: int) -> Tensor:
        slots = torch.arange(self.table.shape[0], device=clauses.device)
        told = self.table[slots, clauses] * (clauses != BLANK)[..., None]
        embedded = self.positions.add(told.sum(dim=-2))
        normed = self.attention_norm(embedded)
        key, value = self.key_value(normed).unflatten(-1, (2, self.heads, -1)).unbind(-3)
        query = self.query(normed[..., predicates:, :]).unflatten(-1, (self.heads, -1))
        place = torch.arange(clauses.shape[-2], device=clauses.device)
        turned = (self.positions.rotate(query, predicates), self.positions.rotate(key))
        attended = self.out(attend(*turned, value, place[None, :] <= place[predicates:, None]))
        stream = embedded[..., predicates:, :] + attended if self.attention_residual else attended
        update = self.mlp(self.mlp_norm(stream))
        stream = stream + update if self.mlp_residual else update
        return torch.einsum("...kw,swv->...ksv", self.norm(stream), self.unembedding)


class TheoryTwin(nn.Module):
    """Clauses (clauses, 5), the last of which asks, to F of each token of the next clause."""

    def __init__(self, model: ClauseTransformer):
        super().__init__()
        scores = model.scores if isinstance(model.scores, FullScores) else FullScores.of(model.scores)
        self.weights, self.scores = parameter(model.weights), parameter(scores.blocks)
        self.bias, self.clip, self.rho, self.q = float(model.bias), float(model.clip), float(model.rho), model.q

    def forward(self, clauses: Tensor, predicates: int) -> Tensor:
        query = [self.scores[slot, clauses[-1, slot]] for slot in ANSWER_SLOTS]
        scores, read = [], []
        for place, clause in enumerate(clauses):
            slots = PREDICATE_SLOTS if place < predicates else ANSWER_SLOTS
            scores.append(torch.stack([row[slot, clause[slot]] for row in query for slot in slots]).sum())
            read.append(torch.stack([self.weights[slot, clause[slot]] for slot in slots]).sum(dim=0))
        mixed = torch.tensordot(torch.stack(scores).softmax(dim=0), torch.stack(read), dims=1) + self.bias
        power = mixed.clamp(0, self.rho) ** self.q / (self.q * self.rho ** (self.q - 1))
        smooth = torch.where(mixed > self.rho, mixed - self.rho * (1 - 1 / self.q), power)
        return smooth.sum(dim=-1).clamp(max=self.clip)


TWINS = {Decoder: DecoderTwin, ClauseTransformer: TheoryTwin}
