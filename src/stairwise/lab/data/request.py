"""Which examples are wanted, and the examples: a pure function of task, options, seed, split and number.

>>> for record in data("lego", 2, action="C3", variables=4, length=2, split="test"):
...     print(record["prompt"], "|", record["steps"], "|", record["answer"])
x3 = a2(x2); x0 = a1(x3); x2 = 0; x0 = ? | x3 = 2; x0 = 0 | 0
x3 = a2(x1); x2 = a0(x3); x1 = 2; x2 = ? | x3 = 1; x2 = 1 | 1
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

import stairwise
from stairwise.config import Config, ConfigError, as_dict, from_dict, short, update
from stairwise.lab import registry
from stairwise.lab.contract.sources import PAD, Draw, Source, TaskSource, Texts
from stairwise.tasks.enumeration import SPLITS, Space

NUMBERS = 2**21  # that one block may take
MOST_ROWS = 8192
MOST = 2**40  # records of a request
# what a request is made from again
HEADER = {
    "task": (str, "text"),
    "task_version": (int, "a whole number"),
    "options": (dict, "an object"),
    "n": (int, "a whole number"),
    "seed": (int, "a whole number"),
    "split": (str, "text"),
    "cot": (bool, "true or false"),
}
WORKED = ("steps", "step_values")  # what only examples with worked steps have


@dataclass(frozen=True)
class ExampleBlock:
    """Examples `start`, `start` + 1, ...: arrays of whole numbers, and the same in words."""

    start: int
    rows: int
    columns: Mapping[str, np.ndarray]
    texts: Texts
    cot: bool
    ragged: tuple[str, ...]

    @property
    def index(self) -> np.ndarray:
        return np.arange(self.start, self.start + self.rows, dtype=np.int64)

    @property
    def words(self) -> dict[str, Any]:
        """The texts by name."""
        return {name: text for name, text in self.texts._asdict().items() if self.cot or name not in WORKED}

    def records(self) -> Iterator[dict[str, Any]]:
        """One plain dictionary an example: index, texts, whole numbers."""
        parts: dict[str, list[Any]] = {"index": self.index.tolist()}
        parts |= {name: text.lines(self.rows) for name, text in self.words.items()}
        for name, values in self.columns.items():
            rows = values.tolist()
            parts[name] = [[one for one in row if one != PAD] for row in rows] if name in self.ragged else rows
        for row in zip(*parts.values(), strict=True):
            yield dict(zip(parts, row, strict=True))


@dataclass(frozen=True)
class DataRequest:
    """`n` examples of a split of a task; checked when made, before anything slow is imported."""

    task: TaskSource
    config: Config
    n: int
    seed: int = 0
    split: str = "train"
    cot: bool = True

    def __post_init__(self):
        if self.split not in SPLITS:
            raise ConfigError(f"split={self.split} must be one of {', '.join(SPLITS)}")
        for name, low, high in (("seed", 0, 2**32 - 1), ("n", 1, MOST)):
            value = getattr(self, name)
            if type(value) is not int or not low <= value <= high:
                raise ConfigError(f"{name}={short(value)} must lie in {low}..{high}")
        held = self.space.capacity(self.split)
        if self.n > held:
            raise ConfigError(
                f"n={self.n} must be at most {held}: split={self.split} has that many of the {self.space.size}"
                f" different examples of {self.task.name} with these options"
            )

    @staticmethod
    def of(task: str | TaskSource, options: Mapping[str, Any], n: int, **more: Any) -> "DataRequest":
        """By name, with options that differ from their defaults."""
        found = registry.task(task)
        return DataRequest(found, update(found.Config(), options), n, **more)

    @cached_property
    def space(self) -> Space:
        return self.task.space(self.config)

    @cached_property
    def source(self) -> Source:
        return self.task.source(self.config, Draw(self.seed, self.split, self.cot))

    @property
    def block_rows(self) -> int:
        return max(1, min(MOST_ROWS, NUMBERS // max(1, self.source.room)))

    def block(self, start: int, rows: int) -> ExampleBlock:
        """Examples start..start+rows-1."""
        digits = self.space.digits(self.seed, self.split, np.arange(start, start + rows, dtype=np.uint64))
        columns = self.source.columns(digits)
        texts = self.source.texts(columns)
        told = {name: values for name, values in columns.items() if self.cot or name not in WORKED}
        return ExampleBlock(start, rows, told, texts, self.cot, self.source.ragged)

    def blocks(self, shard: int = 0, shards: int = 1) -> Iterator[ExampleBlock]:
        """All examples, or every `shards`-th block of them: shards together have each example exactly once."""
        rows = self.block_rows
        if shards > 1:  # small blocks, so that every shard has some
            rows = max(1, min(rows, -(-self.n // (4 * shards))))
        for start in range(shard * rows, self.n, shards * rows):
            yield self.block(start, min(rows, self.n - start))

    def header(self, format: str) -> dict[str, Any]:
        """All that the file can be made again from, and what its reader may want to know."""
        return {
            "task": self.task.name,
            "task_version": self.task.version,
            "options": as_dict(self.config),
            "n": self.n,
            "seed": self.seed,
            "split": self.split,
            "cot": self.cot,
            "format": format,
            "stairwise": stairwise.__version__,
            "notation": self.source.notation,
            "drawn": dict(self.source.drawn),
            "unit": self.source.unit,
            "vocabulary": list(self.source.vocabulary),
            "prompt_tokens": self.source.prompt_tokens,
        }

    @staticmethod
    def from_header(header: Mapping[str, Any]) -> "DataRequest":
        """The request that a header records; another version of its task is refused."""
        for name, (kind, words) in HEADER.items():
            if name not in header:
                raise ConfigError(f"the header has no {name}")
            if type(header[name]) is not kind:
                raise ConfigError(f"{name}={short(header[name])} of the header must be {words}")
        task, version = registry.task(header["task"]), header["task_version"]
        if version != task.version:
            raise ConfigError(f"{task.name} was at version {version} when the file was made and is at {task.version}")
        rest = {name: header[name] for name in ("n", "seed", "split", "cot")}
        return DataRequest(task, from_dict(task.Config, header["options"]), **rest)


def task(name: str, *, seed: int = 0, **options: Any) -> Any:
    """The task itself, with the secret that `data` gives this seed: what models train on (`stairwise.tasks`)."""
    request = DataRequest.of(name, options, 1, seed=seed)
    return request.task.task(request.config, request.source.drawn)


def data(
    task: str, n: int, *, seed: int = 0, split: str = "train", cot: bool = True, **options: Any
) -> Iterator[dict[str, Any]]:
    """The records of a task, one plain dictionary at a time: `prompt`, `steps`, `answer` in words, the rest numbers."""
    request = DataRequest.of(task, options, n, seed=seed, split=split, cot=cot)  # a bad request is refused here and now
    return (record for block in request.blocks() for record in block.records())
