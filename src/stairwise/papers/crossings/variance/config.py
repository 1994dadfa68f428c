"""The config of the trials of this crossing; `__init__` says what it asks."""

import math
from dataclasses import dataclass

from stairwise.config import Config, option, require

CLASSES = ("parity", "composition")


NETWORKS = ("perceptron", "encoder")


LARGEST = 2**28  # numbers in the table of queries


@dataclass(frozen=True)
class Spectrum(Config):
    """A class of targets and a random network."""

    targets: str = option("parity", "the class", choices=CLASSES)
    length: int = option(10, "parity: bits n; composition: letters N", low=2, high=16)
    size: int = option(3, "parity: secret bits k; composition: hops k", low=1, high=16)
    network: str = option("perceptron", "the random network", choices=NETWORKS)
    width: int = option(8, "its width", low=2, high=256)
    gain: float = option(5.0, "factor on its initial weights, so that it is far from linear", above=0.0)

    def check(self) -> None:
        if self.targets == "parity":
            require(self.size <= self.length, f"size={self.size} must be at most length={self.length}")
        else:
            require(self.length >= 3, f"length={self.length} must be at least 3 where targets=composition")
        pairs = self.inputs * (self.inputs if self.targets == "composition" else 1)
        table = max(self.inputs * self.parameters, pairs)
        require(table <= LARGEST, f"size={self.size} makes a table of {table} numbers, which must be at most {LARGEST}")

    @property
    def inputs(self) -> int:
        """All inputs: the cube, or (N!)^k permutations and a letter."""
        if self.targets == "parity":
            return 2**self.length
        return math.factorial(self.length) ** self.size * self.length

    @property
    def outputs(self) -> int:
        return 2 if self.targets == "parity" else self.length

    @property
    def tokens(self) -> int:
        return self.length if self.targets == "parity" else self.length * self.size + 1

    @property
    def vocabulary(self) -> int:
        return 2 if self.targets == "parity" else 2 * self.length

    @property
    def parameters(self) -> int:
        """Roughly: weights times outputs."""
        return self.width * (self.tokens * self.vocabulary + 12 * self.width) * self.outputs

    @property
    def dimensions(self) -> int:
        """M: the dimensions that the centred targets fill."""
        if self.targets == "parity":
            return math.comb(self.length, self.size)
        return (self.length - 1) ** (2 * self.size)
