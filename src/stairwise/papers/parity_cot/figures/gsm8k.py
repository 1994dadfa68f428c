"""Decoders trained on word problems: entropies over training, and head by head at the end."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stairwise.lab.contract.plots import COLOURS, COLUMN, DASHES, all_seeds, grouped, seeds_note, subplots, titled
from stairwise.papers.parity_cot.figures.heads import bar_places, heads_by_layer

LOOKS = ("min cot", "mean cot", "min own", "mean own", "min question", "mean question")  # as they are stored
PANELS = (
    ("mean cot", "texts with CoT: mean over tokens"),
    ("min cot", "texts with CoT: eq. (1)"),
    ("mean question", "question only: mean over tokens"),
    ("min question", "question only: eq. (1)"),
    ("loss", "loss a token (own kind of text)"),
    ("accuracy", "result right (own kind of text)"),
)


def arms_of(records: Sequence[Any]) -> dict[str, list[Any]]:
    return grouped(records, lambda record: arm_name(record.config))


def arm_name(config: Any) -> str:
    """What a trial read, in words.

    >>> from types import SimpleNamespace as config
    >>> [arm_name(config(reasoning=r, own=o)) for r, o in ((1, 1), (1, 0), (0, 1), (0.5, 1))]
    ['with CoT', 'borrowed reasoning', 'without CoT', 'reasoning 50 %, own 100 %']
    """
    known = {(1, 1): "with CoT", (1, 0): "borrowed reasoning"}
    if config.reasoning == 0:
        return "without CoT"
    fallback = f"reasoning {config.reasoning:.0%}, own {config.own:.0%}".replace("%", " %")
    return known.get((config.reasoning, config.own), fallback)


def over_training(records: Sequence[Any]):
    """Entropy (mean over layers and heads), loss and accuracy on held-out problems against steps; every seed."""
    figure, panels = subplots(3, 2, figsize=(2 * COLUMN, 6.2), sharex=True)
    for panel, (name, title) in zip(panels.flat, PANELS, strict=True):
        for number, (arm, chosen) in enumerate(arms_of(records).items()):
            if name.endswith("cot") and arm == "without CoT":
                continue  # these texts are of a kind that it has never read
            runs = [record.series(name) for record in chosen]
            all_seeds(panel, runs, arm, COLOURS[number], DASHES[number % len(DASHES)])
        panel.set_title(title)
    panels[0][0].set_ylabel("normalised entropy")
    panels[1][0].set_ylabel("normalised entropy")
    for panel in panels[-1]:
        panel.set_xlabel("step")
    handles, labels = panels[1][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    model = records[0].config.model
    sizes = f"{model.layers} layers, {model.heads} heads, width {model.width}"
    ends = {arm: np.median([record.final("accuracy") for record in chosen]) for arm, chosen in arms_of(records).items()}
    found = ", ".join(f"{value:.2f} {arm}" for arm, value in ends.items())
    titled(figure, f"Results right on held-out problems: {found} (medians)", f"{sizes}; {seeds_note(records)}")
    return figure


def heads(records: Sequence[Any]):
    """The mean over the question's tokens, which all have read alike; sorted within a seed, bars are means of seeds."""
    look = LOOKS.index("mean question")
    values = {
        arm: np.mean([np.sort(record.array("train/heads")[look], axis=1) for record in chosen], axis=0)
        for arm, chosen in arms_of(records).items()
    }
    figure = heads_by_layer(values, ylabel="entropy, mean over\nthe question's tokens")
    for panel, layer in zip(figure.axes, range(len(next(iter(values.values())))), strict=False):
        _seed_dots(panel, records, look, layer)
    found = ", ".join(f"{array.mean():.2f} {arm}" for arm, array in values.items())
    seeds = len({record.seed for record in records})
    titled(figure, f"Mean entropy of all heads: {found}", f"bars: means of {seeds} seeds, dots: seeds")
    return figure


def _seed_dots(panel: Any, records: Sequence[Any], look: int, layer: int) -> None:
    arms = arms_of(records)
    for number, chosen in enumerate(arms.values()):
        for record in chosen:
            values = np.sort(record.array("train/heads")[look][layer])
            places = bar_places(number, len(arms), len(values))
            panel.plot(places, values, ".", color="black", markersize=1.5, alpha=0.6)
