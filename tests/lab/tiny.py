"""A tiny experiment whose trials can be made and stored without running anything; child processes use it too."""

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from stairwise.config import Config, option
from stairwise.lab.contract.experiment import Experiment, Preset, Trial
from stairwise.lab.contract.paper import Paper
from stairwise.lab.store.store import Store
from stairwise.train.stage import Outcome


@dataclass(frozen=True)
class Sizes(Config):
    """A nested group of fields."""

    length: int = option(8, "length", low=1)
    hops: tuple[int, ...] = option((1, 2), "hops")


@dataclass(frozen=True)
class Tiny(Config):
    """The config of the tiny experiment."""

    task: Sizes = option(Sizes(), "the task")
    rate: float = option(0.1, "learning rate", above=0.0, numeric=True)


def start(config: Tiny, seed: int) -> dict[str, Trial]:
    return {"start": Trial(PAPER.experiment("walk"), config, seed)}


def nothing(config: Tiny) -> list[Any]:
    """The program of experiments whose trials the tests write themselves."""
    return []


WALK = Experiment("walk", "a walk", Tiny, {"quick": Preset(Tiny())}, nothing)
CLIMB = Experiment("climb", "starts from a walk", Tiny, {"quick": Preset(Tiny())}, nothing, needs=start)
PAPER = Paper("tiny", "Tiny", "A. Author", 2024, "-", "nothing", experiments=(WALK, CLIMB))

FILES = ("config.json", "metrics.parquet", "arrays.safetensors", "run.json")
RUN = {"versions": {"python": "3"}, "device": "cpu", "cores": 2, "group_width": 1, "precision": 32, "timing": 0.25}


def trial(seed: int, experiment: str = "walk", arm: str = "slow", **changes) -> Trial:
    return Trial(PAPER.experiment(experiment), Tiny(**changes), seed, arm)


def outcome(seed: int, floats: int = 6) -> Outcome:
    """A function of the seed: two stages, a NaN, and arrays of several types."""
    made = Outcome("reached", message="loss below 0.1")
    for step in range(0, 50, 10):
        made.add("warm", step, {"loss": 1.0 / (seed + step + 1), "accuracy": step / 50})
    made.add("main", 3, {"loss": float("nan")})
    made.arrays = {
        "weights": np.arange(floats, dtype=np.float32).reshape(2, -1) + seed,
        "mask": np.array([True, False, seed % 2 == 0]),
        "count": np.array(seed, dtype=np.uint32),
    }
    return made


def run_record(*seeds: int, **more) -> dict:
    """What a command asks for."""
    asked = {"experiment": "tiny/walk", "preset": "quick", "command": "stairwise run tiny/walk", "started": 1.5e9}
    return {**asked, "seconds": 2.5, "trials": [trial(seed).digest for seed in seeds], **more}


def scratch(opened: Store) -> list[str]:
    """What is being written, or was left."""
    return os.listdir(opened.root / "tmp")
