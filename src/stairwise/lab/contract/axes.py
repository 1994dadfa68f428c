"""Over what a metric is drawn, in words of the paper (gradient steps, samples), and which metric is shown first."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from stairwise.config import ConfigError, canonical, static_fields, structure
from stairwise.lab.contract.experiment import Experiment


class StepAxis(NamedTuple):
    """The title of an x-axis, and how many of what it counts a tick of the stage is."""

    title: str
    per_tick: float = 1.0

    def places(self, ticks: np.ndarray) -> np.ndarray:
        """
        >>> StepAxis("gradient steps", 1 / 8).places(np.array([0, 8, 24])).tolist()
        [0.0, 1.0, 3.0]
        """
        return np.asarray(ticks) * self.per_tick if self.per_tick != 1 else np.asarray(ticks)


def stage_axes(experiment: Experiment, config: Any) -> dict[str, StepAxis]:
    """By stage; nothing of a study, nor where the program cannot be made, as without its data."""
    if experiment.study:
        return {}
    try:
        stages = experiment.program(structure(config))
    except (ConfigError, OSError):
        return {}
    return {stage.name: StepAxis(stage.counts, stage.per_tick) for stage in stages}


class StepAxes:
    """The axes of an experiment's stages; those of configs that share a program are made once."""

    def __init__(self, experiment: Experiment):
        self.experiment = experiment
        self.known: dict[str, Mapping[str, StepAxis]] = {}
        self.last: tuple[Any, Mapping[str, StepAxis]] = None, {}  # asked for again and again, by each metric

    def of(self, config: Any, stage: str) -> StepAxis:
        if config is not self.last[0]:
            key = canonical(static_fields(config))
            if key not in self.known:
                self.known[key] = stage_axes(self.experiment, config)
            self.last = config, self.known[key]
        return self.last[1].get(stage, StepAxis(self.experiment.counts))


def first_metric(wanted: str, names: Sequence[str]) -> str:
    """The metric to show first: the wanted one (of the last stage that has it), else a loss, else the first.

    >>> first_metric("exact *", ["loss", "exact 5", "exact 10"]), first_metric("", ["hit", "train: loss"])
    ('exact 10', 'train: loss')
    >>> first_metric("a", ["L=2: a", "L=4: a", "L=4: b"])
    'L=4: a'
    """
    bare = [name.rpartition(": ")[2] for name in names]
    beginning = wanted.removesuffix("*")
    fits = [k for k, name in enumerate(bare) if name == wanted or (beginning != wanted and name.startswith(beginning))]
    if wanted and fits:
        return names[max(fits, key=lambda k: (_numbers(bare[k]), k))]
    return next((name for name in names if re.search(r"(^|: )(train_?|training )?loss", name, re.IGNORECASE)), names[0])


def _numbers(name: str) -> list[float]:
    return [float(number) for number in re.findall(r"\d+(?:\.\d+)?", name)]
