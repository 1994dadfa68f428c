"""The standard transformer: mixtures against single hops, few examples against many."""

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt

from stairwise.lab.plots import COLUMN, DASHES, all_seeds, count_axis, seeds_note
from stairwise.papers.composition.figures.common import colour, grouped, hops, size


def describe(config: Any) -> str:
    return f"{size(config)}; {config.layers} layers of width {config.width}, batch {config.batch}"


def mixed(record: Any) -> str:
    return "trained on " + ", ".join(map(str, record.config.hops)) + " hops"


def mix(records: Sequence[Any]):
    """Figure 3 right: accuracy of the hops that each arm trains on, and the training losses."""
    arms = grouped(records, mixed)
    config = records[0].config
    figure, (left, right) = plt.subplots(1, 2, figsize=(2 * COLUMN, 2.6))
    for number, (arm, chosen) in enumerate(arms.items()):
        for place, hop in enumerate(chosen[0].config.hops):
            runs = [record.series(f"accuracy {hop}") for record in chosen]
            all_seeds(left, runs, f"{hops(hop)}, {arm}", colour(number * 3 + place), DASHES[number % len(DASHES)])
        runs = [record.series("train_loss") for record in chosen]
        all_seeds(right, [(steps[1:], values[1:]) for steps, values in runs], arm, colour(number * 3), DASHES[number])
    left.axhline(1 / config.task.alphabet, color="grey", linestyle=":", linewidth=0.8)
    left.set(xlabel="step", ylabel="held-out accuracy (dotted: chance)", ylim=(0, 1.03), title=describe(config))
    right.set(xlabel="step", ylabel="training loss of the batch", title=seeds_note(records))
    right.set_ylim(bottom=0)
    left.legend(loc="center right", fontsize=6)
    right.legend(loc="lower left", fontsize=6)
    count_axis(left)
    count_axis(right)
    return figure


def pools(records: Sequence[Any]):
    """Accuracy on every trained hop by the number of distinct examples."""
    config = records[0].config
    arms = grouped(records, lambda record: record.config.samples)
    figure, panels = plt.subplots(1, len(config.hops), figsize=(1.05 * COLUMN * len(config.hops), 2.5), squeeze=False)
    for axes, hop in zip(panels[0], config.hops, strict=True):
        for number, (samples, chosen) in enumerate(arms.items()):
            label = f"{samples:,} examples" if samples else "fresh examples"
            runs = [record.series(f"accuracy {hop}") for record in chosen]
            all_seeds(axes, runs, label, colour(number), DASHES[number % len(DASHES)])
        axes.axhline(1 / config.task.alphabet, color="grey", linestyle=":", linewidth=0.8)
        axes.set(xlabel="step", ylabel="held-out accuracy", ylim=(0, 1.03), title=hops(hop))
        count_axis(axes)
    panels[0][0].legend(loc="lower right", bbox_to_anchor=(1, 0.1))
    figure.suptitle(f"{describe(config)}.  {seeds_note(records)}", fontsize=7)
    return figure
