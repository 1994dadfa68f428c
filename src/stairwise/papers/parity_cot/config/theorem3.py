"""The three gradient steps of Theorem 3: sizes, start and rates."""

from dataclasses import dataclass

from stairwise.config import Config, option, require
from stairwise.papers.parity_cot.config.task import Task

LARGEST_BLOCK = 2**28  # hidden values of a block of samples at all supervised positions


@dataclass(frozen=True)
class ThreeSteps(Config):
    """Theorem 3: three plain gradient steps on fresh batches, from the start of Assumption 1."""

    task: Task = option(Task(12, 3), "the parity")
    width: int = option(
        4096, "width d of the embeddings (its cost is nil: only inner products count)", low=1, high=2**26
    )
    neurons: int = option(750, "m: half the number of hidden neurons", low=1, high=10**6)
    embedding: str = option(
        "random", "random signs (Definition 3), or exactly orthonormal vectors", choices=("random", "orthonormal")
    )
    paired: bool = option(False, "start with neurons in pairs of opposite output weight: the output is then exactly 0")
    loss: str = option("hinge", "loss of one prediction", choices=("hinge", "linear"))
    batch: int = option(8000, "fresh samples B of each step", low=1, high=2**26)
    block: int = option(1000, "samples that a tick takes; a divisor of batch", low=1, high=2**20)
    rates: str = option(
        "practical",
        "literal: eta0 and eta2 of Assumption 2; practical: from logit and shift",
        choices=("practical", "literal"),
    )
    scale: float = option(4.0, "eps: size of the coefficients nu at the start", above=0.0, numeric=True)
    logit: float = option(
        36.0, "practical rates: attention logit Lambda that the last step should get", above=0.0, numeric=True
    )
    shift: float = option(4.0, "practical rates: eta2 = shift m eps", above=0.0, numeric=True)
    failure: float = option(0.1, "literal rates: delta of Assumption 2", above=0.0, below=1.0, numeric=True)
    test_examples: int = option(
        2000, "fresh sequences that exact match is measured on", low=1, high=2**20, stored_as="test_sequences"
    )

    def check(self) -> None:
        require(self.batch % self.block == 0, f"block={self.block} must divide batch={self.batch}")
        require(self.task.layout == "paper", f"task.layout={self.task.layout} must be paper")
        require(self.task.absorbed == 1, f"task.absorbed={self.task.absorbed} must be 1")
        hidden = max(self.block, self.test_examples) * self.queries * 2 * self.neurons
        require(
            hidden <= LARGEST_BLOCK,
            f"block={self.block} (or test_examples={self.test_examples}) times {self.queries} supervised positions"
            f" times 2*neurons={2 * self.neurons} must be at most {LARGEST_BLOCK}",
        )
        require(self.positions <= 4096, f"task.bits={self.task.bits} plus {self.queries} must be at most 4096")

    @property
    def queries(self) -> int:
        """Supervised positions: the k steps of the chain, or the one answer."""
        return self.task.size if self.task.cot else 1

    @property
    def positions(self) -> int:
        """T: tokens that the model reads."""
        return self.task.bits + self.queries

    @property
    def blocks(self) -> int:
        """Ticks of one gradient step."""
        return self.batch // self.block
