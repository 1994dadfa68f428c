"""Runs of the actual algorithm for the claims about it: every seed counts, none is chosen."""

import dataclasses
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from stairwise.lab.config import option, structure
from stairwise.papers.parity_onestep import train
from stairwise.papers.parity_onestep.config import Descent
from stairwise.train import loop


@dataclass(frozen=True)
class Runs(Descent):
    """A descent, and how many seeds of it."""

    seeds: int = option(3, "seeds to run, all of which must do it", low=1, high=1000)


def outcomes(config: Runs, seed: int) -> list[Any]:
    """One outcome a seed, from `seed` on."""
    plain = Descent(**{field.name: getattr(config, field.name) for field in dataclasses.fields(Descent)})
    return [_outcome(plain, seed + i) for i in range(config.seeds)]


@lru_cache(maxsize=64)
def _outcome(config: Descent, seed: int):
    """Claims that look at the same run share it."""
    return _program(structure(config)).run([loop.Member(seed, config)])[0]


@lru_cache(maxsize=8)
def _program(config: Descent):
    return loop.Program(train.descent(config))


def finals(config: Runs, seed: int, *names: str) -> list[dict[str, Any]]:
    """The last value of each metric, a row a seed."""
    return [
        {"seed": seed + i} | {name: one.last(name) for name in names} for i, one in enumerate(outcomes(config, seed))
    ]


def series(outcome, name: str) -> np.ndarray:
    """A metric at every measuring point."""
    return np.array([value for found, value in zip(outcome.name, outcome.value, strict=True) if found == name])
