"""The configs of the practical decoder: its shape, its training, self-training."""

from dataclasses import dataclass

from stairwise.config import Config, option, require
from stairwise.nn import parts
from stairwise.papers.lego.config.task import Task


@dataclass(frozen=True)
class Shape(parts.Parts):
    """A decoder on clauses; the paper's has one layer of softmax attention."""

    width: int = option(64, "width", low=1, high=4096)
    heads: int = option(2, "attention heads", low=1, high=64)
    hidden_multiple: int = option(4, "FFN width over width", low=1, high=16)
    positions: str = option(
        "none",
        "how clauses are given their place: none (NoPE), learned, rotary, randomised (a learned table, trained and"
        " tested on random increasing places), sinusoidal, alibi, t5",
        choices=parts.POSITIONS,
    )
    norm: bool = option(True, "RMSNorm before attention, FFN and heads")
    attention_residual: bool = option(True, "a residual connection around attention")
    mlp_residual: bool = option(True, "a residual connection around the FFN")
    layers: int = option(1, "layers", low=1, high=64, since="0.1")

    def check(self) -> None:
        require(self.width % self.heads == 0, f"width={self.width} must be a multiple of heads={self.heads}")
        parts.check_parts(self, self.positions, self.width, self.heads)

    @property
    def standard(self) -> bool:
        """Whether it is the paper's: one layer of softmax attention."""
        one = self.mixer == parts.SOFTMAX and self.layers == self.loops == 1
        return one and self.positions not in ("sinusoidal", "alibi", "t5")


@dataclass(frozen=True)
class Practical(Config):
    """A decoder trained at one length (Adam on the next-clause loss) and rolled out at others."""

    task: Task = option(Task("C4", 48, 5), "the chains; its length is that of training")
    model: Shape = option(Shape(), "the decoder")
    samples: int = option(
        0,
        "distinct training sentences, drawn from with replacement; 0 = fresh ones",
        low=0,
        numeric=True,
        stored_as="lessons.pool",
    )
    batch: int = option(64, "sentences a step", low=1, high=2**16, stored_as="lessons.batch")
    steps: int = option(3000, "steps", low=1, high=8_000_000, stored_as="lessons.steps")
    learning_rate: float = option(
        1e-3, "peak learning rate", above=0.0, numeric=True, stored_as="lessons.learning_rate"
    )
    final_rate: float = option(
        0.05,
        "last learning rate over the peak, cosine in between; 1 = constant",
        low=0.0,
        high=1.0,
        numeric=True,
        stored_as="lessons.final_rate",
    )
    warm_up: int = option(100, "steps of linear warm-up; 0 = none", low=0, stored_as="lessons.warm_up")
    test_lengths: tuple[int, ...] = option((5, 10, 20, 40), "lengths of the greedy roll-outs", low=1)
    test_examples: int = option(300, "fresh sentences of each test", low=1, high=2**20, stored_as="test_sequences")
    measure_every: int = option(1000, "steps between tests", low=1)
    map_lengths: tuple[int, ...] = option(
        (), "lengths at which the mean attention is kept, where the mixer is softmax", low=1, high=1000
    )
    map_sequences: int = option(100, "fresh sentences that the mean attention is over", low=1, high=2**16)
    keep_weights: bool = option(False, "store the trained weights")
    tell_variables: bool = option(
        False, "roll out once more with the true variable in every answer fed back: metrics told L", since="0.1"
    )

    curve_examples: int = option(
        0,
        "fresh sentences of each test before the last one; all, if 0 or no divisor of test_examples",
        low=0,
        since="0.1",
    )

    def check(self) -> None:
        require(self.warm_up <= self.steps, f"warm_up={self.warm_up} must be at most steps={self.steps}")
        require(self.batch * self.steps < 2**31, f"batch*steps={self.batch * self.steps} must be below 2**31={2**31}")
        require(len(self.test_lengths) > 0, "test_lengths must name at least one length")
        require(
            not self.tell_variables or self.model.standard,
            f"tell_variables=true must be false where model.mixer={self.model.mixer}, model.layers={self.model.layers}:"
            " only the paper's decoder is told variables",
        )
        for name in ("test_lengths", "map_lengths"):
            longest = max(getattr(self, name), default=1)
            require(
                longest + 1 <= self.task.variables,
                f"{name}={longest} needs {longest + 1} variables, which must be at most"
                f" task.variables={self.task.variables}",
            )

    @property
    def block(self) -> int:
        """Fresh sentences that are tested at once: those of a test before the last one."""
        few = self.curve_examples
        return few if few and self.test_examples % few == 0 else self.test_examples

    @property
    def longest(self) -> int:
        """The longest chain that the decoder ever sees."""
        return max((self.task.length, *self.test_lengths, *self.map_lengths))

    @property
    def places(self) -> int:
        """Clauses of the longest sentence."""
        return 2 * self.longest + 1


@dataclass(frozen=True)
class SelfTraining(Config):
    """Training at one length with true labels, then at longer ones with the decoder's own (Figure 1b)."""

    base: Practical = option(Practical(), "the first stage, with true labels, and how every stage is tested")
    lengths: tuple[int, ...] = option((10, 20, 40), "lengths of the stages that label themselves, in order", low=1)
    samples: int = option(
        2000, "sentences of each stage, labelled once when it begins", low=1, high=2**22, stored_as="pool"
    )
    batch: int = option(32, "sentences a step", low=1, high=2**16)
    steps: int = option(300, "steps of each stage", low=1, high=8_000_000)
    learning_rate: float = option(5e-4, "peak learning rate of the stages", above=0.0, numeric=True)
    final_rate: float = option(0.05, "last learning rate over the peak; 1 = constant", low=0.0, high=1.0, numeric=True)
    warm_up: int = option(0, "steps of linear warm-up; 0 = none", low=0)

    def check(self) -> None:
        require(len(self.lengths) > 0, "lengths must name at least one length")
        longest, places = max(self.lengths), self.base.longest
        require(longest <= places, f"lengths={longest} must be at most the longest length that base sees, {places}")
        require(self.warm_up <= self.steps, f"warm_up={self.warm_up} must be at most steps={self.steps}")
