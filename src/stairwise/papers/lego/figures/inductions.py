"""Until when each part of the induction hypotheses holds along a run, drawn from stored records."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stairwise.lab.contract.plots import COLUMN, colour, grouped, subplots, titled
from stairwise.papers.lego.theory import inductions

OF = {
    "2.1": "Induction D.1",
    "2.2": "Induction D.2",
    "2.3": "Induction D.3",
    "1.2.1": "Induction E.1",
    "1.2.2": "Induction E.2",
}


def parts(record: Any) -> list[tuple[str, str, np.ndarray, int]]:
    """(stage, part, the steps of the stage, for how many of them it holds) of one run."""
    config = record.config
    steps, _ = record.series("a")
    scores = np.stack([record.series(name)[1] for name in "abce"], axis=1)
    factor = config.network.clip_factor
    found = inductions.stages(scores, config.vocabulary, factor, 1 in config.supervised)
    return [
        (stage, part, steps[times], inductions.until(fact[times]))
        for stage, times in found.items()
        if len(times)
        for part, fact in inductions.HYPOTHESES[stage](scores, config.vocabulary, factor).items()
    ]


def held(records: Sequence[Any]):
    """One panel per action: a bar per part over the steps of its stage, dark while it holds, light after."""
    groups = grouped(records, lambda record: record.config.action)
    rows = {action: parts(some[0]) for action, some in groups.items()}  # the descent is exact: seeds are alike
    heights = [0.24 * len(each) + 0.7 for each in rows.values()]
    figure, panels = subplots(
        len(groups), 1, figsize=(2.0 * COLUMN, sum(heights)), squeeze=False, gridspec_kw={"height_ratios": heights}
    )
    for panel, (action, found) in zip(panels.flatten(), rows.items(), strict=True):
        for place, (stage, _, steps, count) in enumerate(found):
            shade = colour(list(OF).index(stage) % 3)
            begin, end = steps[0] + 1, steps[-1] + 1
            panel.plot([begin, end], [place, place], color=shade, alpha=0.25, linewidth=5, solid_capstyle="butt")
            if count:
                panel.plot(
                    [begin, steps[count - 1] + 1], [place, place], color=shade, linewidth=5, solid_capstyle="butt"
                )
            if count < len(steps):
                panel.plot([steps[count] + 1], [place], "x", color="black", markersize=4)
        panel.set_yticks(range(len(found)), [f"{OF[stage]} {part}" for stage, part, _, _ in found], fontsize=6)
        panel.invert_yaxis()
        panel.set(xscale="log", title=action, xlabel="step + 1")
    ends = [count == len(steps) for found in rows.values() for _, _, steps, count in found]
    titled(
        figure,
        f"{sum(ends)} of {len(ends)} parts of the induction hypotheses hold to the end of their stage",
        "bar: the stage, dark while the part holds; cross: where it fails",
    )
    return figure
