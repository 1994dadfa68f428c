"""Both classes on one axis, and the line that no network can cross."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stairwise.lab.contract.plots import COLOURS, COLUMN, subplots, titled
from stairwise.measure.fits import fit
from stairwise.papers.crossings.variance.config import CLASSES, NETWORKS
from stairwise.papers.crossings.variance.runs import observed, of, slopes


def against_dimensions(records: Sequence[Any]):
    """A panel a network: every random network, fitted powers of M, and 1/M."""
    figure, panels = subplots(1, len(NETWORKS), figsize=(2 * COLUMN, 2.8), sharey=True)
    found = slopes(records)
    for axes, network in zip(panels, NETWORKS, strict=True):
        dimensions = [record.config.dimensions for record in records if record.config.network == network]
        line = np.array([min(dimensions), max(dimensions)], dtype=np.float64)
        axes.plot(line, 1 / line, color="grey", linewidth=1, label="SQ bound 1/M")
        for number, targets in enumerate(CLASSES):
            own = of(records, targets, network)
            axes.plot(
                [record.config.dimensions for record in own],
                [record.final("share") for record in own],
                "os"[number],
                color=COLOURS[number],
                markersize=3.5,
                alpha=0.7,
            )
            label = targets
            if (targets, network) in found:
                ends = np.array([own[0].config.dimensions, own[-1].config.dimensions], dtype=np.float64)
                axes.plot(ends, fit("power", observed(own)).predict(ends), "--", color=COLOURS[number], linewidth=1)
                slope = found[targets, network]
                label = f"{targets}: M^{slope.value:.2f} [{slope.low:.2f}, {slope.high:.2f}]"
            axes.plot([], [], f"{'os'[number]}--", color=COLOURS[number], markersize=3.5, label=label)
        axes.set(xscale="log", yscale="log", xlabel="dimensions M of the class", title=network)
        axes.legend(loc="lower left", fontsize=6)
    panels[0].set_ylabel("variance over targets, share of the query")
    seeds = len({record.seed for record in records})
    steps = [slope.value for slope in found.values()]
    below = max(record.final("share") * record.config.dimensions for record in records)
    titled(
        figure,
        f"Gradient variance is {below:.2g} of the bound 1/M at most"
        + (f" and falls like M to the {max(steps):.1f} or faster" if steps else ""),
        f"width {records[0].config.width}; {seeds} random networks each; all targets enumerated",
    )
    return figure
