"""Where the steps of the chain look (Figures 3b and 8)."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stairwise.lab.contract.plots import COLUMN, subplots, titled
from stairwise.papers.parity_cot.figures.run_dots import setting
from stairwise.papers.parity_cot.runs import final_heads, grouped, shape, where

ACROSS = 3  # panels in a row


def live_rows(record: Any) -> slice:
    """The rows of the chain's steps among the supervised ones."""
    task = record.config.task
    lead = int(task.layout == "authors")
    return slice(lead, lead - (-task.size // task.absorbed))


def heat_map(axes: Any, record: Any, layer: int, head: int, name: str = "attention of one") -> Any:
    """Attention of the steps of one sequence; a ring marks the secret bit that the step adds."""
    weights = record.array(f"train/{name}")[layer, head][live_rows(record)]
    image = axes.imshow(weights, vmin=0, vmax=1, cmap="cividis", aspect="auto", interpolation="nearest")
    if record.config.task.absorbed == 1:
        secret = record.array("train/secret")[: record.config.task.size]
        axes.plot(
            secret,
            np.arange(len(secret)),
            "o",
            markersize=3.5,
            markerfacecolor="none",
            color="#D55E00",
            markeredgewidth=0.7,
            linestyle="none",
        )
    axes.grid(False)
    return image


def one_head(records: Sequence[Any]):
    """Figure 3b: one layer, one head; every seed of every initial scale, three panels in a row."""
    arms = grouped(where(records, lambda c: shape(c) == (1, 1)), lambda c: c.model.std)
    shown = [record for group in arms.values() for record in group]
    rows = -(-len(shown) // ACROSS)
    size = (2 * COLUMN, 1.6 * rows + 0.8)
    figure, panels = subplots(rows, ACROSS, figsize=size, squeeze=False, sharex=True, sharey=True)
    for axes, record in zip(panels.flat, shown, strict=False):
        image = heat_map(axes, record, 0, 0)
        agreement, mass = (final_heads(record, name)[0, 0] for name in ("agreement", "mass"))
        std = f"std {record.config.model.std:g}, " if len(arms) > 1 else ""
        axes.set_title(f"{std}seed {record.seed}: right {agreement:.2f}, mass {mass:.2f}", fontsize=7)
    for axes in panels.flat[len(shown) :]:
        axes.set_axis_off()
    for row in panels:
        row[0].set_ylabel("step of the chain")
    for axes in panels.flat[max(0, len(shown) - ACROSS) : len(shown)]:
        axes.set_xlabel("attended position")
        axes.tick_params(labelbottom=True)
    figure.colorbar(image, ax=panels, label="attention", shrink=0.8)
    words = "right: steps that look most at the bit they add (ring); mass: attention on it"
    shares = [final_heads(record, "agreement")[0, 0] for record in shown]
    found = f"{min(shares):.0%} to {max(shares):.0%} of the steps look most at the bit they add, seed by seed"
    titled(figure, found, f"{words}; {setting(shown)}")
    return figure


def every_head(records: Sequence[Any]):
    """Figure 8: the deepest model, all layers and heads of the first seed; the titles hold all seeds."""
    deepest = max(shape(record.config) for record in records)
    chosen = where(records, lambda config: shape(config) == deepest)
    layers, heads = deepest
    figure, panels = subplots(
        layers, heads, figsize=(1.1 * COLUMN * heads, 1.7 * layers + 0.4), squeeze=False, sharex=True, sharey=True
    )
    mass, entropy = (np.stack([final_heads(record, name) for record in chosen]) for name in ("mass", "step entropy"))
    for layer in range(layers):
        for head in range(heads):
            image = heat_map(panels[layer, head], chosen[0], layer, head)
            values = [
                f"{name} {part[:, layer, head].mean():.2f}" for name, part in (("mass", mass), ("entropy", entropy))
            ]
            panels[layer, head].set_title(f"layer {layer + 1}, head {head + 1}: {', '.join(values)}", fontsize=7)
    for axes in panels[:, 0]:
        axes.set_ylabel("step of the chain")
    for axes in panels[-1]:
        axes.set_xlabel("attended position")
    figure.colorbar(image, ax=panels, label=f"attention, seed {chosen[0].seed}", shrink=0.8)
    by_layer = ", ".join(f"{mass[:, layer].mean():.2f} in layer {layer + 1}" for layer in range(layers))
    words = "mass: attention on the bit that a step adds (ring); means over seeds"
    titled(figure, f"A head's attention on the bit that a step adds: {by_layer} (means)", f"{words}; {setting(chosen)}")
    return figure
