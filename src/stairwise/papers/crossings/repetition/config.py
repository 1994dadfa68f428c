"""The config of the trials of this crossing; `__init__` says what it asks."""

from dataclasses import dataclass

from stairwise.config import Config, option, require
from stairwise.papers.composition.config import Task as CompositionTask
from stairwise.papers.lego.config.task import Task as LegoTask
from stairwise.papers.parity_cot.config.task import Task as ParityTask
from stairwise.papers.parity_cot.config.training import Decoder

TASKS = ("parity", "composition", "lego")


@dataclass(frozen=True)
class Repeated(Config):
    """One of three tasks, every step labelled or the answer alone, from a pool of so many examples."""

    task: str = option("parity", "which task", choices=TASKS)
    every_step: bool = option(False, "label every step of the chain, or the last answer alone")
    samples: int = option(
        0, "distinct training examples, drawn from with replacement; 0 = fresh", low=0, numeric=True, stored_as="pool"
    )
    parity: ParityTask = option(ParityTask(bits=16, size=3), "the parity")
    composition: CompositionTask = option(CompositionTask(blocks=2, alphabet=5), "the composition")
    lego: LegoTask = option(LegoTask("S3", 8, 3), "the LEGO chain")
    model: Decoder = option(Decoder(layers=2), "the model, the same for all", stored_as="decoder")
    learning_rate: float = option(2e-3, "learning rate of Adam", above=0.0, high=1.0, numeric=True, stored_as="rate")
    batch: int = option(64, "examples of one step", low=1, high=2**16)
    measure_every: int = option(50, "steps between evaluations", low=1, high=10**6, stored_as="look")
    looks: int = option(30, "evaluations at most", low=1, high=10**6)
    test_examples: int = option(512, "held-out examples", low=1, high=2**16, stored_as="validation")
    threshold: float = option(0.95, "share of held-out chains that must be right", above=0.0, high=1.0)

    def check(self) -> None:
        self.model.check_draws_nothing()
        require(
            self.batch * self.budget < 2**31,
            f"batch*measure_every*looks={self.batch * self.budget} must be below 2**31={2**31}",
        )

    @property
    def budget(self) -> int:
        """Steps at most."""
        return self.measure_every * self.looks
