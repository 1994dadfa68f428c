"""The config of the trials of this crossing; `__init__` says what it asks."""

from dataclasses import dataclass

from stairwise.config import Config, option, require

TASKS = ("composition", "lego", "parity_cot", "parity_onestep", "selection")


@dataclass(frozen=True)
class Model(Config):
    """The sizes of a model."""

    width: int = option(64, "width of the model (selection: of an encoding; parity_onestep: has none)", low=4)
    layers: int = option(1, "layers (composition and parity_cot; the others' models have one)", low=1, high=16)

    def check(self) -> None:
        require(self.width % 4 == 0, f"width={self.width} must be a multiple of 4 (four heads)")


@dataclass(frozen=True)
class Watched(Config):
    """One task, its model, and how it is trained and watched."""

    task: str = option("parity_cot", "whose task and model", choices=TASKS)
    length: int = option(
        12, "composition: letters N; lego: steps L; parities: bits n; selection: tokens T", low=2, high=2**10
    )
    parts: int = option(
        4,
        "composition: blocks k, all hops up to k; lego: order of the cyclic group; parities: secret bits; selection:"
        " named tokens q",
        low=2,
        high=64,
    )
    model: Model = option(Model(), "its sizes", stored_as="")
    learning_rate: float = option(1e-3, "learning rate of Adam", above=0.0, high=10.0, numeric=True, stored_as="rate")
    batch: int = option(64, "examples of one step", low=1, high=2**16)
    measure_every: int = option(10, "steps between evaluations", low=1, high=2**20, stored_as="look")
    looks: int = option(40, "evaluations in all", low=2, high=10**5)
    test_examples: int = option(64, "fresh examples that are looked at", low=1, high=2**14, stored_as="test")

    def check(self) -> None:
        bound = {"composition": 64, "lego": 64, "parity_cot": self.length, "parity_onestep": self.length}
        largest = bound.get(self.task, self.length)
        require(self.parts <= largest, f"parts={self.parts} must be at most {largest} where task={self.task}")
        require(
            self.task in ("composition", "parity_cot") or self.model.layers == 1,
            f"model.layers={self.model.layers} must be 1 where task={self.task}",
        )
