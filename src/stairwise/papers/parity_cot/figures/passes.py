"""Small sets against fresh data, what cannot be learnt, and what decides for one head (Figures 9, 10 and ours)."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stairwise.lab.contract import plots
from stairwise.lab.contract.plots import COLUMN, colour, subplots, titled
from stairwise.measure.complexity import log_rank
from stairwise.papers.parity_cot.figures.run_dots import (
    chain_text,
    pool_text,
    setting,
    success_curve,
    triangle_key,
)
from stairwise.papers.parity_cot.runs import grouped, hits, shape, shape_text, where


def by_shape(records: Sequence[Any]):
    """Figure 10: success curves by the size of the set, one panel a model, with the test against fresh data."""
    from matplotlib.ticker import LogLocator

    models = grouped(records, shape)
    figure, panels = subplots(1, len(models), figsize=(COLUMN * len(models), 3.4), squeeze=False)
    for axes, (pair, group) in zip(panels[0], models.items(), strict=True):
        pools = grouped(group, lambda config: config.samples or 10**12)
        fresh = hits(list(pools.values())[-1])
        for number, own in enumerate(pools.values()):
            found = hits(own)
            label = f"{pool_text(own[0].config.samples)}: {found.reached}/{len(own)}"
            if number < len(pools) - 1:
                label += f", p={log_rank(found, fresh):.2g}"
            success_curve(axes, found, own[0].config.budget, colour(number), label)
        axes.set(xscale="log", xlabel="samples processed", ylim=(-0.03, 1.03), title=shape_text(pair))
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_minor_formatter("")
        plots.count_axis(axes)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), fontsize=6)
    panels[0][0].set_ylabel("share of runs that have succeeded")
    config = records[0].config
    seeds = len({record.seed for record in records})
    sizes = f"n={config.task.bits}, k={config.task.size}, without CoT; {seeds} seeds"
    found = []
    for pair, group in models.items():
        pools = list(grouped(group, lambda config: config.samples or 10**12).values())
        best = max(pools, key=lambda own: hits(own).reached / len(own))
        shares = [
            f"{hits(own).reached} of {len(own)} from {pool_text(own[0].config.samples)}" for own in (best, pools[-1])
        ]
        found.append(f"{shape_text(pair)}: {', '.join(dict.fromkeys(shares))}")
    titled(
        figure,
        f"Runs that learn with {'; '.join(found)}",
        f"p: log-rank test against the largest set; {sizes}",
    )
    return figure


def negative(records: Sequence[Any]):
    """Figure 9: the best accuracy that each run ever had; without CoT near chance, with it 1."""
    figure, axes = subplots(figsize=(1.7 * COLUMN, 2.7))
    arms = grouped(records, lambda c: (not c.task.cot, shape(c), c.samples or 10**12))
    rates = sorted({record.config.learning_rate for record in records})
    for place, group in enumerate(arms.values()):
        for record in group:
            number = rates.index(record.config.learning_rate)
            offset = 0.2 * (number - (len(rates) - 1) / 2)
            axes.plot(
                place + offset,
                record.series("exact match")[1].max(),
                "o",
                color=colour(number),
                markersize=3,
                alpha=0.7,
            )
    for number, rate in enumerate(rates):
        axes.plot([], [], "o", color=colour(number), markersize=3, label=f"rate {rate:g}")
    names = [
        f"{chain_text(not without)}\n{layers}x{heads}\n{pool_text(group[0].config.samples).replace(' sequences', '')}"
        for (without, (layers, heads), _), group in arms.items()
    ]
    axes.axhline(0.5, color="grey", linestyle=":", linewidth=0.8)
    axes.set_xticks(range(len(names)), names, fontsize=5)
    axes.set(ylim=(-0.03, 1.05), ylabel="best exact match of a run")
    axes.legend(fontsize=6, loc="upper right")
    without = where(records, lambda config: not config.task.cot)
    titled(
        figure,
        f"Too many secret bits: {hits(without).reached} of {len(without)} runs without CoT learn within the budget",
        f"k={records[0].config.task.size}; {setting(records)}; dotted: chance",
    )
    return figure


def puzzle(records: Sequence[Any]):
    """One layer with CoT: when each run learns, by what was changed."""
    sizes = sorted({record.config.task.size for record in records})
    names = list(dict.fromkeys(_without_size(record) for record in records))
    shape = (0.85 * COLUMN * len(sizes) + 1.3, 0.26 * len(names) + 1.2)
    figure, panels = subplots(1, len(sizes), figsize=shape, sharex=True, sharey=True, squeeze=False)
    for axes, size in zip(panels[0], sizes, strict=True):
        own = where(records, lambda config, size=size: config.task.size == size)
        for name, group in plots.grouped(own, _without_size).items():
            row, found = names.index(name), hits(group)
            rows = row + 0.3 * np.linspace(-1, 1, len(group))
            for censored, marker in ((False, "o"), (True, "^")):
                chosen = found.censored == censored
                style = {"color": colour(row), "markersize": 3, "alpha": 0.75, "linestyle": "none"}
                axes.plot(found.times[chosen], rows[chosen], marker, mfc="none" if censored else colour(row), **style)
            axes.text(1.02, row, f"{found.reached}/{len(group)}", transform=axes.get_yaxis_transform(), va="center")
        axes.set(xscale="log", xlabel="samples until all is right", title=f"k={size}")
    panels[0][0].set_yticks(range(len(names)), names)
    panels[0][0].invert_yaxis()
    triangle_key(panels[0][0])
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside lower center")
    config, seeds = records[0].config, len({record.seed for record in records})
    shares = {name: hits(group) for name, group in plots.grouped(records, _without_size).items()}
    best, worst = (
        chosen(shares, key=lambda name: shares[name].reached / len(shares[name].times)) for chosen in (max, min)
    )
    found = [f"{shares[name].reached} of {len(shares[name].times)} ({name})" for name in (best, worst)]
    titled(
        figure,
        f"One layer with CoT learns in {found[0]} down to {found[1]} runs, by what is changed",
        f"n={config.task.bits}, width {config.model.width}; {seeds} seeds; beside each row: runs that learn",
    )
    return figure


def _without_size(record: Any) -> str:
    return record.arm.replace(f", k={record.config.task.size}", "")
