"""Three panels: samples to success, twice the length, entropy."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stairwise.lab.contract.plots import COLUMN, colour, subplots, titled
from stairwise.papers.crossings.drawing import plain_log
from stairwise.papers.crossings.hits import hits
from stairwise.papers.crossings.retrieval.config import KINDS
from stairwise.papers.crossings.retrieval.runs import cells
from stairwise.papers.parity_cot.figures.run_dots import median_line, run_dots, triangle_key


def by_name_and_place(records: Sequence[Any]):
    """Every run at the rate chosen for its kind and length; lines: medians."""
    figure, (samples, further, sharp) = subplots(1, 3, figsize=(2.4 * COLUMN, 2.9))
    lengths = sorted({record.config.length for record in records})
    gap = min(np.diff(lengths), default=1)
    for number, kind in enumerate(KINDS):
        own = {length: group for (found, length), group in cells(records).items() if found == kind}
        places = [length + 0.12 * gap * (2 * number - 1) for length in own]
        found = [hits(group) for group in own.values()]
        for place, one in zip(places, found, strict=True):
            run_dots(samples, place, one, colour(number), 0.05 * gap)
        median_line(samples, places, found, colour(number), alpha=0.6)
        for axes, name in ((further, "beyond"), (sharp, "entropy")):
            values = [[record.final(name) for record in group] for group in own.values()]
            for place, column in zip(places, values, strict=True):
                axes.plot([place] * len(column), column, "o", color=colour(number), markersize=3.5, alpha=0.75)
            axes.plot(places, [np.median(column) for column in values], color=colour(number), alpha=0.6)
        samples.plot([], [], "o-", color=colour(number), markersize=3.5, label=f"found by {kind}")
    triangle_key(samples)
    samples.set(yscale="log", ylabel="sentences until all is right")
    plain_log(samples.yaxis)
    further.plot(lengths, [2.0**-length for length in lengths], ":", color="grey", label="guessing the last L")
    further.set(ylabel="exact match at 2L", ylim=(-0.05, 1.05))
    further.legend(loc="center right", fontsize=6)
    sharp.set(ylabel="normalised attention entropy", ylim=(0, 1))
    for axes in (samples, further, sharp):
        axes.set_xlabel("steps L of training")
        axes.set_xticks(lengths)
    handles, labels = samples.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    seeds = len({record.seed for record in records})
    beyond = []
    for kind in KINDS:
        own = [record for (found, _), group in cells(records).items() if found == kind for record in group]
        beyond.append(f"{np.median([record.final('beyond') for record in own]):.2f} found by {kind}")
    titled(
        figure,
        f"Share of sentences right at twice the length of training: {', '.join(beyond)} (medians)",
        f"running parity of L bits among 2L clauses; {seeds} seeds; lines: medians",
    )
    return figure
