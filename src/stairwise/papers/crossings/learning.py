"""Training in looks: some steps of Adam, then an evaluation; the first look that is good enough is the hit.

Every crossing trains this way, so that samples to success mean the same thing in all of them.
"""

from typing import Any

import optax
from jaxtyping import Array

from stairwise.train.gradient import Reached, Training, gradient_training
from stairwise.train.stage import Stage


def in_looks(*, steps: int, looks: int, threshold: float, stop: bool, **parts: Any) -> Stage:
    """A tick is `steps` steps of Adam at the config's learning rate and a look; `stop` ends a run at its first success.

    parts: what `gradient_training` takes besides, among it `look`, whose "accuracy" must reach the threshold.
    """
    return gradient_training(
        **parts,
        optimizer=lambda config: optax.adam(config.learning_rate),
        steps=steps * looks,
        steps_per_tick=steps,
        until=Reached("accuracy", threshold, stop=stop),
        measure=found,
        keep=None,
    )


def found(trial: Any, state: Training, key, t) -> dict[str, Array]:
    """What the last look found, and the look of the first success."""
    assert state.found is not None
    assert state.hit is not None
    return {**state.found, "hit": state.hit.tick}
