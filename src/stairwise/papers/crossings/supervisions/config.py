"""The config of the trials of this crossing; `__init__` says what it asks."""

from dataclasses import dataclass

from stairwise.config import Config, option, require
from stairwise.papers.parity_cot.config.training import Decoder

SUPERVISIONS = ("none", "chain", "tree", "mixture", "self")


LARGEST_POOL = 2**31


@dataclass(frozen=True)
class Supervised(Config):
    """The parity of k secret bits among n, one decoder, one way to supervise it."""

    bits: int = option(12, "input bits n", low=2, high=62, stored_as="inputs")
    size: int = option(4, "secret bits k", low=2, high=62, numeric=True)
    padding: int = option(6, "the largest k of the program", low=2, high=62)
    supervision: str = option(
        "chain",
        "none: the answer alone; chain: every partial sum; tree: every node of a balanced tree; mixture: the parity of"
        " the first j secret bits, j uniform in 1..k, never shown to another; self: chains that the decoder samples"
        " itself, kept where they end in the right answer",
        choices=SUPERVISIONS,
    )
    model: Decoder = option(Decoder(), "the model", stored_as="decoder")
    learning_rate: float = option(1e-3, "learning rate of Adam", above=0.0, high=1.0, numeric=True, stored_as="rate")
    batch: int = option(128, "sequences of one step", low=1, high=2**16)
    look: int = option(1024, "sequences between evaluations; a multiple of batch", low=1, high=2**24)
    budget: int = option(65_536, "sequences in all; a multiple of look", low=1, high=2**31 - 1)
    test_examples: int = option(256, "inputs that are held out", low=1, high=2**16, stored_as="validation")
    threshold: float = option(0.99, "share of right answers that counts as learnt", above=0.5, high=1.0)

    def check(self) -> None:
        require(self.size <= self.padding, f"size={self.size} must be at most padding={self.padding}")
        require(self.padding <= self.bits, f"padding={self.padding} must be at most bits={self.bits}")
        require(self.look % self.batch == 0, f"look={self.look} must be a multiple of batch={self.batch}")
        require(self.budget % self.look == 0, f"budget={self.budget} must be a multiple of look={self.look}")
        require(
            self.test_examples < self.pool,
            f"test_examples={self.test_examples} must be below 2**bits={self.pool} (bits={self.bits})",
        )
        self.model.check_draws_nothing()

    @property
    def pool(self) -> int:
        """Inputs that training and held-out ones are taken from."""
        return min(2**self.bits, LARGEST_POOL)

    @property
    def looks(self) -> int:
        return self.budget // self.look
