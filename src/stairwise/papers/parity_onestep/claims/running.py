"""Runs of the actual algorithm for the claims about it."""

import dataclasses
from functools import lru_cache
from typing import Any

import numpy as np

from stairwise.config import structure
from stairwise.papers.parity_onestep import train
from stairwise.papers.parity_onestep.config import Descent
from stairwise.train import loop


def outcome(config: Descent, seed: int) -> Any:
    """What the descent of one seed gives; claims that look at the same run share it."""
    plain = Descent(**{field.name: getattr(config, field.name) for field in dataclasses.fields(Descent)})
    return _outcome(plain, seed)


@lru_cache(maxsize=64)
def _outcome(config: Descent, seed: int):
    return _program(structure(config)).run([loop.Member(seed, config)])[0]


@lru_cache(maxsize=8)
def _program(config: Descent):
    return loop.Program(train.descent(config))


def series(outcome, name: str) -> np.ndarray:
    """A metric at every measuring point."""
    return np.array([value for found, value in zip(outcome.name, outcome.value, strict=True) if found == name])
