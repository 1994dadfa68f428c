"""What the presets share."""

import math

from stairwise.lab.contract import Experiment, Figure, Preset
from stairwise.papers.parity_onestep.config import Descent

HERE = "stairwise.papers.parity_onestep"
TREE = f"{HERE}.microscope:tree"


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
    microscope: str | None = None,
) -> Experiment:
    return Experiment(
        id=id,
        says=says,
        Config=config,
        program=f"{HERE}.train:descent",
        model=f"{HERE}.train:stored_model",
        microscope=microscope,
        figures=(figure,),
        presets=presets,
    )


def figure(id: str, caption: str, function: str, headline: bool = False) -> Figure:
    return Figure(id, caption, f"{HERE}.figures.{function}", headline)
