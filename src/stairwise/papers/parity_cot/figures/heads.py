"""One number per head, layer by layer, as bars: the heads of a layer sorted within each situation."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stairwise.lab.contract.plots import COLOURS

ACROSS = 7  # panels in a row
BARS = 0.85  # of the room of a head


def bar_places(number: int, labels: int, heads: int) -> np.ndarray:
    """Where the bars of the number-th label stand.

    >>> bar_places(1, 3, 2).tolist()
    [1.0, 2.0]
    """
    return np.arange(1, heads + 1) + (number - (labels - 1) / 2) * BARS / labels


def heads_by_layer(
    values: Mapping[str, np.ndarray], layers: Sequence[int] | None = None, ylabel: str = "normalised entropy"
) -> Any:
    """One panel per layer (numbered from 1; all by default), one bar per head; `values` is label -> [layer, head].

    Heads are sorted for each label by itself, so bars beside each other need not be the same head.
    """
    import matplotlib.pyplot as plt

    first = next(iter(values.values()))
    chosen = list(layers or range(1, len(first) + 1))
    columns = min(ACROSS, len(chosen)) if len(chosen) != 4 else 4
    rows = -(-len(chosen) // columns)
    size = (max(5.0, 1.7 * columns), 1.8 * rows + 0.6)
    figure, panels = plt.subplots(rows, columns, figsize=size, sharey=True, squeeze=False)
    for panel, layer in zip(panels.flat, chosen, strict=False):
        _bars(panel, {label: np.sort(array[layer - 1]) for label, array in values.items()})
        panel.set_title(f"layer {layer}")
    for panel in panels.flat[len(chosen) :]:
        panel.set_axis_off()
    for row in panels:
        row[0].set_ylabel(ylabel)
    for panel in panels[-1]:
        panel.set_xlabel("head, sorted")
    handles, labels = panels.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3 if len(labels) == 3 else 2)
    return figure


def _bars(panel: Any, sorted_values: Mapping[str, np.ndarray]) -> None:
    for number, (label, heights) in enumerate(sorted_values.items()):
        places = bar_places(number, len(sorted_values), len(heights))
        width = BARS / len(sorted_values)
        panel.bar(places, heights, width, label=label, color=COLOURS[number % len(COLOURS)])
    panel.set_xticks([1, len(heights)] if len(heights) > 1 else [1])
    panel.grid(axis="x", visible=False)
