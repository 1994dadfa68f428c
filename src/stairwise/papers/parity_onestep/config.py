"""The configs of parity in one gradient step: task, link, descent, filter, quantiser, oracle."""

import warnings
from dataclasses import dataclass

from stairwise.config import Config, option, require

LARGEST = 2**14  # bits or secret positions


@dataclass(frozen=True)
class Task(Config):
    """A parity of k out of d bits and its decomposition into products of two."""

    bits: int = option(64, "input bits d", low=2, high=LARGEST)
    size: int = option(32, "secret bits k", low=2, high=LARGEST)
    secret: tuple[int, ...] = option(
        (), "the secret positions, counted from 0; none = drawn from the seed", low=0, stored_as="subset"
    )
    tree: str = option("balanced", "decomposition (the paper: balanced)", choices=("balanced", "chain"))

    def check(self) -> None:
        require(self.size <= self.bits, f"size={self.size} must be at most bits={self.bits}")
        if self.secret:
            require(
                len(self.secret) == self.size, f"secret has {len(self.secret)} entries, which must be size={self.size}"
            )
            for place, position in enumerate(self.secret):
                require(position < self.bits, f"secret={position} must be below bits={self.bits}")
                require(position not in self.secret[:place], f"secret={position} must not be repeated")

    @property
    def slots(self) -> int:
        """Places for inputs."""
        return self.bits

    @property
    def leaves(self) -> int:
        """Places for secret positions."""
        return self.size


@dataclass(frozen=True)
class PaddedTask(Config):
    """The same with d and k as numbers, so that one compiled program serves every size up to the padding."""

    bits: int = option(64, "input bits d", low=2, numeric=True)
    size: int = option(32, "secret bits k", low=2, numeric=True)
    slots: int = option(64, "padding: the largest d of the program", low=2, high=LARGEST)
    leaves: int = option(32, "padding: the largest k of the program", low=2, high=LARGEST)
    tree: str = option("balanced", "decomposition (the paper: balanced)", choices=("balanced", "chain"))

    def check(self) -> None:
        require(self.size <= self.bits, f"size={self.size} must be at most bits={self.bits}")
        require(self.bits <= self.slots, f"bits={self.bits} must be at most slots={self.slots}")
        require(self.size <= self.leaves, f"size={self.size} must be at most leaves={self.leaves}")

    @property
    def secret(self) -> tuple[int, ...]:
        return ()


@dataclass(frozen=True)
class LinkFunction(Config):
    """phi, which turns the mean of two signs into their product."""

    name: str = option("poly4", "shape of phi", choices=("poly4", "cos", "requ"))
    slope: float = option(4.0, "slope s of the straight part of requ", above=2.0, high=4.0)


@dataclass(frozen=True)
class Rate(Config):
    """The learning rate, by the child logit that one step should give at the root."""

    lam: float = option(
        9.0, "logit lam of the root's children after one step: eta = lam V(root)^2 / (2c)", above=0.0, numeric=True
    )
    scale: str = option(
        "logit",
        "logit: eta from lam by the leading order; measured: from lam by the measured child gradient of the root;"
        " paper: eta = eta0 d^(2+eps/16)",
        choices=("logit", "measured", "paper"),
    )
    eta0: float = option(1.0, "eta0 of the paper's scaling", above=0.0, numeric=True)
    eps: float = option(1.0, "eps of the paper: n = d^(2+eps), oracle error d^(-2-eps/8)", above=0.0, numeric=True)
    adam: float = option(0.03, "learning rate where the optimiser is Adam", above=0.0, numeric=True)


@dataclass(frozen=True)
class Quantiser(Config):
    """r[W] after every step: spacing * clip(round(w / spacing), -bound, bound), ties to even."""

    spacing: float = option(0.0, "0: no rounding; 1: integers (the paper); else a grid", low=0.0, numeric=True)
    bound: float = option(
        0.0,
        "0: none (the paper); else weights saturate at this many spacings (an extension, not Theorem 7)",
        low=0.0,
        numeric=True,
    )

    @property
    def kind(self) -> str:
        """none, integer, grid or saturating."""
        if self.spacing == 0:
            return "none"
        if self.bound > 0:
            return "saturating"
        return "integer" if self.spacing == 1 else "grid"


INTEGER = Quantiser(spacing=1.0)


@dataclass(frozen=True)
class Oracle(Config):
    """How the gradient is disturbed, by at most delta = C d^(-2-eps/8) in every entry."""

    kind: str = option(
        "exact",
        "noisy: +-delta with random signs; adversarial: the children of a node are torn apart,"
        " and the second child and all other tokens are pushed up",
        choices=("exact", "noisy", "adversarial"),
    )
    strength: float = option(0.0, "C of delta = C d^(-2-eps/8)", low=0.0, numeric=True)


@dataclass(frozen=True)
class Augmentation(Config):
    """The filter (Section 3.3) and the inputs that it looks at."""

    eps0: float = option(0.0, "threshold of the filter, in (1, 2); 0: no filter", low=0.0, high=4.0, numeric=True)
    source: str = option(
        "augmented",
        "inputs that decide: augmented (the paper), or the first block of the training inputs",
        choices=("augmented", "training"),
    )
    inputs: int = option(32, "augmented inputs n'", low=1, numeric=True)
    room: int = option(32, "padding: the largest n' of the program", low=1, high=2**20)
    reading: str = option(
        "exists", "the filter fires if some or if all nodes are uninformative", choices=("exists", "forall")
    )
    propagate: bool = option(False, "a closed level closes the next one", numeric=True)
    literal: bool = option(False, "take any eps0, to see what then fails", numeric=True)

    def check(self) -> None:
        require(self.inputs <= self.room, f"inputs={self.inputs} must be at most room={self.room}")
        if self.literal:
            return
        require(self.eps0 < 2, f"eps0={self.eps0:g} must be below 2 (from there on the filter never opens)")
        if 0 < self.eps0 <= 1 and not self.propagate:
            warnings.warn(
                f"eps0={self.eps0:g} should be above 1 unless propagate is set: a zeroed token is at distance 1 from"
                " -1, so the level after a closed one would open",
                stacklevel=4,
            )


FILTER = Augmentation(eps0=1.5)


@dataclass(frozen=True)
class Descent(Config):
    """Full-batch gradient descent of W from zero on n fixed samples, drawn and contracted block by block."""

    task: Task = option(Task(), "the parity")
    link: LinkFunction = option(LinkFunction(), "the link function")
    mask: str = option("causal", "which tokens a node sees", choices=("causal", "block"))
    forcing: bool = option(True, "teacher forcing: nodes are predicted from true tokens")
    supervision: str = option(
        "chain", "what the loss sees: every node, or (no chain of thought) the root", choices=("chain", "root")
    )
    samples: int = option(131_072, "training samples n", low=1, high=2**31 - 1)
    block: int = option(4096, "samples in one block (one tick); a multiple of 32", low=32, high=2**20)
    steps: int = option(1, "gradient steps", low=1, high=10**6)
    rate: Rate = option(Rate(), "the learning rate")
    quantiser: Quantiser = option(Quantiser(), "rounding of W after a step")
    oracle: Oracle = option(Oracle(), "the gradient oracle")
    augmentation: Augmentation = option(Augmentation(), "the filter")
    test_examples: int = option(1000, "fresh inputs of the evaluation", low=1, high=2**20, stored_as="test_inputs")
    looks: tuple[int, ...] = option(
        (), "sample counts at which the one step is tried, on the samples so far; all n always are"
    )
    measure_every: int = option(1, "steps between measurements", low=1)
    # beyond the paper
    optimizer: str = option("gd", "gradient step", choices=("gd", "adam"))
    fresh: bool = option(False, "new samples every step")

    def check(self) -> None:
        require(self.block % 32 == 0, f"block={self.block} must be a multiple of 32")
        for look in self.looks:
            require(self.steps == 1, f"looks={look} needs steps=1 (steps={self.steps})")
            require(
                look % self.block == 0 and 0 < look <= self.samples,
                f"looks={look} must be a multiple of block={self.block} in 1..samples={self.samples}",
            )
        if not self.forcing or self.augmentation.eps0 > 0:
            require(self.mask == "block", f"mask={self.mask} must be block without teacher forcing or with a filter")
        ticks = self.steps * self.blocks
        require(ticks * self.block < 2**31, f"steps={self.steps} times samples={self.samples} must be below 2**31")

    @property
    def blocks(self) -> int:
        """Ticks of one gradient step."""
        return -(-self.samples // self.block)


@dataclass(frozen=True)
class PaddedDescent(Descent):
    """The same for a task whose sizes are numbers."""

    task: PaddedTask = option(PaddedTask(), "the parity")  # type: ignore[assignment]


@dataclass(frozen=True)
class Hardness(Config):
    """Descent of a small tanh net on the parity alone, against an oracle that hides it where it can (Theorem 2)."""

    bits: int = option(12, "input bits d", low=2, high=16)
    size: int = option(6, "secret bits k", low=2, high=16)
    width: int = option(8, "hidden width of the net", low=1, high=64)
    learning_rate: float = option(0.3, "learning rate", above=0.0, high=100.0, stored_as="rate")
    queries: int = option(60, "gradient queries T", low=1, high=10_000)
    samples: int = option(0, "samples n; 0 = all inputs", low=0, high=2**22)
    tolerances: tuple[float, ...] = option(
        (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0),
        "oracle errors eps, in units of sqrt(Var) at its largest",
        above=0.0,
    )
    replays: int = option(2, "hidden parities whose own runs are compared bit by bit", low=0, high=1000)

    def check(self) -> None:
        require(self.size <= self.bits, f"size={self.size} must be at most bits={self.bits}")
        require(len(self.tolerances) > 0, "tolerances must name at least one oracle error")


METHODS = {
    "direct": "the prediction's loss alone",
    "chain": "the loss of all nodes of the own chain",
    "forcing": "the same with teacher forcing",
    "consistency": "the own chain with a filter, and a little of the prediction's loss",
}


@dataclass(frozen=True)
class Learning(Config):
    """Full-batch descent over hundreds of epochs, by four ways to supervise the chain (ICLR version, Section 4)."""

    task: Task = option(Task(), "the parity")
    link: LinkFunction = option(LinkFunction("requ", 4.0), "the link function")
    method: str = option(
        "chain", "; ".join(f"{name}: {says}" for name, says in METHODS.items()), choices=tuple(METHODS)
    )
    samples: int = option(100_000, "training samples n, all of them in every step", low=1, high=2**31 - 1)
    batch: int = option(20_000, "samples whose gradient is taken at once; divides samples", low=1, high=2**20)
    steps: int = option(350, "steps, which are epochs", low=1, high=10**6)
    learning_rate: float = option(50.0, "learning rate", above=0.0, numeric=True)
    prediction: float = option(0.1, "weight of the prediction's loss (method consistency)", low=0.0, numeric=True)
    threshold: float = option(
        0.4, "a node is trained when a score of it exceeds this (method consistency)", above=0.0, high=1.0, numeric=True
    )
    test_examples: int = option(10_000, "fresh inputs of the test", low=1, high=2**20)
    measure_every: int = option(5, "steps between two measurements", low=1)

    def check(self) -> None:
        require(self.samples % self.batch == 0, f"batch={self.batch} must divide samples={self.samples}")
        require(self.task.tree == "balanced", f"task.tree={self.task.tree} must be balanced")

    @property
    def mask(self) -> str:
        """The tokens that a node sees: all before it, or (own chains) those of lower levels."""
        return "causal" if self.method in ("direct", "forcing") else "block"

    @property
    def blocks(self) -> int:
        """Ticks of one step."""
        return self.samples // self.batch
