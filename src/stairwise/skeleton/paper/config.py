"""What can be set: plain frozen dataclasses whose fields are documented, checked, and flags of the command line.

To change: the sizes of your task and the settings of your training. `numeric=True` marks a field that is traced, so
that trials which differ in it share one compiled program; a rule across fields goes into `check`. No JAX here.
"""

from dataclasses import dataclass

from stairwise.paper import Config, option, require


@dataclass(frozen=True)
class Task(Config):
    """The task: how many tokens there are."""

    length: int = option(8, "number of tokens T, one of them marked", low=2, high=2**16)


@dataclass(frozen=True)
class Training(Config):
    """Gradient descent on fresh batches, from a query of zero."""

    task: Task = option(Task(), "the task")
    learning_rate: float = option(1.0, "learning rate eta", above=0.0, high=1e3, numeric=True)
    batch: int = option(256, "examples per step B", low=1, high=2**20)
    steps: int = option(300, "training steps", low=1, high=10**8)
    measure_every: int = option(5, "steps between measurements", low=1)

    def check(self) -> None:
        require(
            self.measure_every <= self.steps, f"measure_every={self.measure_every} must be at most steps={self.steps}"
        )
