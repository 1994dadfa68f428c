"""Sparse token selection as data: vectors with finitely many decimals, and the average of those that a subset names.

Entries are the 10^decimals middle quantiles of the token law, rounded to that many decimals (which keeps them apart):
exact whole numbers in units of 10^-decimals, the same in text and in arrays. An example is its sequence of tokens;
which of them the query names is how it is told, so a held-out sequence is held out with every subset.

    x0 = (0.674); x1 = (-1.150); x2 = (0.020); average of x0, x2 = ?    steps  s1 = (0.674); s2 = (0.694)
    answer  (0.347)
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Integer

from stairwise.config import option, require
from stairwise.lab.contract.sources import Columns, Draw, Source, TaskSource, Texts, WorkedSolution
from stairwise.papers.selection.config import Task
from stairwise.tasks.enumeration import Space, distinct, falling
from stairwise.tasks.prose import Prose, digits, listed, numbered, side_by_side

LARGEST = 2**20  # entries of an example


@dataclass(frozen=True)
class Averages(Task):
    """STS_q over T tokens of width d, the entries rounded."""

    length: int = option(12, "context length T", low=2, high=2**14)
    width: int = option(2, "token dimension d", low=1, high=2**10)
    tokens: str = option(
        "gaussian",
        "law of the entries, of unit second moment; shifted: plus 1",
        choices=("gaussian", "laplace", "shifted"),
    )
    decimals: int = option(3, "decimals of an entry, and the power of ten that says how many it can be", low=2, high=5)

    def check(self) -> None:
        super().check()
        entries = self.length * self.width
        require(entries <= LARGEST, f"length*width={entries} must be at most {LARGEST}")


def space(config: Averages) -> Space:
    entries = (10**config.decimals,) * (config.length * config.width)
    return Space(entries, falling(config.length, config.sparsity))


def source(config: Averages, draw: Draw) -> Source:
    levels = quantiles(config.tokens, config.decimals)
    show = partial(decimal, places=config.decimals)
    return Source(
        columns=lambda found: averaged(config, levels, found),
        texts=lambda columns: told(columns, show),
        notation="s1, s2, ... are running sums of the named vectors; the average is the last of them over their number,"
        f" rounded to {config.decimals} decimals (half to even).",
        room=10 * config.length * config.width + 12 * config.sparsity * config.width,
        unit=10**config.decimals,
    )


def task(config: Averages, drawn: Mapping[str, Any]):
    """The same averages of entries that are not rounded."""
    from stairwise.papers.selection.task import SparseSelection

    return SparseSelection(config.length, config.sparsity, config.width, config.tokens)


def quantiles(law: str, decimals: int) -> Integer[np.ndarray, " levels"]:
    """The middles of 10^decimals equally likely slices, in units of 10^-decimals."""
    from scipy.special import ndtri

    count = 10**decimals
    chance = (np.arange(count) + 0.5) / count
    if law == "laplace":
        found = -np.sign(chance - 0.5) * np.log1p(-2 * np.abs(chance - 0.5)) / np.sqrt(2)
    else:
        found = ndtri(chance) + (law == "shifted")
    return np.rint(found * count).astype(np.int32)


def averaged(config: Averages, levels, found: Integer[np.ndarray, "rows digits"]) -> dict[str, np.ndarray]:
    rows, T, d = len(found), config.length, config.width
    inputs = levels[found[:, : T * d]].reshape(rows, T, d)
    subset = np.sort(distinct(found[:, T * d :], T), axis=1)
    sums = np.cumsum(np.take_along_axis(inputs, subset[:, :, None], axis=1), axis=1, dtype=np.int32)
    return {
        "inputs": inputs,
        "subset": subset,
        "step_values": sums,
        "answer_value": rounded(sums[:, -1], config.sparsity),
    }


def rounded(total: Integer[np.ndarray, "rows width"], count: int) -> Integer[np.ndarray, "rows width"]:
    """total / count to the nearest whole number, ties to even, in whole numbers."""
    low, rest = np.divmod(total, count)
    return low + ((2 * rest > count) | ((2 * rest == count) & (low % 2 == 1)))


def decimal(value: int, places: int) -> str:
    """
    >>> decimal(-1500, 3), decimal(7, 3)
    ('-1.500', '0.007')
    """
    return f"{'-' if value < 0 else ''}{abs(value) // 10**places}.{abs(value) % 10**places:0{places}d}"


def told(columns: Columns, show) -> Texts:
    inputs, sums = columns["inputs"], columns["step_values"]
    tokens = listed(numbered("x", vectors(inputs, show), first=0), "; ")
    named = listed(side_by_side("x", digits(columns["subset"])), ", ")
    worked = listed(numbered("s", vectors(sums, show)), "; ")
    answer = Prose([vectors(columns["answer_value"][:, None], show)[:, 0]])
    return Texts(tokens + "; average of " + named + " = ?", worked, answer)


def vectors(values: Integer[np.ndarray, "rows cells width"], show):
    """Each vector as one cell, (a, b, ...)."""
    rows, cells, width = values.shape
    text = "(" + listed(digits(values.reshape(-1, width), show), ", ") + ")"
    return text.matrix(rows * cells).reshape(rows, cells, -1)


def solve(config: Averages, drawn: Mapping[str, Any], prompt: str) -> WorkedSolution:
    """Decimal arithmetic on the printed vectors."""
    printed = dict(re.findall(r"(x\d+) = \(([^)]*)\)", prompt))
    (named,) = re.findall(r"average of ([x\d, ]+) =", prompt)
    sums, steps = [Decimal(0)] * config.width, []
    for name in named.split(", "):
        sums = [total + Decimal(entry) for total, entry in zip(sums, printed[name].split(", "), strict=True)]
        steps.append(f"({', '.join(map(str, sums))})")
    step = Decimal(1).scaleb(-config.decimals)
    average = [(total / config.sparsity).quantize(step, rounding=ROUND_HALF_EVEN) for total in sums]
    return WorkedSolution(steps, f"({', '.join(map(str, average))})")


TASK = TaskSource(
    id="selection",
    says="average the vectors that a query names",
    Config=Averages,
    space=space,
    source=source,
    solve=solve,
    task=task,
    difficulty="sparsity",
)
