"""Stored trials as they are shown: by the present names of their fields."""

import dataclasses

from stairwise.lab import registry
from stairwise.lab.config import ConfigError, as_dict
from stairwise.lab.contract import Experiment
from stairwise.lab.record import StoredTrial


def shown(record: StoredTrial) -> StoredTrial:
    """The record with a typed config and every field by its present name.

    A record whose experiment is not installed, or could not ask for it as it is now, stays as it is stored.
    """
    experiment = experiment_of(record.experiment)
    typed = record.typed(experiment) if experiment else None
    return record if typed is None else dataclasses.replace(typed, config_dict=as_dict(typed.config))


def experiment_of(name: str) -> Experiment | None:
    """The installed experiment of this name; None where there is none."""
    paper, _, id = name.partition("/")
    try:
        return registry.paper(paper).experiment(id)
    except ConfigError:
        return None
