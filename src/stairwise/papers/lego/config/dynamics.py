"""The configs of the theory model's dynamics: features, attention in four scalars, Algorithms 1 and 2."""

from dataclasses import dataclass

from stairwise.config import Config, option, require
from stairwise.papers.lego import groups
from stairwise.papers.lego.config.task import ACTIONS, Task, action_of

LARGEST_VALUES = 128  # |Y|: a step costs |Y|^2


def _checked_action(name: str) -> None:
    action = action_of(name)
    require(action.invertible, f"action={name} must consist of permutations")
    size, high = action.values, LARGEST_VALUES
    require(2 <= size <= high, f"action={name} has {size} values, which must be in 2..{high}")


@dataclass(frozen=True)
class Constants(Config):
    """The constants of the network that the paper leaves open."""

    clip_factor: float = option(4.0, "C_B of the logit clip B = C_B log d", above=0.0, high=200.0, numeric=True)
    rho: float = option(0.8, "end rho of the power branch of the smoothed ReLU", above=0.0, numeric=True)
    power: int = option(4, "power q of the smoothed ReLU, even", low=4, high=12)

    def check(self) -> None:
        require(self.power % 2 == 0, f"power={self.power} must be even")


@dataclass(frozen=True)
class FeatureRun(Config):
    """Gradient descent of the value token's features on all one-step chains (Theorems B.1 and C.1)."""

    action: str = option("C3", f"the action: {groups.NAMES}", examples=ACTIONS)
    vocabulary: int = option(256, "vocabulary d", low=8, high=2**20)
    neurons: int = option(8, "neurons m of each class (the theorem: at least |Y|; better 3 |Y|)", low=1, high=1024)
    sigma0: float = option(1e-4, "standard deviation of the start; b = sigma0 log d", above=0.0, numeric=True)
    network: Constants = option(Constants(clip_factor=3.0), "clip and activation")
    scale: str = option(
        "largest",
        "what the rate is divided by: nothing, the loss, the largest gradient, or the largest over min(V + b, 1)",
        choices=("constant", "loss", "largest", "relative"),
    )
    learning_rate: float = option(
        0.02, "learning rate, before it is divided", above=0.0, numeric=True, stored_as="rate"
    )
    steps: int = option(20_000, "gradient steps", low=1, high=10_000_000)
    points: int = option(60, "measuring points, evenly spaced", low=1, high=10_000)

    def check(self) -> None:
        _checked_action(self.action)
        group = self.group
        require(self.vocabulary > group.values, f"vocabulary={self.vocabulary} must be above the {group.values} values")
        work = group.actions * group.values**2 * self.neurons
        require(work <= 2**24, f"action={self.action} with neurons={self.neurons} is too large: {work} activations")

    @property
    def group(self) -> groups.Action:
        return action_of(self.action)


@dataclass(frozen=True)
class Reduced(Config):
    """What every run in four scalars needs: the action, the sizes, the network."""

    action: str = option("S4", f"the action: {groups.NAMES}", examples=ACTIONS)
    variables: int = option(256, "variables |X|", low=3, high=1_000_000)
    network: Constants = option(Constants(), "clip and activation")
    learning_rate: float = option(
        0.01, "learning rate eta / |X|, divided by the loss", above=0.0, numeric=True, stored_as="rate"
    )
    test_examples: int = option(200, "chains of each roll-out test", low=1, high=100_000, stored_as="sequences")

    def check(self) -> None:
        _checked_action(self.action)

    @property
    def group(self) -> groups.Action:
        return action_of(self.action)

    @property
    def vocabulary(self) -> int:
        """d = 1 + |X| + |G| + |Y|, the blank included."""
        return 1 + self.variables + self.group.actions + self.group.values


@dataclass(frozen=True)
class AttentionRun(Reduced):
    """Descent of attention on chains of two, over the exact population, on the ideal network."""

    supervised: tuple[int, ...] = option(
        (1, 2), "steps l whose losses are added: 1,2 (Algorithm 1) or 2", low=1, high=2
    )
    steps: int = option(2000, "gradient steps at most", low=1, high=10_000_000)
    stop: str = option(
        "never",
        "never; power: loss below d^-exponent; window: below e^{(-1/2 + 3.01 c1) 2B}, the end of Lemma E.35's stage",
        choices=("never", "power", "window"),
    )
    exponent: float = option(2.0, "E_1 of the stopping loss d^-E_1", above=0.0, numeric=True)
    points: int = option(50, "measuring points, evenly spaced", low=1, high=10_000)
    test_lengths: tuple[int, ...] = option(
        (8, 16, 32, 64, 128, 256, 512), "lengths of the roll-out tests", low=1, high=65_536, stored_as="lengths"
    )

    def check(self) -> None:
        super().check()
        require(len(self.supervised) > 0, "supervised must name step 1 or 2")
        require(len(self.test_lengths) > 0, "test_lengths must name at least one length")


@dataclass(frozen=True)
class Doubling(Reduced):
    """Algorithm 2 on the ideal network: stage k trains on chains of 2^k labelled by stage k - 1."""

    stages: int = option(6, "stages K; the last trains on chains of 2^K", low=1, high=14)
    exponent: float = option(2.0, "E_1: a stage ends once its loss is below d^-E_1", above=0.0, numeric=True)
    contexts: int = option(1500, "chains that a stage trains on, drawn when it begins (stage 1 is exact)", low=1)
    supervised: str = option(
        "second", "which steps' losses are used: the second (paper) or any", choices=("second", "any")
    )
    steps: int = option(2000, "steps of a stage at most", low=1, high=1_000_000, stored_as="most_steps")

    def check(self) -> None:
        super().check()
        longest = 2**self.stages
        require(
            longest < self.variables,
            f"stages={self.stages} needs {longest + 1} variables, which must be at most variables={self.variables}",
        )


@dataclass(frozen=True)
class Curriculum(Config):
    """Algorithm 1 on the whole theory model: FFN on chains of one, then attention on chains of two."""

    task: Task = option(Task("C3", 14, 2), "the chains of the second stage")
    neurons: int = option(12, "neurons m of each output (4 |Y|: fewer leave pairs unlearned)", low=1, high=256)
    sigma0: float = option(0.02, "standard deviation of the start; b = sigma0 log d", above=0.0, numeric=True)
    network: Constants = option(Constants(rho=0.5), "clip and activation")
    batch: int = option(256, "fresh chains a step", low=1, high=2**16)
    ffn_steps: int = option(600, "steps of stage 1", low=1, high=1_000_000)
    ffn_rate: float = option(0.04, "rate of stage 1, over the largest gradient of each output", above=0.0, numeric=True)
    attention_steps: int = option(300, "steps of stage 2", low=1, high=1_000_000)
    attention_rate: float = option(0.02, "rate eta / |X| of stage 2, over the loss", above=0.0, numeric=True)
    measure_every: int = option(50, "steps between measurements", low=1)
    test_lengths: tuple[int, ...] = option(
        (1, 2, 5, 10, 13), "lengths of the roll-out tests", low=1, high=1000, stored_as="lengths"
    )
    test_examples: int = option(100, "chains of each roll-out test", low=1, high=100_000, stored_as="sequences")

    def check(self) -> None:
        require(self.task.length >= 2, f"task.length={self.task.length} must be at least 2")
        require(len(self.test_lengths) > 0, "test_lengths must name at least one length")
        longest = max(self.test_lengths)
        require(
            longest < self.task.variables,
            f"test_lengths={longest} must be below task.variables={self.task.variables}",
        )
        weights = 25 * self.task.vocabulary**2 * self.neurons
        require(weights <= 2**27, f"task.variables={self.task.variables} is too large: {weights} weights")
