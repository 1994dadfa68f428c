"""The solution that training should find, ready to be exported, and what each tensor of the models is."""

from dataclasses import dataclass
from typing import Any

from stairwise.config import Config, option
from stairwise.lab.contract.paper import Construction


@dataclass(frozen=True)
class IdealAttention(Config):
    """W* and V* at one scale; they do not depend on length and sparsity."""

    width: int = option(5, "token dimension d", low=1, high=2**10)
    encoding_width: int = option(170, "encoding dimension d_e", low=1, high=2**12)
    scale: float = option(40.0, "W = scale * diag(0, I): how sharply attention selects", above=0.0, high=1e6)


def solution(config: IdealAttention, seed: int) -> Any:
    """`SelectionAttention` with W = scale diag(0, I) and V = [I 0]; nothing is drawn."""
    import equinox as eqx

    from stairwise.papers.selection.model import ideal

    model = ideal(config.width, config.encoding_width)
    return eqx.tree_at(lambda one: one.W, model, config.scale * model.W)


CONSTRUCTIONS = (
    Construction("solution", "W* = scale diag(0, I), V* = [I 0]: attention that selects", IdealAttention, solution),
)
TENSORS = {
    "W": "key-query matrix, [d+d_e, d+d_e]: tokens first, then encodings; scores are Z^T W z_query",
    "V": "value matrix, [d, d+d_e], of the attended column [x; e]",
}
