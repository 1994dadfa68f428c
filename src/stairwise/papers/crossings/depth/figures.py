"""Depth against steps: accuracy against what was spent, and what success costs against k."""

from collections.abc import Sequence
from typing import Any

from stairwise.lab.contract.plots import COLUMN, DASHES, colour, subplots, titled
from stairwise.papers.crossings.depth.runs import COSTS, chosen, curve, hits, names, sizes
from stairwise.papers.parity_cot.figures.run_dots import median_line, run_dots, triangle_key

WORDS = {"labels": "labels seen", "operations": "floating-point operations of training"}


def curves(records: Sequence[Any]):
    """One row a k, one column a cost: every run."""
    blocks = sizes(records)
    figure, panels = subplots(
        len(blocks), 2, figsize=(2 * COLUMN, 1.75 * len(blocks) + 0.6), squeeze=False, sharex="col", sharey=True
    )
    for row, k in zip(panels, blocks, strict=True):
        for axes, cost in zip(row, COSTS, strict=True):
            for number, name in enumerate(names(records)):
                for place, record in enumerate(chosen(records, k, name)):
                    spent, accuracy = curve(record, cost)
                    style = {"color": colour(number), "linestyle": DASHES[number], "linewidth": 1, "alpha": 0.7}
                    axes.plot(spent[1:], accuracy[1:], label=name if place == 0 else None, **style)
            axes.axhline(1 / records[0].config.task.alphabet, color="grey", linestyle=":", linewidth=0.8)
            axes.set(xscale="log", ylim=(0, 1.03))
        row[0].set_ylabel(f"right at k={k} hops")
    for axes, cost in zip(panels[-1], COSTS, strict=True):
        axes.set_xlabel(WORDS[cost])
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    titled(
        figure,
        learnt(records),
        f"{setting(records)}; a line a run, to its success or the end of its budget; dotted: chance",
    )
    return figure


def costs(records: Sequence[Any]):
    """Every run a dot, triangles where the budget was spent, lines through medians."""
    blocks = sizes(records)
    figure, panels = subplots(1, 2, figsize=(2 * COLUMN, 2.9))
    for axes, cost in zip(panels, COSTS, strict=True):
        for number, name in enumerate(names(records)):
            found = [hits(chosen(records, k, name), cost) for k in blocks]
            places = [place + 0.16 * (number - 1) for place in range(len(blocks))]
            for place, one in zip(places, found, strict=True):
                run_dots(axes, place, one, colour(number), 0.05)
            median_line(axes, places, found, colour(number), alpha=0.6)
            axes.plot([], [], "o-", color=colour(number), markersize=3.5, label=name)
        triangle_key(axes)
        axes.set_xticks(range(len(blocks)), [str(k) for k in blocks])
        axes.set(yscale="log", xlabel="hops k", ylabel=f"{cost} until right")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    titled(figure, learnt(records), setting(records))
    return figure


def learnt(records: Sequence[Any]) -> str:
    """The finding: how many runs learn the most hops, by model."""
    k = sizes(records)[-1]
    found = [(name, hits(chosen(records, k, name), COSTS[0])) for name in names(records)]
    return f"{k} hops are learnt in " + ", ".join(
        f"{one.reached} of {len(one.times)} runs ({name})" for name, one in found
    )


def setting(records: Sequence[Any]) -> str:
    config, seeds = records[0].config, len({record.seed for record in records})
    text = f"N={config.task.alphabet}, width {config.model.width}, batch {config.batch}, Adam {config.learning_rate:g}"
    return f"{text}; {seeds} seeds"
