"""Algorithms 1 and 2: held-out loss after every gradient step, and how far each step moves each layer."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from stairwise.lab.contract.plots import COLUMN, colour, grouped, subplots, titled
from stairwise.papers.composition.figures.after_steps import after_steps, hops, size, step_names

MARKERS = "osD^vP*"
NO_LOSS = 1e-3


def curriculum(records: Sequence[Any]):
    """Figure 3 left."""
    figure, axes = subplots(figsize=(1.5 * COLUMN, 2.9))
    _losses(axes, records)
    titled(figure, f"Algorithm 1 ends {_solved(records)}", _sizes(records))
    return figure


def mixture(records: Sequence[Any]):
    """Figure 3 middle."""
    figure, axes = subplots(figsize=(1.3 * COLUMN, 2.9))
    _losses(axes, records)
    titled(figure, f"Algorithm 2 ends {_solved(records)}", _sizes(records))
    return figure


def any_blocks(records: Sequence[Any]):
    """Algorithm 1 for every k, a panel each."""
    groups = grouped(records, lambda record: size(record.config))
    across = min(2, len(groups))
    down = -(-len(groups) // across)
    figure, panels = subplots(down, across, figsize=(1.25 * COLUMN * across, 2.7 * down), squeeze=False)
    for axes in panels.flat[len(groups) :]:
        axes.axis("off")
    for axes, chosen in zip(panels.flat, groups.values(), strict=False):
        _losses(axes, chosen)
        axes.set_title(f"{size(chosen[0].config)}, M={chosen[0].config.samples:,}")
    titled(
        figure,
        f"Where k is no power of two, Algorithm 1 ends {_solved(records)}",
        f"{len({record.seed for record in records})} seeds (all shown), path: {records[0].config.path}",
    )
    return figure


def _solved(records: Sequence[Any]) -> str:
    """How many runs end right, in words."""
    ends = [
        [after_steps(record, f"loss {hops(layer.hops)}")[-1] for layer in record.config.task.plan] for record in records
    ]
    right = sum(max(losses) < NO_LOSS for losses in ends)
    return f"with a loss below {NO_LOSS:g} at every head in {right} of {len(records)} runs"


def _sizes(records: Sequence[Any]) -> str:
    config = records[0].config
    return f"{size(config)}, M={config.samples:,}, {len(records)} seeds (all shown), path: {config.path}"


def _losses(axes: Any, records: Sequence[Any]) -> None:
    """One line a head and seed, against the steps by name; the plateaus that the theory knows."""
    config = records[0].config
    heads = [layer.hops for layer in config.task.plan]
    for number, head in enumerate(heads):
        for place, record in enumerate(records):
            losses = after_steps(record, f"loss {hops(head)}")
            axes.plot(
                losses,
                marker=MARKERS[number % len(MARKERS)],
                markersize=3.5,
                color=colour(number),
                alpha=0.75,
                linewidth=1,
                label=hops(head) if place == 0 else None,
            )
    N, names = config.task.alphabet, step_names(config)
    _level(axes, math.log(N), "log N")
    _level(axes, math.log1p((N - 1) * math.exp(-config.beta0)), "log(1+(N-1)e$^{-β_0}$)")
    axes.set_xticks(range(len(names)), names, rotation=45 if len(names) > 7 else 0)
    axes.set_xlim(-0.3, len(names) - 0.4)
    axes.set_ylim(-0.06, 1.13 * math.log(N))
    axes.set(xlabel="gradient step on", ylabel="held-out loss")
    axes.legend(loc="lower left", bbox_to_anchor=(1.0, 0.0), fontsize=6.5)


def _level(axes: Any, height: float, label: str) -> None:
    axes.axhline(height, color="grey", linestyle=":", linewidth=0.8)
    axes.text(1.01, height, label, transform=axes.get_yaxis_transform(), ha="left", va="center", fontsize=6.5)


def staircase(records: Sequence[Any]):
    """The largest change of each key-query matrix in each step: one layer a step."""
    config = records[0].config
    figure, axes = subplots(figsize=(1.3 * COLUMN, 2.9))
    floor = 1e-32
    layers = range(1, config.task.layers + 1)
    for layer in layers:
        for place, record in enumerate(records):
            sizes = after_steps(record, f"update layer {layer}")[1 : config.steps + 1]
            shift = 0.12 * (layer - np.mean(layers))
            axes.plot(
                np.arange(1, len(sizes) + 1) + shift,
                np.maximum(sizes, floor),
                MARKERS[layer - 1],
                color=colour(layer - 1),
                alpha=0.75,
                markersize=4,
                label=f"layer {layer}" if place == 0 else None,
            )
    axes.set_yscale("log")
    axes.set_ylim(floor / 10, 1e6)
    axes.set_yticks([1e-30, 1e-20, 1e-10, 1])
    axes.set_xticks(range(1, config.steps + 1), step_names(config)[1 : config.steps + 1])
    axes.set(xlabel="gradient step", ylabel=r"largest $|\eta \nabla W_{KQ}|$")
    moved = [np.stack([after_steps(record, f"update layer {layer}")[1 : config.steps + 1] for layer in layers])
             for record in records]  # fmt: skip
    own = [steps.argmax(axis=0) == np.arange(config.steps) for steps in moved]
    others = max(np.max(np.sort(steps, axis=0)[-2] / steps.max(axis=0)) for steps in moved)
    found = (
        f"In {np.sum(own)} of {np.size(own)} steps, step t moves layer t most, the others by {others:.0e} of it at most"
    )
    titled(figure, found, f"Algorithm 2; {_sizes(records)}; lowest row: exactly 0")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure
