"""The networks that the paper writes down, ready to be exported, and what each tensor of its models is."""

from dataclasses import dataclass
from typing import Any

from stairwise.config import Config, option, require
from stairwise.lab.contract.paper import Construction
from stairwise.papers.composition.claims.constructions import Sparse
from stairwise.papers.composition.claims.sizes import few_tokens, hidden_of
from stairwise.papers.composition.config import Task


@dataclass(frozen=True)
class Sharp(Config):
    """Theorem 4 at one sharpness."""

    task: Task = option(Task(4, 5), "the composition")
    beta: float = option(30.0, "sharpness beta of attention; the error is about e^-beta", above=0.0, high=80.0)
    cyclic: bool = option(True, "answer queries of every block; otherwise of the first one, as the theorem does")

    def check(self) -> None:
        few_tokens(self.task)


@dataclass(frozen=True)
class Compact(Config):
    """Theorem 9 with the corrected readout."""

    task: Task = option(Task(8, 5, moved=2), "the composition; its `moved` is m")
    margin: float = option(40.0, "least logit gap of the right key", above=0.0, high=80.0)
    cyclic: bool = option(True, "one more, constant coordinate answers queries of every block")

    def check(self) -> None:
        self.sized.check()
        require(not self.task.hidden, "task.hidden must not be given: the seed draws the permutations that move")

    @property
    def sized(self) -> Sparse:
        return Sparse(self.task, self.margin)


def theorem4(config: Sharp, seed: int) -> Any:
    """`AttentionOnly` with the weights of Theorem 4, for any number of blocks."""
    import jax.numpy as jnp

    from stairwise.papers.composition.constructions import any_blocks

    hidden = jnp.asarray(hidden_of(config.task, seed), dtype=jnp.int32)
    return any_blocks(hidden, config.beta, cyclic=config.cyclic)


def theorem9(config: Compact, seed: int) -> Any:
    """`AttentionOnly` with codes of m+2 (or m+3) numbers instead of k."""
    import jax.numpy as jnp

    from stairwise.papers.composition.constructions import theorem9 as compact

    sized = config.sized
    hidden = jnp.asarray(sized.hidden(seed, last=False), dtype=jnp.int32)
    return compact(hidden, config.task.moved, sized.beta, cyclic=config.cyclic).model


CONSTRUCTIONS = (
    Construction("thm4", "Theorem 4: 1 + log2 k layers that compute every hop", Sharp, theorem4),
    Construction("thm9", "Theorem 9: a narrower stream where few permutations move", Compact, theorem9),
)
TENSORS = {
    "key_query.*": "W_KQ of a layer: [key block, query block, row, column], for the stream's blocks up to the layer's",
    "readout": "Psi: [head, stream block, row, letter]; head l reads the hop that layer l completes",
    "values.*": "V of a layer: what is copied of the block that the layer reads, [row, column]",
    "codes": "p_i: the code of every block, [block, coordinate]",
}
