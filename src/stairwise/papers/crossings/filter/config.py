"""The config of the trials of this crossing; `__init__` says what it asks."""

from dataclasses import dataclass

from stairwise.config import Config, option, require
from stairwise.papers.lego.config.practical import Practical


@dataclass(frozen=True)
class Filtered(Config):
    """A decoder trained with true labels, then at a longer length with its own, garbled and perhaps filtered."""

    base: Practical = option(Practical(keep_weights=True), "the annotator, and how everything is tested")
    length: int = option(10, "length of the chains that it labels", low=1)
    noise: float = option(0.1, "chance p that a label is replaced by a wrong one", low=0.0, high=1.0, numeric=True)
    systematic: bool = option(False, "the same labels go wrong in every telling of a chain", numeric=True)
    filter: bool = option(True, "train on the chains whose tellings agree only", numeric=True)
    tellings: int = option(2, "how often the annotator labels a chain", low=1, high=16)
    samples: int = option(1000, "chains that are labelled", low=1, high=2**20, stored_as="pool")
    batch: int = option(32, "chains a step", low=1, high=2**16)
    steps: int = option(200, "steps", low=1, high=10**6)
    learning_rate: float = option(5e-4, "peak learning rate", above=0.0, numeric=True)
    final_rate: float = option(0.05, "last learning rate over the peak", low=0.0, high=1.0, numeric=True)

    def check(self) -> None:
        longest = self.base.longest
        require(self.length <= longest, f"length={self.length} must be at most the longest that base sees, {longest}")
        own = self.base.model.positions
        require(own == "none", f"base.model.positions={own} must be none (predicates are told in another order)")
        require(self.base.keep_weights, "base.keep_weights must be true: the annotator is trained once a seed")


def kept_share(noise: float, values: int, length: int, tellings: int = 2) -> float:
    """The chance that all tellings of a chain agree, if only the noise is wrong and it is independent.

    ((1-p)^R + (|Y|-1) (p/(|Y|-1))^R)^L: at each step all are right, or all are wrong in the same way.

    >>> round(kept_share(0.1, 4, 10), 4)
    0.1267
    """
    return ((1 - noise) ** tellings + (values - 1) * (noise / (values - 1)) ** tellings) ** length


def right_share(noise: float, values: int, length: int, tellings: int = 2) -> float:
    """The chance that a chain whose tellings agree is right: (1-p)^{RL} over the chance that they agree.

    >>> round(right_share(0.1, 4, 10), 4)
    0.9598
    """
    return (1 - noise) ** (tellings * length) / kept_share(noise, values, length, tellings)
