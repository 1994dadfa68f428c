"""Which code makes the trials of an experiment: declared by its author, known without running anything."""

from functools import partial
from types import ModuleType
from typing import Any

from stairwise.lab.contract.experiment import Experiment, Trial

LOOP = "stairwise.train.loop"


def module_of(reference: Any) -> str:
    """The name of a module; of a function or class, or of one that is written as "module:name", that of its module."""
    if isinstance(reference, str):
        return reference.partition(":")[0]
    if isinstance(reference, ModuleType):
        return reference.__name__
    while isinstance(reference, partial):
        reference = reference.func
    return reference.__module__


def code_of(experiment: Experiment) -> tuple[str, ...]:
    """The modules that make an experiment's trials: those of its program, its Config and its `code`, the loop that
    trains them, and the same of the trials that they start from.
    """
    made_by = [experiment.program, experiment.Config, *experiment.code, *([] if experiment.study else [LOOP])]
    if experiment.needs is not None:
        for preset in experiment.presets.values():
            for needed in Trial(experiment, preset.config, 0).needs.values():
                made_by += [f"{module}:" for module in code_of(needed.experiment)]
    return tuple(sorted({module_of(each) for each in made_by}))
