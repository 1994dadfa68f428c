"""What the presets share."""

import math
from collections.abc import Callable
from typing import Any

from stairwise.lab.contract.experiment import Experiment, Figure, Preset
from stairwise.papers.parity_onestep import microscope, train
from stairwise.papers.parity_onestep.config import Descent

TREE = microscope.tree


def powers(low: int, high: int) -> tuple[int, ...]:
    return tuple(2**power for power in range(low, high + 1))


def logit(bits: int, above: float) -> float:
    """lam = ln d + something, to three digits."""
    return round(math.log(bits) + above, 3)


def half(bits: int, above: float) -> dict:
    """The fields of an arm with k = d/2."""
    return {"task.bits": bits, "task.size": bits // 2, "rate.lam": logit(bits, above)}


def descent(
    id: str,
    says: str,
    figure: Figure,
    presets: dict[str, Preset],
    config: type = Descent,
    *,
    microscope: Callable[[Any], Any] | None = None,
) -> Experiment:
    return Experiment(
        id=id,
        says=says,
        Config=config,
        program=train.descent,
        opens_with="accuracy",
        model=train.stored_model,
        microscope=microscope,
        figures=(figure,),
        presets=presets,
    )
