"""The weights of Theorem 1, ready to be exported, and what each tensor of the models is."""

from dataclasses import dataclass
from typing import Any

from stairwise.config import Config, option
from stairwise.lab.contract.paper import Construction
from stairwise.papers.parity_cot.claims.embeddings import Represented, draw


@dataclass(frozen=True)
class Written(Config):
    """A parity, and the width at which it is written down."""

    bits: int = option(10, "input bits n", low=2, high=10_000)
    size: int = option(3, "secret bits k", low=1, high=10_000)
    width: int = option(200, "width d; at least 2k", low=2, high=2**13)
    secret: tuple[int, ...] = option((), "the secret positions, counted from 0; none = drawn", low=0)

    def check(self) -> None:
        self.represented.check()

    @property
    def represented(self) -> Represented:
        return Represented(self.bits, self.size, self.width, self.secret)


def theorem1(config: Written, seed: int) -> Any:
    """`SimplifiedTransformer` on n bits and a final 0; the seed draws embeddings and secret as `verify` does."""
    import jax.numpy as jnp
    import numpy as np

    from stairwise.papers.parity_cot.claims.sizes import products
    from stairwise.papers.parity_cot.construction import output_signs, theorem1
    from stairwise.papers.parity_cot.dense import SimplifiedTransformer
    from stairwise.papers.parity_cot.simplified import vectors

    words, secret = draw(config.represented, seed)
    found = theorem1(products(words, words, config.width), secret)
    E = np.asarray(vectors(jnp.asarray(words.view(np.uint32)), config.width), dtype=np.float64)
    first, second, attention = (
        np.asarray(part, dtype=np.float64) for part in (found.first, found.second, found.attention)
    )
    W = np.concatenate([first @ E, second @ E], axis=1)
    parts = (E, E.T @ attention @ E, W, output_signs(config.size))
    return SimplifiedTransformer(*(jnp.asarray(part, dtype=jnp.float32) for part in parts))


CONSTRUCTIONS = (
    Construction("thm1", "Theorem 1: a parity without a chain of thought, on every input", Written, theorem1),
)
TENSORS = {
    "E": "frozen embeddings, [2 position + bit, width]",
    "A": "attention matrix: the score of key x for query y is x' A y",
    "W": "perceptron, [neuron, 2 width]: a token's own embedding, then what it attends to",
    "h": "readout of the neurons",
}
