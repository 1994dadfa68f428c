"""Training over several steps: the staircase, its ablations, the regimes, and small Adam steps."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stairwise.lab.contract.plots import COLUMN, all_seeds, colour, grouped, subplots, titled
from stairwise.papers.parity_onestep.figures.seed_dots import FLOOR, by_step, count, sizes
from stairwise.papers.parity_onestep.runs import is_staircase, levels_of, solved_at

LOWEST = 1e-13  # losses below this are drawn here


def staircase(records: Sequence[Any]):
    """Sup error of each level against the step, all seeds; level l falls at step l."""
    arms = grouped(records, lambda record: record.arm)
    figure, axes = subplots(1, len(arms), figsize=(max(2, 0.75 * len(arms)) * COLUMN, 3.1), squeeze=False)
    for panel, (arm, chosen) in zip(axes[0], arms.items(), strict=True):
        levels = levels_of(chosen[0].config)
        for level in range(1, levels + 1):
            runs = [_floored(by_step(record, f"sup level {level}")) for record in chosen]
            all_seeds(panel, runs, f"level {level}", colour(level - 1), "-" if level % 2 else "--")
        panel.axhline(0.5, color="grey", linewidth=0.6)
        config = chosen[0].config
        panel.set(yscale="log", xlabel="gradient step", ylim=(FLOOR / 2, 4))
        panel.set_xticks(range(config.steps + 1))
        panel.set_title(f"{arm}\n{sizes(config)}, n={count(config.samples)}, lam={config.rate.lam:g}", fontsize=6)
    longest = max(axes[0], key=lambda panel: len(panel.get_legend_handles_labels()[1]))
    figure.legend(*longest.get_legend_handles_labels(), fontsize=6, loc="outside right center")
    axes[0][0].set_ylabel("sup error of the level")
    climbed = sum(is_staircase(record) for record in records)
    titled(
        figure,
        f"Level l is solved from step l on, and not before, in {climbed} of {len(records)} runs",
        f"no teacher forcing; {len({r.seed for r in records})} seeds: thin lines; median: thick",
    )
    return figure


def _floored(run: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    return run[0], np.maximum(run[1], FLOOR)


def ablation(records: Sequence[Any]):
    """For each variant and seed the step from which on the root is right, or a cross at the far right."""
    arms = grouped(records, lambda record: record.arm)
    panels = grouped(arms, lambda arm: arm.partition(": ")[0])
    variants = list(dict.fromkeys(arm.partition(": ")[2] for arm in arms))
    figure, axes = subplots(
        1, len(panels), figsize=(1.1 * COLUMN * len(panels) + 1, 0.22 * len(variants) + 1.1), sharey=True, squeeze=False
    )
    titles = {"integers": "integer rounding (Theorem 7)", "saturating": "saturating weights (extension)"}
    for panel, (quantiser, names) in zip(axes[0], panels.items(), strict=True):
        config = arms[names[0]][0].config
        never, levels = config.steps + 1, levels_of(config)
        for name in names:
            row = variants.index(name.partition(": ")[2])
            chosen = arms[name]
            for place, record in enumerate(chosen):
                step = solved_at(record)
                offset = row + 0.5 * (place / max(1, len(chosen) - 1) - 0.5) if len(chosen) > 1 else row
                marker, tone = ("o", colour(0)) if step is not None else ("x", colour(1))
                panel.plot(never if step is None else step, offset, marker, color=tone, markersize=4, alpha=0.8)
            share = sum(solved_at(record) is not None for record in chosen)
            panel.text(never + 0.5, row, f"{share}/{len(chosen)}", va="center", fontsize=6)
        panel.axvline(levels, color="grey", linewidth=0.6)
        panel.set(xlim=(0.5, never + 1.4), ylim=(len(variants) - 0.5, -0.5), xlabel="root right from step ... on")
        panel.set_xticks([*range(1, config.steps + 1), never], [*map(str, range(1, config.steps + 1)), "never"])
        title = titles.get(quantiser, quantiser)
        panel.set_title(f"{title}\n{sizes(config)}, n={count(config.samples)}, lam={config.rate.lam:g}", fontsize=7)
    axes[0][0].set_yticks(range(len(variants)), variants)
    solved = {
        arm: sum(solved_at(record) is not None for record in chosen) / len(chosen) for arm, chosen in arms.items()
    }
    whole = {quantiser: solved.get(f"{quantiser}: {variants[0]}", 0.0) for quantiser in panels}
    less = [arm for arm in solved if solved[arm] < whole[arm.partition(": ")[0]]]
    full = [record for quantiser in panels for record in arms.get(f"{quantiser}: {variants[0]}", [])]
    right = sum(solved_at(record) is not None for record in full)
    titled(
        figure,
        f"The {variants[0]} solves the parity in {right} of {len(full)} runs;"
        f" with {len(less)} of {len(arms) - len(whole)} changes fewer runs do",
        f"{len({record.seed for record in records})} seeds, all shown; line: the height of the tree",
    )
    return figure


def adam(records: Sequence[Any]):
    """Loss and accuracy of the roll-out over Adam steps, one column a regime, a colour a rate."""
    arms = grouped(records, lambda record: record.arm.partition(", rate")[0])
    figure, axes = subplots(2, len(arms), figsize=(2 * COLUMN, 3.4), sharex=True, sharey="row", squeeze=False)
    for column, (arm, chosen) in enumerate(arms.items()):
        for number, (rate, some) in enumerate(grouped(chosen, lambda record: record.config.rate.adam).items()):
            label, dash = f"rate {rate:g}", "-" if number == 0 else "--"
            for row, name in enumerate(("loss", "accuracy")):
                all_seeds(axes[row][column], [by_step(r, name) for r in some], label, colour(number), dash)
        axes[0][column].set(title=arm, yscale="log")
        axes[1][column].set(xlabel="Adam step", ylim=(0, 1.05))
    axes[0][0].set_ylabel("loss of the chain")
    axes[1][0].set_ylabel("accuracy at the root")
    axes[0][-1].legend(loc="lower left")
    config = records[0].config
    seeds = len({record.seed for record in records})
    found = []
    for arm, chosen in arms.items():
        rates = grouped(chosen, lambda record: record.config.rate.adam)
        ends = sorted({f"{np.median([record.final('accuracy') for record in some]):.2f}" for some in rates.values()})
        found.append(f"{' or '.join(ends)} ({arm})")
    titled(
        figure,
        f"Small Adam steps end at an accuracy of {', '.join(found)} (medians, by rate)",
        f"{sizes(config)}, fresh batches of {config.samples}; {seeds} seeds, thin lines",
    )
    return figure


def regimes(records: Sequence[Any]):
    """Loss and accuracy of the roll-out by step, one column a regime."""
    arms = grouped(records, lambda record: record.arm)
    across = min(4, len(arms))
    bands = -(-len(arms) // across)  # of two rows: loss, and accuracy below it
    figure, grid = subplots(2 * bands, across, figsize=(2.2 * COLUMN, 2.7 * bands + 0.5), sharex=True, squeeze=False)
    for axes in grid[-2:, len(arms) - across * (bands - 1) :].flat:
        axes.axis("off")
    for place, (arm, chosen) in enumerate(arms.items()):
        band, column = divmod(place, across)
        upper, lower = grid[2 * band : 2 * band + 2, column]
        for panel, name in ((upper, "loss"), (lower, "accuracy")):
            runs = [by_step(record, name) for record in chosen]
            runs = [(steps, np.maximum(values, LOWEST if name == "loss" else 0)) for steps, values in runs]
            all_seeds(panel, runs, name, colour(0 if name == "loss" else 1))
        upper.set_title(_wrapped(arm), fontsize=6.5)
        upper.set(yscale="log", ylim=(LOWEST / 2, 30), ylabel="" if column else "loss of the chain")
        lower.set(ylim=(-0.05, 1.05), ylabel="" if column else "accuracy at the root")
        lower.set_xticks(range(0, chosen[0].config.steps + 1, 2))
        lower.axhline(0.5, color="grey", linewidth=0.6)
        if band == bands - 1:
            lower.set_xlabel("step")
    config = records[0].config
    text = f"{sizes(config)}, n={count(config.samples)}, lam={config.rate.lam:g}"
    seeds = len({record.seed for record in records})
    right = {arm: sum(record.final("accuracy") == 1 for record in chosen) for arm, chosen in arms.items()}
    every = sum(right[arm] == len(chosen) for arm, chosen in arms.items())
    titled(
        figure,
        f"Every run ends right in {every} of {len(arms)} training regimes, none in {list(right.values()).count(0)}",
        f"{text}; {seeds} seeds: thin lines; a closed level answers 0, which counts as wrong",
    )
    return figure


def _wrapped(arm: str) -> str:
    return arm.replace(", ", ",\n").replace(" (", "\n(")
