"""The configs of sparse token selection: task, encodings, training."""

from dataclasses import dataclass

from stairwise.config import Config, ConfigError, option, require
from stairwise.papers.selection.acceptance import found, smallest_threshold


@dataclass(frozen=True)
class Task(Config):
    """STS_q over T tokens of width d."""

    length: int = option(200, "context length T", low=2, high=2**20)
    sparsity: int = option(3, "subset size q: how many tokens the query names", low=1)
    width: int = option(5, "token dimension d", low=1, high=2**16)

    def check(self) -> None:
        require(self.sparsity <= self.length, f"sparsity={self.sparsity} must be at most length={self.length}")


@dataclass(frozen=True)
class Encodings(Config):
    """Positions as sign vectors, and how many sets of them training sees."""

    width: int = option(170, "encoding dimension d_e", low=1, high=2**16)
    threshold: float = option(0.35, "largest allowed |<e_i, e_j>|", above=0.0, high=1.0, numeric=True)
    scheme: str = option(
        "offenders", "how draws above the threshold are rejected", choices=("offenders", "vector", "matrix", "none")
    )
    pool: int = option(
        0,
        "sets of encodings that training draws from: 0 = fresh every step (stochastic), 1 = fixed",
        low=0,
        numeric=True,
    )
    per_step: int = option(1, "sets of encodings a step averages over", low=1, high=4096)
    average: str = option("loss", "what is averaged over them (theory: output)", choices=("loss", "output"))


@dataclass(frozen=True)
class Online(Config):
    """Training of (W, V) on fresh batches, with validation on other lengths and subset sizes."""

    task: Task = option(Task(), "the selection task")
    encoding: Encodings = option(Encodings(), "positional encodings")
    optimizer: str = option("sgd", "gradient step", choices=("sgd", "adam"))
    learning_rate: float = option(1.0, "learning rate eta", above=0.0, numeric=True)
    drop_at: int = option(2**30, "step after which the learning rate is divided by drop_by", low=0, numeric=True)
    drop_by: float = option(3.0, "divisor of the learning rate after drop_at", above=0.0, numeric=True)
    batch: int = option(128, "examples per step B", low=1, high=2**20)
    steps: int = option(1500, "training steps", low=1, high=10**9)
    start: str = option("zero", "initial W and V", choices=("zero", "random"))
    start_std: float = option(
        0.0, "entry standard deviation of a random start; 0 = 1/sqrt(d+d_e)", low=0.0, numeric=True
    )
    query_token: str = option("zero", "x_query: zero, or a fresh Gaussian per example", choices=("zero", "gaussian"))
    measure_every: int = option(50, "steps between measurements", low=1)
    snapshots: tuple[int, ...] = option((), "steps at which W and V are kept (the last one always is)", low=0)
    test_lengths: tuple[int, ...] = option((48,), "lengths T_test of the length-generalisation tasks", low=2)
    test_sparsities: tuple[int, ...] = option((6,), "subset sizes q_test at the training length", low=1)
    test_examples: int = option(128, "examples in each validation set", low=1, high=2**20)
    # beyond the paper
    tokens: str = option("gaussian", "law of the tokens", choices=("gaussian", "laplace", "onehot", "shifted"))
    samples: int = option(
        0, "size of a finite training set, drawn from with replacement; 0 = fresh data", low=0, numeric=True
    )
    beta: float = option(1.0, "inverse temperature of the softmax", above=0.0, numeric=True)
    factorised: int = option(0, "inner width m of W = K^T Q; 0 = W itself trains", low=0, high=2**16)
    train_value: bool = option(True, "train V; otherwise it stays at [I 0], that is alpha = 1")
    attend_query: bool = option(False, "softmax over [Z, z_query] instead of Z")

    def check(self) -> None:
        largest = max((self.task.sparsity, *self.test_sparsities))
        require(
            largest <= self.encoding.width,
            f"encoding.width={self.encoding.width} must be at least the largest sparsity={largest}"
            " (otherwise E_y^T E_y is singular)",
        )
        for sparsity in self.test_sparsities:
            require(
                sparsity <= self.task.length,
                f"test_sparsities={sparsity} must be at most task.length={self.task.length}",
            )
        for length in self.test_lengths:
            require(
                self.task.sparsity <= length <= 2**20,
                f"test_lengths={length} must lie in task.sparsity={self.task.sparsity}..1048576",
            )
        self._check_threshold()
        for step in self.snapshots:
            require(step <= self.steps, f"snapshots={step} must be at most steps={self.steps}")

    def _check_threshold(self) -> None:
        """Training would go on, after a thousand draws, with encodings above the threshold."""
        encoding, longest = self.encoding, max((self.task.length, *self.test_lengths))
        scheme, threshold = encoding.scheme, 1.0 if encoding.scheme == "none" else encoding.threshold
        if found(scheme, longest, encoding.width, threshold) >= 0.5:
            return
        least = smallest_threshold(scheme, longest, encoding.width)
        require(
            least is not None,
            f"encoding.width={encoding.width} must be larger: it has too few sign vectors for {longest} encodings,"
            " no two of them equal up to sign, to be drawn",
        )
        raise ConfigError(
            f"encoding.threshold={encoding.threshold:g} must be at least {least:g} for {longest} encodings of"
            f" encoding.width={encoding.width} to be drawn (encoding.scheme={scheme})"
        )


@dataclass(frozen=True)
class Fcn(Config):
    """A fully connected net on the same task (Theorem 3.5)."""

    task: Task = option(Task(6, 2, 1), "the selection task")
    query: str = option(
        "head", "head: y reaches the head exactly (the strongest net); input: raw integers y", choices=("head", "input")
    )
    first_width: int = option(5, "width m of the first layer", low=1, numeric=True)
    widest: int = option(16, "padding: one program serves every first_width up to this", low=1, high=2**16)
    head_width: int = option(128, "width of the head's two hidden layers", low=1, high=2**14)
    learning_rate: float = option(3e-3, "peak Adam learning rate, decayed to 0 by a cosine", above=0.0, numeric=True)
    batch: int = option(256, "examples per step", low=1, high=2**20)
    steps: int = option(3000, "training steps", low=1, high=10**9)
    test_examples: int = option(102_400, "test examples at the end", low=1, high=10**8)
    measure_every: int = option(100, "steps between measurements", low=1)

    def check(self) -> None:
        require(self.first_width <= self.widest, f"first_width={self.first_width} must be at most widest={self.widest}")


@dataclass(frozen=True)
class Population(Config):
    """The exact dynamics of gradient flow with one-hot encodings, as two scalars."""

    task: Task = option(Task(), "the selection task")
    horizon: float = option(1e6, "last time eta t", above=1.0, high=1e15)
    points: int = option(200, "times, spaced evenly in their logarithm from 0.1 on", low=2, high=10**6)
    test_lengths: tuple[int, ...] = option((250, 300, 400), "other lengths at which the same weights are tried", low=2)

    def check(self) -> None:
        require(
            2 <= self.task.sparsity < self.task.length,
            f"task.sparsity={self.task.sparsity} must lie in 2..task.length-1={self.task.length - 1}",
        )
        for length in self.test_lengths:
            require(
                length > self.task.sparsity, f"test_lengths={length} must be above task.sparsity={self.task.sparsity}"
            )
