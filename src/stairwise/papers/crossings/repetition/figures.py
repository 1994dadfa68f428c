"""Steps to success against the different examples seen until then, one panel a task and a labelling."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stairwise.lab.contract.plots import COLUMN, colour, subplots, titled
from stairwise.papers.crossings.hits import hits
from stairwise.papers.crossings.repetition.config import TASKS
from stairwise.papers.crossings.repetition.runs import FRESH, by_pool, distinct, median, of_task
from stairwise.papers.parity_cot.figures.run_dots import triangle_key


def both_axes(records: Sequence[Any]):
    """A dot a run, a triangle where the budget is spent, bars for medians; fresh examples lie on the dotted line."""
    tasks = [task for task in TASKS if any(record.config.task == task for record in records)]
    figure, panels = subplots(
        2, len(tasks), figsize=(0.85 * COLUMN * len(tasks), 4.4), squeeze=False, sharex=True, sharey=True
    )
    pools = sorted({record.config.samples or FRESH for record in records})
    for row, every_step in zip(panels, (False, True), strict=True):
        for axes, task in zip(row, tasks, strict=True):
            for pool, group in by_pool(of_task(records, task, every_step)).items():
                draw_pool(axes, pool, group, colour(pools.index(pool)))
            labelled = "every step labelled" if every_step else "the answer alone"
            axes.set(xscale="log", yscale="log", title=f"{task}, {labelled}")
    config = records[0].config
    for axes in panels.flat:
        steps = np.array([config.measure_every, config.budget])
        axes.plot(config.batch * steps, steps, ":", color="grey", linewidth=0.8)
    for axes in panels[-1]:
        axes.set_xlabel("different examples seen")
    for axes in panels[:, 0]:
        axes.set_ylabel("steps until chains are right")
    for number, pool in enumerate(pools):
        label = "fresh examples" if pool == FRESH else f"pool of {pool:,}"
        panels[0, 0].plot([], [], "o", color=colour(number), markersize=3.5, linestyle="none", label=label)
    triangle_key(panels[0, 0])
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=len(pools) + 1)
    seeds, shape = len({record.seed for record in records}), config.model
    text = f"{shape.layers} layers of width {shape.width}, batch {config.batch}, Adam {config.learning_rate:g}"
    found = []
    for every_step, words in ((False, "the answer alone"), (True, "every step labelled")):
        own = [record for task in tasks for record in of_task(records, task, every_step)]
        parts = [[r for r in own if bool(r.config.samples) == pooled] for pooled in (True, False)]
        shares = [f"{hits(part).reached} of {len(part)}" for part in parts if part]
        found.append(f"{' and '.join(shares)} with {words}")
    titled(
        figure,
        f"Runs that learn from pools and from fresh examples: {', '.join(found)}",
        f"{text}; {seeds} seeds; bar: median; dotted: nothing seen twice",
    )
    return figure


def draw_pool(axes: Any, pool: float, group: Sequence[Any], hue: str) -> None:
    """The runs of one pool, side by side so that none hides another, and their median where half succeed."""
    found = hits(group)
    spread = np.geomspace(0.85, 1.18, len(group)) if len(group) > 1 and pool != FRESH else np.ones(len(group))
    seen = spread * [distinct(record, steps) for record, steps in zip(group, found.times, strict=True)]
    for censored, marker, face in ((False, "o", hue), (True, "^", "none")):
        chosen = found.censored == censored
        style = {"color": hue, "markerfacecolor": face, "markersize": 3.5, "alpha": 0.75, "linestyle": "none"}
        axes.plot(seen[chosen], found.times[chosen], marker, **style)
    middle = median(group)
    if np.isfinite(middle):
        at = distinct(group[0], middle)
        axes.plot([at / 1.5, at * 1.5], [middle, middle], color=hue)
