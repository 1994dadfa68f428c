"""The success map over samples and bits."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stairwise.lab.contract.plots import COLOURS, COLUMN, ON_DARK, ON_LIGHT, subplots, titled
from stairwise.papers.parity_onestep.boundary import boundary, success_map


def phase(records: Sequence[Any]):
    """Share of seeds whose roll-out is right on every fresh input, with the fitted boundaries and n = d^2."""
    figure, (left, right) = subplots(1, 2, figsize=(2.2 * COLUMN, 3.6), sharey=True)
    panels = (
        (left, "success", "roll-out right on all test inputs"),
        (right, "support", "children found at every node"),
    )
    for panel, name, title in panels:
        sizes, counts, share = success_map(records, name)
        picture = _map(panel, sizes, counts, share)
        lines = _boundary(panel, records, name, sizes)
        lines += panel.plot(sizes, np.array(sizes) ** 2.0, ":", color="black", label="$n = d^2$")
        panel.set(
            xscale="log",
            yscale="log",
            xlabel="bits d  (k = d/2)",
            title=title,
            xlim=(sizes[0] / 1.41, sizes[-1] * 1.41),
            ylim=(counts[0] / 1.41, counts[-1] * 1.41),
        )
        panel.set_xticks(sizes, [str(d) for d in sizes])
        panel.set_yticks(counts, [f"$2^{{{int(n).bit_length() - 1}}}$" for n in counts])
        panel.minorticks_off()
        panel.grid(False)
        panel.legend(handles=lines, loc="upper center", bbox_to_anchor=(0.5, -0.2), fontsize=6.5)
    left.set_ylabel("samples n")
    figure.colorbar(picture, ax=(left, right), label="share of seeds")
    seeds = len({record.seed for record in records})
    found = boundary(records, "success")
    titled(
        figure,
        f"One step succeeds from {found} samples on" if found else "Share of runs in which one step succeeds",
        f"lam = {_logit(records)}, {seeds} seeds per cell",
    )
    return figure


def _map(panel: Any, sizes: list[int], counts: np.ndarray, share: np.ndarray) -> Any:
    half = np.sqrt(2.0)  # neighbouring sizes and counts differ by a factor of two
    x = np.geomspace(sizes[0] / half, sizes[-1] * half, len(sizes) + 1)
    y = np.geomspace(counts[0] / half, counts[-1] * half, len(counts) + 1)
    picture = panel.pcolormesh(x, y, share.T, cmap="viridis", vmin=0, vmax=1)
    for d, row in zip(sizes, share, strict=True):
        for n, value in zip(counts, row, strict=True):
            shade = ON_DARK if value < 0.6 else ON_LIGHT
            panel.text(d, n, f"{value:.2g}".lstrip("0") or "0", ha="center", va="center", fontsize=5.5, color=shade)
    return picture


def _boundary(panel: Any, records: Sequence[Any], name: str, sizes: list[int]) -> list[Any]:
    found = boundary(records, name)
    if found is None:
        return []
    line = panel.plot(sizes, found.law.predict(sizes), "--", color=COLOURS[1], linewidth=1.8, label=f"fit: {found}")
    return line + panel.plot(
        found.bits, np.array(found.medians) / np.sqrt(2), "o", color=COLOURS[1], markersize=4, label="median threshold"
    )


def _logit(records: Sequence[Any]) -> str:
    above = records[0].config.rate.lam - np.log(records[0].config.task.bits)
    return f"ln d + {above:.0f}"
