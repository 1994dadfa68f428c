"""The configs of k-fold composition: task, Algorithms 1 and 2, thresholds, standard encoder, hardness."""

import math
from dataclasses import dataclass

from stairwise.config import Config, option, require
from stairwise.nn import parts
from stairwise.papers.composition import plan

PIECE = 2**28  # numbers that soft attention may keep for a gradient: 1 GiB
ALL = -1  # `moved`: every hidden permutation is drawn uniformly


@dataclass(frozen=True)
class Task(Config):
    """k hidden permutations of N letters."""

    blocks: int = option(8, "number of blocks k", low=1, high=1024)
    alphabet: int = option(5, "letters N", low=2, high=1024)
    moved: int = option(ALL, "m: at most so many hidden permutations are not the identity; -1 = all may move", low=ALL)
    hidden: tuple[int, ...] = option(
        (), "the hidden permutations, row by row from 0; none = drawn from the seed", low=0
    )
    any_blocks: bool = option(False, "take a k that is no power of two, with a layer for each further bit of it")

    def check(self) -> None:
        require(self.moved <= self.blocks, f"moved={self.moved} must be at most blocks={self.blocks}")
        require(
            self.any_blocks or plan.is_power_of_two(self.blocks),
            f"blocks={self.blocks} must be a power of two unless any_blocks is set",
        )
        if self.hidden:
            count = self.blocks * self.alphabet
            require(
                len(self.hidden) == count,
                f"hidden has {len(self.hidden)} entries, which must be blocks*alphabet={count}",
            )
            for block in range(self.blocks):
                row = self.hidden[block * self.alphabet : (block + 1) * self.alphabet]
                require(
                    sorted(row) == list(range(self.alphabet)),
                    f"hidden: row {block} = {list(row)} must be a permutation of 0..{self.alphabet - 1}",
                )

    @property
    def tokens(self) -> int:
        """T = kN."""
        return self.blocks * self.alphabet

    @property
    def plan(self) -> tuple[plan.Layer, ...]:
        return plan.layers(self.blocks)

    @property
    def layers(self) -> int:
        """L, which is 1 + log2 k where k is a power of two."""
        return len(self.plan)


@dataclass(frozen=True)
class Values(Config):
    """The value block of each layer, V = c I + noise."""

    scale: float = option(1.0, "c of V = c I + Gaussian (the paper: V = I)", numeric=True)
    noise: float = option(
        0.0, "standard deviation of V's Gaussian entries, in units of 1/sqrt(kN)", low=0.0, numeric=True
    )
    rate: float = option(
        0.0, "V takes gradient steps with eta times this; 0 = frozen (the paper)", low=0.0, numeric=True
    )
    free: bool = option(False, "V is a matrix; otherwise a plain copy of the block, and its other fields do nothing")

    def check(self) -> None:
        moves = self.noise > 0 or self.rate > 0 or self.scale != 1.0
        require(self.free or not moves, f"free={str(self.free).lower()} must be true where V is not a plain copy")


@dataclass(frozen=True)
class Descent(Config):
    """Algorithm 1 (curriculum) or 2 (mixture): single gradient steps on large batches."""

    task: Task = option(Task(), "the composition")
    algorithm: str = option(
        "curriculum", "curriculum: Algorithm 1; mixture: Algorithm 2", choices=("curriculum", "mixture")
    )
    path: str = option(
        "exact",
        "exact: autodiff through soft attention; integer: counts of block indices wherever the layers below are"
        " saturated and right, exact elsewhere (curriculum only)",
        choices=("exact", "integer"),
    )
    trained: str = option(
        "all", "layers that a key-query step moves: all (pseudocode) or the current one", choices=("all", "current")
    )
    embedding: str = option(
        "onehot",
        "how blocks are coded: onehot, or compact as in Theorem 9 with a constant coordinate (needs moved >= 0)",
        choices=("onehot", "compact"),
    )
    samples: int = option(32_768, "samples M of a step", low=1, high=2**30)
    block: int = option(1024, "samples of one tick", low=1, high=2**20)
    learning_rate: float = option(
        4e5, "learning rate eta, of key-query and readout steps alike", above=0.0, numeric=True, stored_as="rate"
    )
    beta0: float = option(1.0, "scale of the readouts' start", above=0.0, numeric=True)
    fresh: bool = option(True, "mixture: new samples every step")
    readout_batch: str = option(
        "same", "samples of the readout step: those of its key-query step, or new ones", choices=("same", "fresh")
    )
    stages: int = option(0, "key-query steps to take; 0 = one a layer", low=0)
    saturation: float = option(
        1e-6, "guard of the integer path: the largest attention off the right key in the layers below", above=0.0
    )
    guard_sequences: int = option(64, "training sequences on which the guard looks", low=1, high=2**16)
    test_examples: int = option(
        40, "fresh sequences of the evaluation, at all kN positions", low=1, high=2**20, stored_as="test_sequences"
    )
    values: Values = option(Values(), "value matrices")

    def check(self) -> None:
        require(self.samples % self.block == 0, f"samples={self.samples} must be a multiple of block={self.block}")
        require(self.stages <= self.task.layers, f"stages={self.stages} must be at most layers={self.task.layers}")
        if self.path == "integer":
            why = "must be exact"
            require(self.algorithm == "curriculum", f"path=integer {why} where algorithm={self.algorithm}")
            require(self.embedding == "onehot", f"path=integer {why} where embedding={self.embedding}")
            require(not self.values.free, f"path=integer {why} where values.free is set")
        if self.embedding == "compact":
            require(self.task.moved >= 0, f"task.moved={self.task.moved} must be at least 0 where embedding=compact")
            require(not self.values.free, "values.free must be false where embedding=compact")

    @property
    def ticks(self) -> int:
        """Ticks of one gradient step."""
        return self.samples // self.block

    @property
    def piece(self) -> int:
        """Samples of a block that soft attention differentiates at a time: the most that divide it and fit.

        For its gradient a sample keeps about (l+5) T^2 numbers of every layer l.
        """
        layers = self.task.layers
        kept = self.task.tokens**2 * sum(layer + 5 for layer in range(1, layers + 1))
        fitting = (size for size in range(1, self.block + 1) if self.block % size == 0 and size * kept <= PIECE)
        return max(fitting, default=1)

    @property
    def steps(self) -> int:
        """Key-query steps."""
        return self.stages or self.task.layers

    @property
    def turns(self) -> int:
        """Gradient steps in all: key-query and readout."""
        return 2 * self.steps if self.algorithm == "curriculum" else self.steps + 1


@dataclass(frozen=True)
class Threshold(Config):
    """When do M samples give the right attention? The gradient of every stage on ideal inputs, looked at as M grows."""

    task: Task = option(Task(), "the composition")
    block: int = option(128, "samples of one tick", low=1, high=2**20)
    looks: tuple[float, ...] = option(
        (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0), "M in units of kN(L+1)^2, rounded up to ticks", above=0.0, high=1e6
    )
    test_examples: int = option(
        40,
        "fresh sequences on which attention is tried, at all positions",
        low=1,
        high=2**16,
        stored_as="test_sequences",
    )

    def check(self) -> None:
        require(len(self.looks) > 0, "looks must name at least one sample size")

    @property
    def unit(self) -> int:
        """c = kN(L+1)^2: the noise law's sample size, but for a constant and a logarithm."""
        return self.task.tokens * (self.task.layers + 1) ** 2

    @property
    def ticks(self) -> tuple[int, ...]:
        """The ticks after which M has reached each look."""
        return tuple(sorted({math.ceil(look * self.unit / self.block) for look in self.looks}))


@dataclass(frozen=True)
class Model(parts.Parts):
    """A standard transformer, which reads both ways."""

    layers: int = option(4, "transformer layers", low=1, high=48)
    width: int = option(256, "width", low=1, high=4096)
    heads: int = option(8, "attention heads", low=1, high=64)
    hidden_multiple: int = option(4, "MLP width over width", low=1, high=16)
    compute: str = option("float32", "number format of the stream", choices=("float32", "bfloat16"))
    positions: str = option("learned", parts.POSITIONS_HELP, choices=parts.POSITIONS, since="0.1")
    norm: str = option("layer", "norm before mixer, perceptron and head", choices=parts.NORMS, since="0.1")
    residual: bool = option(True, "residual connections around mixer and perceptron", since="0.1")

    def check(self) -> None:
        require(self.width % self.heads == 0, f"width={self.width} must be a multiple of heads={self.heads}")
        parts.check_parts(self, self.positions, self.width, self.heads, causal=False)
        require(self.positions != "randomised", f"positions={self.positions} must be fixed: no places are drawn here")


@dataclass(frozen=True)
class Encoder(Config):
    """A standard transformer on mixtures of hops (Figure 3 right)."""

    task: Task = option(Task(blocks=4), "the composition")
    hops: tuple[int, ...] = option((1, 2, 4), "hops of the training mixture", low=1)
    test_hops: tuple[int, ...] = option((1, 2, 4), "hops that are tested", low=1)
    allow_repeats: bool = option(False, "take hops > k, where permutations come round again")
    samples: int = option(100_000, "size M of the fixed training pool; 0 = fresh data", low=0, numeric=True)
    supervise: str = option(
        "all",
        "positions in the loss: all kN, those of the first block, or one of each example, drawn with it (Section 5.1)",
        choices=("all", "first", "one"),
    )
    model: Model = option(Model(), "the transformer", stored_as="")
    learning_rate: float = option(5e-4, "peak Adam learning rate", above=0.0, numeric=True)
    final_rate: float = option(
        0.1, "last learning rate over the peak (cosine in between)", low=0.0, high=1.0, numeric=True
    )
    warm_up: int = option(500, "steps of linear warm-up", low=1)
    beta2: float = option(0.98, "Adam's second decay", above=0.0, below=1.0)
    batch: int = option(512, "examples per step", low=1, high=2**20)
    steps: int = option(8000, "training steps", low=1, high=10**9)
    measure_every: int = option(250, "steps between measurements", low=1)
    test_examples: int = option(512, "fresh sequences of each test", low=1, high=2**20, stored_as="test_sequences")

    def check(self) -> None:
        require(len(self.hops) > 0 and len(self.test_hops) > 0, "hops and test_hops must each name at least one hop")
        for hop in (*self.hops, *self.test_hops):
            require(
                hop <= self.task.blocks or self.allow_repeats,
                f"hops={hop} must be at most task.blocks={self.task.blocks} unless allow_repeats is set",
            )
        require(self.warm_up <= self.steps, f"warm_up={self.warm_up} must be at most steps={self.steps}")

    @property
    def kinds(self) -> tuple[int, ...]:
        """All hops that have a token of their own, in increasing order."""
        return tuple(sorted({*self.hops, *self.test_hops}))


@dataclass(frozen=True)
class Hardness(Config):
    """How much of the hidden permutations the population gradient of a random network sees, by enumeration."""

    hops: int = option(2, "composed blocks k: labels are hop^k from block 1", low=1, high=3)
    alphabet: int = option(3, "letters N", low=3, high=4)
    network: str = option("encoder", "the random network", choices=("encoder", "perceptron"))
    width: int = option(16, "its width", low=2, high=256)
    gain: float = option(5.0, "factor on its initial weights, so that it is far from linear", above=0.0)

    def check(self) -> None:
        require(
            self.alphabet == 3 or self.hops <= 2,
            f"hops={self.hops} must be at most 2 where alphabet={self.alphabet} (the enumeration has (N!)^k terms)",
        )
