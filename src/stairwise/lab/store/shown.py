"""Stored trials as they are shown: fields by their present names, arms by names that are true."""

import dataclasses
from typing import Any

from stairwise.config import ConfigError, as_dict, has_history, plain
from stairwise.lab import registry
from stairwise.lab.contract.experiment import Experiment
from stairwise.lab.store.trial import StoredTrial


def shown(record: StoredTrial, experiment: Experiment | None = None) -> StoredTrial:
    """The record with every field by its present name, and an arm that its values do not belie.

    A record whose experiment is not installed, or could not ask for it as it is now, stays as it is stored.
    """
    experiment = experiment or experiment_of(record.experiment)
    if experiment is None or (not has_history(experiment.Config) and _is_true(record, experiment)):
        return record
    typed = record if isinstance(record.config, experiment.Config) else record.typed(experiment)
    if typed is None:
        return record
    arm = experiment.arm_of(typed.config, typed.arm)
    return dataclasses.replace(typed, config_dict=as_dict(typed.config), arm=arm)


def _is_true(record: StoredTrial, experiment: Experiment) -> bool:
    """Whether the record has the values of its arm, found without the cost of a typed config."""
    known = [preset for preset in experiment.presets.values() if record.arm in preset.arms]
    return not known or any(
        all(_at(record.config_dict, path) == plain(value) for path, value in zip(preset.axes, values, strict=True))
        for preset in known
        for values in [preset.values[record.arm]]
    )


def _at(config: Any, path: str) -> Any:
    for name in path.split("."):
        config = config.get(name) if isinstance(config, dict) else None
    return config


def experiment_of(name: str) -> Experiment | None:
    """The installed experiment of this name; None where there is none."""
    paper, _, id = name.partition("/")
    try:
        return registry.paper(paper).experiment(id)
    except ConfigError:
        return None
