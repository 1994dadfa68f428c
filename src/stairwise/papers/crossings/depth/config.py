"""The config of the trials of this crossing; `__init__` says what it asks."""

from dataclasses import dataclass

from stairwise.config import Config, option, require
from stairwise.nn.parts import SOFTMAX
from stairwise.papers.composition.config import Task
from stairwise.papers.parity_cot.config.training import Decoder

CHAIN, DEPTH, HARDEST = "one layer, k steps", "log k layers, curriculum", "log k layers, k hops only"


@dataclass(frozen=True)
class Solver(Config):
    """Composition by a chain of thought in few layers, or at once in 1 + log2 k of them."""

    task: Task = option(Task(blocks=4, alphabet=4), "the composition")
    solver: str = option("chain", "chain: step by step; depth: at once, at every position", choices=("chain", "depth"))
    curriculum: bool = option(True, "depth: hops 1, 2, 4, ... come in one after another; otherwise k hops alone")
    release: int = option(200, "steps until the next hop comes in", low=1, high=10**7)
    model: Decoder = option(
        Decoder(width=32, std=0.18), "the model; depth takes its own number of layers", stored_as="decoder"
    )
    learning_rate: float = option(3e-3, "learning rate of Adam", above=0.0, high=1.0, numeric=True, stored_as="rate")
    batch: int = option(32, "sequences of one step", low=1, high=2**16)
    measure_every: int = option(50, "steps between evaluations", low=1, high=10**6, stored_as="look")
    looks: int = option(20, "evaluations at most", low=1, high=10**6)
    test_examples: int = option(256, "held-out sequences", low=1, high=2**16, stored_as="validation")
    threshold: float = option(0.95, "share of right k-hop answers that counts as learnt", above=0.0, high=1.0)

    def check(self) -> None:
        self.model.check_draws_nothing()
        require(
            self.solver == "chain" or self.model.mixer == SOFTMAX,
            f"model.mixer={self.model.mixer} must be {SOFTMAX} where solver={self.solver}: the encoder reads both ways",
        )
        blocks = self.task.blocks
        require(blocks >= 2 and not self.task.any_blocks, f"task.blocks={blocks} must be a power of two from 2 on")

    @property
    def hops(self) -> tuple[int, ...]:
        """1, 2, 4, ..., k."""
        return tuple(2**power for power in range(self.task.layers))

    @property
    def layers(self) -> int:
        """1 + log2 k where depth does it."""
        return self.model.layers if self.solver == "chain" else self.task.layers

    @property
    def length(self) -> int:
        """Tokens that are read: the sequence, then a letter and all answers but the last, or a token for the hop."""
        return self.task.tokens + (self.task.blocks if self.solver == "chain" else 1)

    @property
    def vocabulary(self) -> int:
        return self.task.alphabet + (0 if self.solver == "chain" else len(self.hops))

    @property
    def labels(self) -> int:
        """Labels of one sequence: every step of one chain, or one answer at every position."""
        return self.task.blocks if self.solver == "chain" else self.task.tokens

    @property
    def operations(self) -> int:
        """Floating-point operations of training on one sequence: three times a forward pass.

        Forward, T tokens of width w: 24 w^2 + 4 T w a token and layer (projections and perceptron, attention), and
        2 V w + 2 O w a token for the table of V tokens and the head of O outputs.
        """
        width, length = self.model.width, self.length
        layer = 24 * width**2 + 4 * length * width
        ends = 2 * width * (self.vocabulary + self.task.alphabet)
        return 3 * length * (self.layers * layer + ends)

    @property
    def name(self) -> str:
        return CHAIN if self.solver == "chain" else DEPTH if self.curriculum else HARDEST
