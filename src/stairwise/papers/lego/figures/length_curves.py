"""What the figures of the practical decoder share: curves against length, words for a config."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stairwise.lab.contract.plots import DASHES, all_seeds, colour


def curve(record: Any, lengths: Sequence[int], name: str = "exact", stage: str | None = None):
    """A measure against length, at the end of training."""
    return np.array(lengths), np.array([record.final(f"{name} {length}", stage) for length in lengths])


def draw_curves(axes: Any, records: Sequence[Any], lengths: Sequence[int], label: str, number: int) -> None:
    """Exact match against length, every seed."""
    runs = [curve(record, lengths) for record in records]
    all_seeds(axes, runs, label, colour(number), DASHES[number % len(DASHES)])  # curves that coincide stay visible


def length_axis(axes: Any, lengths: Sequence[int], trained: int) -> None:
    """Lengths on a logarithmic axis, the training length dashed."""
    axes.axvline(trained, color="grey", linestyle="--", linewidth=0.8)
    axes.set(xscale="log", xlabel="length L of the chain", ylim=(-0.03, 1.03))
    axes.set_xticks(lengths, [str(length) for length in lengths])
    axes.minorticks_off()


def losses(records: Sequence[Any]) -> str:
    """The median loss at the end of training."""
    return f"loss {np.median([record.final('loss') for record in records]):.1g}"


def lessons(config: Any) -> str:
    """What it was trained on: data, rate, steps."""
    data = f"{config.samples:,} sentences" if config.samples else "fresh data"
    shape = "constant" if config.final_rate == 1 else "cosine"
    return f"{data}, {config.learning_rate:g} {shape}, {config.steps:,} steps"


def protocol(config: Any) -> str:
    """How it was trained, but for the action: data, rate, steps, norm, residual connection."""
    norm = "" if config.model.norm else ", no norm"
    residual = "" if config.model.attention_residual else ", no residual"
    return f"{lessons(config)}{norm}{residual}"


def first_lessons(records: Sequence[Any]) -> list[Any]:
    """The trials of the first protocol, with and without a residual connection."""
    return [record for record in records if lessons(record.config) == lessons(records[0].config)]


def sizes(config: Any) -> str:
    return f"|X|={config.task.variables}, width {config.model.width}, batch {config.batch}"
