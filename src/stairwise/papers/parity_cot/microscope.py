"""Heads collapsing onto the secret: after each gradient step of Theorem 3, and in decoders over training."""

from typing import Any

import numpy as np

from stairwise.lab.contract.microscope import (
    Curve,
    Map,
    MapAxis,
    Microscope,
    Overlay,
    frames_of,
    mean_entropy,
    snapshot_ticks,
)

METRICS = ("loss", "exact match", "accuracy", "argmax on the secret", "worst attention error")


def secret_found(record: Any) -> Microscope | None:
    """Of a trial that kept its mean attention before and after every step."""
    ticks = snapshot_ticks(record, "steps/attention")
    if not ticks:
        return None
    task, blocks = record.config.task, record.config.blocks
    secret = np.atleast_1d(record.array("steps/secret"))
    frames = [_seen(frame, task.bits) for frame in frames_of(record, "steps/attention")]
    chosen = {int(position) for position in secret}
    bits = [f"bit {j + 1}{' (secret)' if j in chosen and task.cot else ''}" for j in range(task.bits)]
    chain = ["the 0 before the chain", *(f"partial sum {i + 1}" for i in range(frames[0].shape[1] - task.bits - 1))]
    rows = [f"step {i + 1}" for i in range(len(frames[0]))] if task.cot else ["the answer"]
    overlay = Overlay("the secret bit that the step adds", [(i, int(j)) for i, j in enumerate(secret)])
    steps = [tick // blocks for tick in ticks]
    curves = [Curve(name, record.series(name)[0] // blocks, record.series(name)[1]) for name in _known(record)]
    return Microscope(
        says="Step i of the chain adds one secret bit to the partial sum. Three gradient steps turn even attention into"
        " attention on that bit alone; without a chain there is nothing to find.",
        axis="gradient step",
        places=steps,
        labels=["before any step", *(f"after step {step}" for step in steps[1:])],
        maps=[
            Map(
                "attention",
                "mean over fresh sequences; rows attend to columns",
                frames,
                MapAxis("step of the chain", rows),
                MapAxis("token", bits + chain, (task.bits,)),
                (overlay,) if task.cot else (),
            )
        ],
        curves=[*curves, Curve("entropy of attention", steps, [mean_entropy(frame) for frame in frames])],
    )


def heads_watched(record: Any) -> Microscope | None:
    """Of a decoder whose attention was kept over training: a map for every head, a row for every step of the chain."""
    ticks = snapshot_ticks(record, "train/attention")
    if not ticks:
        return None
    config, task = record.config, record.config.task
    lead, live = int(task.layout == "authors" and task.cot), -(-task.size // task.absorbed) if task.cot else 1
    first = task.bits - (task.layout == "authors")
    frames = frames_of(record, "train/attention")
    last = int(record.series("exact match")[0][-1])
    if last > ticks[-1]:  # it stopped between two snapshots
        ticks, frames = [*ticks, last], [*frames, record.array("train/attention")]
    width = first + lead + live
    secret = [int(position) for position in np.atleast_1d(record.array("train/secret"))[: task.size]]
    tokens = [f"bit {j + 1}{' (secret)' if j in secret else ''}" for j in range(task.bits)]
    tokens += ["the 0 before the chain", *(f"partial sum {i + 1}" for i in range(live))]
    rows = MapAxis("step of the chain", [f"step {i + 1}" for i in range(live)] if task.cot else ["the answer"])
    group = task.absorbed if task.cot else task.size
    overlay = Overlay("the secret bits that the step adds", [(i // group, j) for i, j in enumerate(secret)])
    samples = [tick * config.look for tick in ticks]
    return Microscope(
        says="Each row tells where a step of the chain looks (without a chain: where the answer looks), averaged over"
        " held-out sequences. Learning is one head after another collapsing onto the secret bits.",
        axis="samples",
        places=samples,
        labels=[f"after {count:,} samples" for count in samples],
        maps=[
            Map(
                f"layer {layer + 1}, head {head + 1}",
                "mean attention; rows attend to columns",
                [_seen(frame[layer, head, lead : lead + live, :width], first + lead) for frame in frames],
                rows,
                MapAxis("token", tokens[:width], (task.bits,)),
                (overlay,),
            )
            for layer in range(frames[0].shape[0])
            for head in range(frames[0].shape[1])
        ],
        curves=[
            Curve(name, record.series(name)[0] * config.look, record.series(name)[1])
            for name in record.names()
            if name in ("exact match", "loss") or name.startswith(("entropy ", "mass "))
        ],
    )


def _seen(frame: np.ndarray, inputs: int) -> np.ndarray:
    """A row sees the inputs and the chain up to itself."""
    row, column = np.indices(frame.shape)
    return np.where(column <= inputs + row, frame, np.nan)


def _known(record: Any) -> list[str]:
    known = set(record.names())
    return [name for name in METRICS if name in known]
