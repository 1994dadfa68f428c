"""The config of the trials of this crossing; `__init__` says what it asks."""

from dataclasses import dataclass

from stairwise.config import Config, option, require

KINDS = ("name", "place")


@dataclass(frozen=True)
class Model(Config):
    """The sizes of the decoder."""

    width: int = option(64, "width of the decoder", low=4, high=4096)
    heads: int = option(2, "heads; must divide the width", low=1, high=64)

    def check(self) -> None:
        require(self.width % self.heads == 0, f"heads={self.heads} must divide width={self.width}")


@dataclass(frozen=True)
class Tracking(Config):
    """A running parity of L bits out of 2L clauses, and how the bits are found."""

    retrieval: str = option("name", "how the next bit is found", choices=KINDS)
    length: int = option(4, "steps L of the chain; tested at 2L, too", low=1, high=64)
    names: int = option(24, "variables to draw names from", low=4, high=2**14)
    model: Model = option(Model(), "the decoder", stored_as="")
    learning_rate: float = option(1e-3, "learning rate of Adam", above=0.0, high=1.0, numeric=True, stored_as="rate")
    batch: int = option(64, "sentences of one step", low=1, high=2**16)
    look: int = option(640, "sentences between evaluations; a multiple of batch", low=1, high=2**24)
    budget: int = option(25_600, "sentences in all; a multiple of look", low=1, high=2**30)
    test_examples: int = option(128, "fresh sentences that are looked at", low=1, high=2**14, stored_as="test")
    threshold: float = option(0.99, "exact match that counts as learnt", above=0.0, high=1.0)

    def check(self) -> None:
        require(self.look % self.batch == 0, f"look={self.look} must be a multiple of batch={self.batch}")
        require(self.budget % self.look == 0, f"budget={self.budget} must be a multiple of look={self.look}")
        needed = 2 * (self.longest + 1)
        require(self.names >= needed, f"names={self.names} must be at least {needed} (two chains of {self.longest})")

    @property
    def longest(self) -> int:
        return 2 * self.length

    @property
    def looks(self) -> int:
        return self.budget // self.look
