"""A small paper whose trials really run: a noisy walk, a second walk that starts where it ended, a host-side study."""

from dataclasses import dataclass, replace

import numpy as np

from stairwise.config import Config, option
from stairwise.lab.contract.experiment import Experiment, Preset, Trial
from stairwise.lab.contract.paper import Paper
from stairwise.train.stage import Outcome


@dataclass(frozen=True)
class Walk(Config):
    """The config of a walk."""

    steps: int = option(40, "ticks", low=0)
    width: int = option(3, "coordinates", low=1)
    rate: float = option(0.3, "step size", above=0.0, numeric=True)
    shift: float = option(0.0, "where it starts", numeric=True)


def stages(config: Walk):
    from tests.train.test_loop import walk_stage

    return [walk_stage(steps=config.steps, width=config.width)]


def onward(config: Walk):
    from tests.train.test_loop import walk_stage

    stage = walk_stage(steps=config.steps, width=config.width)

    def start(trial, carry, key):
        return stage.init(trial, carry["first"]["walk/place"], key)

    return [replace(stage, init=start)]


def first(config: Walk, seed: int) -> dict[str, Trial]:
    return {"first": Trial(PAPER.experiment("walk"), Walk(width=config.width), seed)}


def census(config: Walk, seed: int) -> Outcome:
    outcome = Outcome()
    outcome.add("census", 0, {"sum": float(np.arange(config.steps).sum() + seed)})
    return outcome


ARMS = {"slow": {"rate": 0.1}, "fast": {"rate": 0.5}}
PAPER = Paper(
    "walking",
    "Walking",
    "A. Walker",
    2026,
    "-",
    "walks",
    experiments=(
        Experiment("walk", "a walk", Walk, {"quick": Preset(Walk(), ARMS, seeds=2, group=4)}, stages),
        Experiment(
            "onward",
            "goes on",
            Walk,
            {"quick": Preset(Walk(), seeds=2)},
            onward,
            needs=first,
        ),
        Experiment("census", "counts", Walk, {"quick": Preset(Walk(), seeds=2)}, census, study=True),
    ),
)
