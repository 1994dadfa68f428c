"""What a paper says of a task whose examples can be written to a file or put to a model. Imports no JAX.

A `TaskSource` names its options (a Config) and four functions:

    space(config)                   the digits that an example is made of; must not need JAX
    source(config, draw)            a `Source`: digits -> columns of whole numbers -> text, a block at a time
    solve(config, drawn, prompt)    the oracle: steps and answer, from the prompt's text alone and by other code
    task(config, drawn)             the same task as an object that models train on (tasks/protocols.py)
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from stairwise.config import Config
from stairwise.tasks.enumeration import Space
from stairwise.tasks.prose import Prose

PAD = -1  # fills what a ragged column is short of


class Draw(NamedTuple):
    """What is wanted of a task, beside its options."""

    seed: int
    split: str
    cot: bool


class Texts(NamedTuple):
    """A block of examples in words: the question, the worked steps ("name = value; ..."), the answer."""

    prompt: Prose
    steps: Prose
    answer: Prose


class WorkedSolution(NamedTuple):
    """What the oracle says, as text values: the intermediate results in order, and the answer."""

    steps: list[str]
    answer: str


Columns = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Source:
    """A task with everything drawn that the seed decides, ready to make examples.

    columns      digits (rows, digits) -> named arrays of whole numbers, one row an example; always `step_values` and
                 `answer_value`, and `tokens` where the task is one of discrete tokens
    texts        the same columns in words
    notation     what a reader must know to understand the prompt
    drawn        what the seed has chosen (a secret, hidden permutations), ready for JSON
    vocabulary   the name of every token id
    prompt_tokens, step_places   the tokens of the question, and which of those after it hold the steps' values
    answers      the answers there are, as text; none where they are vectors
    unit         whole numbers are in units of 1/unit (1000: thousandths)
    ragged       columns whose rows differ in length, filled up with -1
    room         numbers that making one example takes, roughly
    """

    columns: Callable[[np.ndarray], dict[str, np.ndarray]]
    texts: Callable[[Columns], Texts]
    notation: str
    room: int
    drawn: Mapping[str, Any] = field(default_factory=dict)
    vocabulary: tuple[str, ...] = ()
    prompt_tokens: int = 0
    step_places: tuple[int, ...] = ()
    answers: tuple[str, ...] = ()
    unit: int = 1
    ragged: tuple[str, ...] = ()


@dataclass(frozen=True)
class TaskSource:
    """A task that makes data: its name, its options, and its four functions.

    `difficulty` is the option that says how many steps an answer takes (chain length, hops, secret bits). Another
    `version` says that the same options and seed no longer give the same examples.
    """

    id: str
    says: str
    Config: type[Config]
    space: Callable[[Any], Space]
    source: Callable[[Any, Draw], Source]
    solve: Callable[[Any, Mapping[str, Any], str], WorkedSolution]
    task: Callable[[Any, Mapping[str, Any]], Any]
    difficulty: str
    version: int = 1
    paper: str = ""

    @property
    def name(self) -> str:
        return f"{self.paper}/{self.id}"
