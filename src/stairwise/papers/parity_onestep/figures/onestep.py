"""The headline: W after one step, and what its roll-out gives."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stairwise.lab.contract.plots import COLUMN, colour, grouped, subplots, titled
from stairwise.papers.parity_onestep.figures.seed_dots import count, sizes

LARGEST_MAP = 100  # columns of W that a heat map can show with its tree


def onestep(records: Sequence[Any]):
    """W with the tree's edges circled, its sorted columns, and the errors on fresh inputs."""
    whole = [record for record in records if "descent/W" in record.arrays()]  # the record has those of one seed per arm
    record = next((r for r in whole if r.config.task.size <= LARGEST_MAP), whole[0])
    figure, (left, middle, right) = subplots(
        1, 3, figsize=(2.4 * COLUMN, 2.9), gridspec_kw={"width_ratios": [1.5, 1, 1]}
    )
    _heat_map(figure, left, record)
    _sorted_columns(middle, record)
    _errors(right, whole)
    config, lowest = records[0].config, min(record.final("accuracy") for record in records)
    titled(
        figure,
        f"One gradient step finds the tree: lowest accuracy {lowest:g} in {len(records)} runs",
        f"n={count(config.samples)}, lam={config.rate.lam:g}; left and middle: seed {record.seed};"
        f" right: {len(whole)} runs",
    )
    return figure


def _heat_map(figure: Any, axes: Any, record: Any) -> None:
    W, children = record.array("descent/W"), record.array("descent/children")
    bits, nodes = record.config.task.bits, len(children)
    hidden = np.arange(len(W))[:, None] >= bits + np.arange(nodes)
    scale = np.abs(W).max()
    picture = axes.imshow(
        np.where(hidden, np.nan, W).T,
        cmap="RdBu_r",
        vmin=-scale,
        vmax=scale,
        aspect="auto",
        interpolation="nearest",
        extent=(0.5, len(W) + 0.5, bits + nodes + 0.5, bits + 0.5),
    )
    node = bits + 1 + np.arange(nodes)
    for child in children.T:
        axes.plot(child + 1, node, "o", mfc="none", mec="black", mew=0.6, markersize=4)
    axes.axvline(bits + 0.5, color="grey", linewidth=0.6)
    axes.set_facecolor("0.92")
    axes.grid(False)
    axes.set(xlabel="token j (inputs, then nodes)", ylabel="node m", title=f"W after one step, {sizes(record.config)}")
    figure.colorbar(picture, ax=axes, shrink=0.9, label="$w_{j,m}$ (circles: children of m)")


def _sorted_columns(axes: Any, record: Any) -> None:
    """The largest entries of every column: two children stand out."""
    W, nodes = record.array("descent/W"), len(record.array("descent/children"))
    shown = min(12, len(W) - nodes)
    for i in range(nodes):
        seen = np.sort(W[: len(W) - nodes + i, i])[::-1][:shown]
        axes.plot(np.arange(1, shown + 1), seen, "-", color=colour(0), alpha=0.35, linewidth=0.7)
        axes.plot(np.arange(1, 3), seen[:2], "o", color=colour(1), alpha=0.6, markersize=2.5)
    axes.set(xlabel="rank in its column", ylabel="$w_{j,m}$", title=f"largest weights of all {nodes} nodes")
    axes.set_xticks(range(1, shown + 1, 2))
    axes.set_ylim(bottom=min(0, axes.get_ylim()[0]))


def _errors(axes: Any, records: Sequence[Any]) -> None:
    """Histogram of |output - label| at the root over fresh inputs, one line a seed."""
    for number, (size, chosen) in enumerate(grouped(records, lambda r: sizes(r.config)).items()):
        for place, record in enumerate(chosen):
            errors = np.abs(record.array("descent/root outputs") - record.array("descent/labels"))
            errors = np.sort(np.maximum(errors, 1e-8))
            label = size if place == 0 else None
            share = 1 - np.arange(len(errors)) / len(errors)
            axes.plot(errors, share, color=colour(number), alpha=0.6, linewidth=0.8, label=label)
    axes.axvline(1.0, color="grey", linestyle=":", linewidth=0.8)
    axes.set(
        xscale="log",
        yscale="log",
        xlim=(1e-5, 3),
        ylim=(5e-4, 8),
        xlabel="root error on a fresh input",
        ylabel="share above",
    )
    axes.set_title("errors of the roll-out")
    axes.set_yticks([1e-3, 1e-2, 1e-1, 1])
    axes.legend(loc="upper left", fontsize=6)
