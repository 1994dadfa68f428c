"""Attention of every layer, step by step: the hidden permutations emerge, one layer a step.

The sequence that is looked at has every sigma_i the identity, so layer 1 of token (i, j) should look at (i, pi_i(j)),
and each later layer at where the layers below it have come to.
"""

from typing import Any

import numpy as np

from stairwise.lab.contract.microscope import Curve, Map, MapAxis, Microscope, Overlay, mean_entropy

STAGES = ("integer", "exact")
LARGEST = 200  # tokens; beyond, a map is all pooling


def attention(record: Any) -> Microscope | None:
    """Frames: before any and after every gradient step, by whichever way the step was taken."""
    frames = _frames(record)
    if not frames or record.config.task.tokens > LARGEST:
        return None
    config = record.config
    task, steps = config.task, sorted(frames)
    tokens = [f"({i + 1}, {j + 1})" for i in range(task.blocks) for j in range(task.alphabet)]
    blocks = range(task.alphabet, task.tokens, task.alphabet)
    ideal = record.array(f"{_last_stage(record)}/ideal attention")
    maps = [
        Map(
            f"layer {number + 1}",
            f"completes {layer.hops} hop{'s' if layer.hops > 1 else ''}; rows attend to columns",
            [frames[step][number].T for step in steps],
            MapAxis("query token (block, letter)", tokens, tuple(blocks)),
            MapAxis("key token (block, letter)", tokens, tuple(blocks)),
            (Overlay("the right key", [(q, int(key)) for q, key in enumerate(ideal[number])]),),
        )
        for number, layer in enumerate(task.plan)
    ]
    return Microscope(
        says="Attention on the sequence in which every given permutation is the identity: what is left to see is the"
        " hidden ones. The first layer finds them, every further layer composes what the one below has found.",
        axis="gradient step",
        places=steps,
        labels=["before any step", *(f"after {name}" for name in step_names(config))][: len(steps)],
        maps=maps,
        curves=_curves(record, steps, frames),
    )


def step_names(config: Any) -> list[str]:
    """KQ1, Psi1, KQ2, ... (curriculum) or KQ1, KQ2, ..., Psi (mixture)."""
    steps = range(1, config.steps + 1)
    if config.algorithm == "mixture":
        return [*(f"key-query step {t}" for t in steps), "the readout step"]
    return [name for t in steps for name in (f"key-query step {t}", f"readout step {t}")]


def _last_stage(record: Any) -> str:
    return [stage for stage in STAGES if f"{stage}/hidden" in record.arrays()][-1]


def _by_step(record: Any, name: str) -> dict[int, tuple[str, int, float]]:
    """A metric by the number of steps taken: stage, tick and value."""
    found = {}
    for stage in STAGES:
        if any(each.startswith(f"{stage}/") for each in record.arrays()):
            ticks, values = record.series(name, stage)
            taken = record.series("steps taken", stage)[1]
            found |= {int(n): (stage, int(t), float(v)) for n, t, v in zip(taken, ticks, values, strict=True)}
    return found


def _frames(record: Any) -> dict[int, np.ndarray]:
    kept = {step: f"{stage}/attention@{tick}" for step, (stage, tick, _) in _by_step(record, "steps taken").items()}
    there = set(record.arrays())
    return {step: record.array(name).astype(np.float64) for step, name in kept.items() if name in there}


def _curves(record: Any, steps: list[int], frames: dict[int, np.ndarray]) -> list[Curve]:
    """Held-out loss of every head, and the mean entropy of attention in every layer."""
    curves = []
    for layer in record.config.task.plan:
        name = f"loss {layer.hops} hop{'s' if layer.hops > 1 else ''}"
        found = _by_step(record, name)
        curves.append(Curve(name, steps, [found[step][2] for step in steps]))
    for number in range(len(record.config.task.plan)):
        curves.append(
            Curve(f"entropy layer {number + 1}", steps, [mean_entropy(frames[step][number].T) for step in steps])
        )
    return curves
