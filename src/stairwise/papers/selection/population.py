"""The exact one-hot population dynamics over all of training: two scalars instead of a training run."""

import dataclasses

import numpy as np

from stairwise.papers.selection.config import Population
from stairwise.papers.selection.theory import onehot
from stairwise.train.stage import Outcome


def dynamics(config: Population, seed: int) -> Outcome:
    """alpha, C and the losses in and out of distribution at log-spaced times eta t; nothing here is random."""
    task = config.task
    times = np.geomspace(0.1, config.horizon, config.points)
    path = onehot.flow(task, times)
    arrays = {"time": path.times, "alpha": path.alpha, "C": path.C, "loss": onehot.loss(task, path.alpha, path.C)}
    for length in config.test_lengths:
        tested = dataclasses.replace(task, length=length)
        arrays[f"loss length={length}"] = onehot.loss(tested, path.alpha, path.C)
    outcome = Outcome(arrays=arrays)
    final = {name: values[-1] for name, values in arrays.items() if name != "time"}
    sharp = (task.length - 1) / (4 * times[-1])
    outcome.add("flow", len(times), final | {"loss over sharp law": final["loss"] / sharp})
    return outcome
