"""The configs: prompts, training, and what a trained layer is tried on."""

from dataclasses import dataclass

from stairwise.paper import Config, option, require


@dataclass(frozen=True)
class Prompts(Config):
    """Prompts of N labelled inputs and a query; inputs are N(0, diag(l_1..l_d)), with l_i ~ i^-decay and mean 1."""

    width: int = option(5, "dimension d of an input", low=1, high=512)
    length: int = option(20, "labelled inputs N of a prompt", low=1, high=2**16)
    decay: float = option(0.0, "power at which the covariance's eigenvalues fall", low=0.0, high=4.0)
    noise: float = option(0.0, "standard deviation of the labels' noise (the paper: 0)", low=0.0, high=10.0)


@dataclass(frozen=True)
class Training(Config):
    """Training of all weights of the layer on fresh prompts, from the paper's start."""

    prompts: Prompts = option(Prompts(), "the prompts")
    optimizer: str = option("adam", "gradient step", choices=("adam", "sgd"))
    learning_rate: float = option(0.01, "learning rate, falling linearly to 0", above=0.0, high=10.0, numeric=True)
    start: float = option(0.3, "scale sigma of the start", above=0.0, high=10.0)
    batch: int = option(512, "prompts per step", low=1, high=2**20)
    steps: int = option(1000, "training steps", low=1, high=10**8)
    measure_every: int = option(25, "steps between measurements", low=1)

    def check(self) -> None:
        require(
            self.measure_every <= self.steps, f"measure_every={self.measure_every} must be at most steps={self.steps}"
        )


@dataclass(frozen=True)
class Shift(Config):
    """A trained layer on prompts that it was not trained on."""

    training: Training = option(Training(), "how it was trained")
    scales: tuple[int, ...] = option((25, 50, 100, 200, 400), "test covariance over training's, in percent", low=1)
    test_lengths: tuple[int, ...] = option(
        (5, 10, 20, 40, 80, 160), "lengths M of test prompts", low=1, stored_as="lengths"
    )
    test_examples: int = option(16_384, "test prompts of each kind", low=1, high=2**22, stored_as="examples")
