"""The config of a cell of the atlas, and the questions that its cells are chosen by; `__init__` says what it asks."""

from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from stairwise.config import Config, option, require
from stairwise.papers.lego.config.task import action_of
from stairwise.papers.parity_cot.config.training import Decoder

TIMES = (1, 2, 4)  # test lengths over the length of training
SUPERVISIONS = {"word": ("answer", "states"), "clauses": ("answer", "chain")}


@dataclass(frozen=True)
class Cell(Config):
    """A model that tracks the state of a group, trained at one length and tested at 1, 2 and 4 times that length."""

    action: str = option("C2", "the group and what it acts on, as in lego: C2, S3, S5, ...")
    told: str = option(
        "word",
        "word: elements g_1 ... g_L one after another; clauses: LEGO's, which name what they act on",
        choices=tuple(SUPERVISIONS),
    )
    supervision: str = option(
        "states",
        "answer: the last state alone; states: every running state, none of them shown (words); chain: every state,"
        " those before it shown (clauses)",
        choices=("answer", "states", "chain"),
    )
    length: int = option(16, "elements L of a training sequence", low=1, high=512)
    variables: int = option(36, "variables that clauses are named by", low=2, high=2**14)
    model: Decoder = option(Decoder(positions="none"), "the model")
    learning_rate: float = option(1e-3, "learning rate of Adam", above=0.0, high=1.0, numeric=True)
    batch: int = option(256, "sequences of one step", low=1, high=2**16)
    measure_every: int = option(50, "steps between evaluations", low=1, high=10**6)
    looks: int = option(40, "evaluations", low=1, high=10**6)
    test_examples: int = option(256, "fresh sequences of each test", low=1, high=2**16)
    threshold: float = option(0.95, "exact match at L that counts as solved", above=0.0, high=1.0)

    def check(self) -> None:
        self.model.check_draws_nothing()
        possible = SUPERVISIONS[self.told]
        require(
            self.supervision in possible,
            f"supervision={self.supervision} must be one of {', '.join(possible)} where told={self.told}",
        )
        action = action_of(self.action)
        require(self.told != "word" or action.is_group, f"action={self.action} must be a group where told=word")
        needed = TIMES[-1] * self.length + 1
        require(
            self.told == "word" or self.variables >= needed,
            f"variables={self.variables} must be at least {needed}, {TIMES[-1]} times length={self.length} and one",
        )
        require(self.budget < 2**31, f"batch*measure_every*looks={self.budget} must be below 2**31={2**31}")

    @property
    def budget(self) -> int:
        """Training sequences in all."""
        return self.batch * self.measure_every * self.looks

    @property
    def longest(self) -> int:
        """Positions of the longest test."""
        elements = TIMES[-1] * self.length
        return {"states": elements, "answer": elements + (self.told == "clauses"), "chain": 2 * elements}[
            self.supervision
        ]


# --- the questions: what the rows of each are -------------------------------------------------------------------------

Rows = Mapping[str, Mapping[str, Any]]

WORDS = {"told": "word", "supervision": "states", "model.layers": 1, "model.positions": "none"}
CLAUSES = {"told": "clauses", "model.mixer": "softmax", "model.layers": 2}
LINEAR, GATED, MINGRU, LSTM = "linear attention", "gated linear attention", "minGRU", "LSTM"
DIAGONAL, DIAGONAL_SIGNED = "diagonal, [0, 1]", "diagonal, [-1, 1]"
DELTA, DELTA_SIGNED = "DeltaNet, [0, 1]", "DeltaNet, [-1, 1]"
ONE_STEP, TWO_STEPS, TWO_POSITIVE = "1 step, [-1, 1]", "2 steps, [-1, 1]", "2 steps, [0, 1]"
POSITIVE = (LINEAR, GATED, MINGRU, DIAGONAL, DELTA)  # linear in their state, with eigenvalues in [0, 1]


def recurrence(action: str, mixer: str, eigenvalues: str = "positive", householders: int = 1) -> dict[str, Any]:
    """The fields of a recurrence of one layer on words."""
    named = {"model.mixer": mixer, "model.eigenvalues": eigenvalues, "model.householders": householders}
    return WORDS | {"action": action} | named


PARITY: Rows = {
    LINEAR: recurrence("C2", "linear"),
    GATED: recurrence("C2", "gated"),
    MINGRU: recurrence("C2", "mingru"),
    DIAGONAL: recurrence("C2", "diagonal"),
    DELTA: recurrence("C2", "delta"),
    DIAGONAL_SIGNED: recurrence("C2", "diagonal", "signed"),
    DELTA_SIGNED: recurrence("C2", "delta", "signed"),
    LSTM: recurrence("C2", "lstm"),
}
HOUSEHOLDERS: Rows = {
    ONE_STEP: recurrence("S3", "delta", "signed"),
    TWO_POSITIVE: recurrence("S3", "delta", "positive", 2),
    TWO_STEPS: recurrence("S3", "delta", "signed", 2),
}
SUPERVISED: Rows = {name: CLAUSES | {"model.positions": "none", "supervision": name} for name in ("answer", "chain")}
POSITIONS: Rows = {
    name: CLAUSES | {"model.positions": name, "supervision": "chain"} for name in ("none", "learned", "rotary", "alibi")
}


def has(config: Config, fields: Mapping[str, Any]) -> bool:
    """Whether a config has these values."""
    return all(attrgetter(path)(config) == value for path, value in fields.items())
