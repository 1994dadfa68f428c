"""The same questions asked of every paper, so that their answers stand side by side.

A paper declares one `Answer` a question: what it says, and where it can be measured a function of the records of one
experiment (records -> `Measured`). The report fills the table from the store.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

# question -> what it asks, and what `Measured.value` and `Measured.other` are
QUESTIONS = {
    "samples": ("How many samples does it take?", "training samples"),
    "steps": ("How many gradient steps?", "gradient steps"),
    "attention": ("What must the attention find?", "share of it that is found"),
    "supervision": ("What does supervision buy?", "error with it, and without; 1 is chance"),
    "extrapolation": ("How far does it extrapolate?", "error beyond training, and within; 1 is chance"),
}


@dataclass(frozen=True)
class Answer:
    """What a paper says to a question, and how to measure it: `read` takes the records of `experiment`."""

    question: str
    says: str
    experiment: str = ""
    read: Callable[[Sequence[Any]], "Measured"] | None = None

    def __post_init__(self):
        if self.question not in QUESTIONS:
            raise ValueError(f"question={self.question} must be one of {', '.join(QUESTIONS)}")
        if bool(self.experiment) != (self.read is not None):
            raise ValueError(f"answer to {self.question}: experiment and read belong together")


@dataclass(frozen=True)
class Measured:
    """What the records say: a line of text, and numbers for the figure.

    value   the number itself (see QUESTIONS); for supervision and extrapolation an error, 0 perfect, 1 chance
    other   what it is compared with: the error without supervision, or within the training distribution
    """

    text: str
    value: float | None = None
    other: float | None = None
