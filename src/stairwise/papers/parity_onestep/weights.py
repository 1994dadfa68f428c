"""The solution that one gradient step approaches, ready to be exported, and what each tensor of the model is."""

from dataclasses import dataclass
from typing import Any

from stairwise.config import Config, option
from stairwise.lab.contract.paper import Construction
from stairwise.papers.parity_onestep.config import Descent, LinkFunction, Task


@dataclass(frozen=True)
class ChildAttention(Config):
    """Attention of every node on its two children."""

    task: Task = option(Task(), "the parity")
    link: LinkFunction = option(LinkFunction(), "the link function")
    mask: str = option("causal", "which tokens a node sees", choices=("causal", "block"))
    logit: float = option(30.0, "logit of the children; all others have 0", above=0.0, high=1e6)


def solution(config: ChildAttention, seed: int) -> Any:
    """`PositionalAttention` with W = logit on the children of every node and 0 elsewhere; the seed draws the secret."""
    import jax.numpy as jnp

    from stairwise.papers.parity_onestep.model import PositionalAttention
    from stairwise.papers.parity_onestep.train import link_of, tree_of
    from stairwise.train.loop import RunningTrial

    descent = Descent(config.task, config.link, config.mask)
    tree = tree_of(RunningTrial(descent, jnp.uint32(seed)))
    W = config.logit * tree.is_child().astype(jnp.float32)
    return PositionalAttention(W, tree, link_of(descent), config.mask)


CONSTRUCTIONS = (
    Construction("solution", "every node attends to its two children, half and half", ChildAttention, solution),
)
TENSORS = {
    "W": "attention logits, [token, node]: the inputs come first, then the nodes",
    "tree.children": "the two tokens whose product each node is, [node, 2]",
    "tree.height": "the level of each node, from 1 on; 0 marks padding",
    "tree.inputs": "d, the inputs in use",
}
