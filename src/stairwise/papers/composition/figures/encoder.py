"""The standard transformer: mixtures against single hops, few examples against many."""

from collections.abc import Sequence
from typing import Any

from stairwise.lab.plots import COLUMN, DASHES, all_seeds, count_axis, seeds_note, subplots
from stairwise.papers.composition.figures.common import colour, grouped, hops, size

LEARNT = 0.95  # held-out accuracy


def describe(config: Any) -> str:
    return f"{size(config)}; {config.layers} layers of width {config.width}, batch {config.batch}"


def mixed(record: Any) -> str:
    return "trained on " + ", ".join(map(str, record.config.hops)) + " hops"


def mix(records: Sequence[Any]):
    """Figure 3 right: accuracy of the hops that each arm trains on, and the training losses."""
    arms = grouped(records, mixed)
    config = records[0].config
    figure, (left, right) = subplots(1, 2, figsize=(2 * COLUMN, 2.6))
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
    """Accuracy on every trained hop by the number of distinct examples; last, how the hardest hop ends."""
    config = records[0].config
    arms = grouped(records, lambda record: record.config.samples)
    ordered = sorted(arms, key=lambda samples: samples or float("inf"))
    figure, (*panels, map_) = subplots(
        1, len(config.hops) + 1, figsize=(0.95 * COLUMN * (len(config.hops) + 1), 2.5), sharey=True
    )
    for number, samples in enumerate(ordered):
        style = {"color": colour(number), "linestyle": DASHES[number % len(DASHES)]}
        for axes, hop in zip(panels, config.hops, strict=True):
            label: str | None = f"{samples:,} examples" if samples else "fresh examples"
            for record in arms[samples]:
                # a run learns a hop or does not: quartiles between the two would show what no run does
                axes.plot(*record.series(f"accuracy {hop}"), linewidth=0.9, label=label, **style)
                label = None
        ends = [record.final(f"accuracy {config.hops[-1]}") for record in arms[samples]]
        spread = [number + 0.12 * (place - (len(ends) - 1) / 2) for place in range(len(ends))]
        map_.plot(spread, ends, "o", color=colour(number), alpha=0.8)
        map_.text(number, 1.06, f"{sum(end > LEARNT for end in ends)}/{len(ends)}", ha="center", fontsize=7)
    for axes, hop in zip(panels, config.hops, strict=True):
        axes.set(xlabel="step", title=hops(hop))
        count_axis(axes)
    for axes in (*panels, map_):
        axes.axhline(1 / config.task.alphabet, color="grey", linestyle=":", linewidth=0.8)
    from matplotlib.ticker import EngFormatter

    map_.set(xlabel=f"examples (above: runs over {LEARNT:g})", title=f"{hops(config.hops[-1])}, at the end")
    map_.set_xticks(range(len(ordered)), [EngFormatter(sep="")(samples) if samples else "fresh" for samples in ordered])
    panels[0].set(ylabel="held-out accuracy (dotted: chance)", ylim=(0, 1.16))
    panels[0].legend(loc="lower right", bbox_to_anchor=(1, 0.2))
    seeds = len({record.seed for record in records})
    figure.suptitle(f"{describe(config)}; {seeds} seed{'s' if seeds != 1 else ''}, each a line and a dot", fontsize=7)
    return figure
