"""Beyond the paper: several secret bits a step, and wrong steps."""

from collections.abc import Sequence
from math import comb
from typing import Any

import numpy as np

from stairwise.lab.contract.plots import COLUMN, colour, subplots, titled
from stairwise.measure.complexity import kaplan_meier
from stairwise.papers.parity_cot.figures.run_dots import (
    COT,
    NO_COT,
    chain_text,
    median_line,
    run_dots,
    setting,
    triangle_key,
)
from stairwise.papers.parity_cot.runs import grouped, hits, where


def steps(records: Sequence[Any]):
    """Samples against the bits g that a step adds, next to C(n, g): the subsets that a step must be told from."""
    figure, axes = subplots(figsize=(1.5 * COLUMN, 2.7))
    for number, (order, chosen) in enumerate(grouped(records, lambda c: c.task.order).items()):
        by_bits = {g: hits(group) for g, group in grouped(chosen, lambda c: c.task.absorbed).items()}
        for place, (g, found) in enumerate(by_bits.items()):
            run_dots(axes, g * 1.06**number, found, colour(number), 0.05 * g, f"{order} order" if place == 0 else None)
        median_line(axes, list(by_bits), list(by_bits.values()), colour(number), linewidth=1)
    n, bits = records[0].config.task.bits, sorted({record.config.task.absorbed for record in records})
    start = kaplan_meier(hits(where(records, lambda c: c.task.absorbed == bits[0]))).median().value
    law = [start * comb(n, g) / comb(n, bits[0]) for g in bits]
    axes.plot(bits, law, ":", color="grey", linewidth=0.9, label="in proportion to C(n, g)")
    triangle_key(axes)
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="secret bits that a step adds, g",
        ylabel="samples until all is right",
    )
    learnt = [hits(where(records, lambda c, g=g: c.task.absorbed == g)) for g in bits]
    shares = ", ".join(f"{found.reached}/{len(found.times)}" for found in learnt)
    titled(
        figure,
        f"Runs that learn with {', '.join(map(str, bits))} secret bits per step: {shares}",
        f"k={records[0].config.task.size}; {setting(records)}",
    )
    axes.set_xticks(bits, [str(g) for g in bits])
    axes.minorticks_off()
    axes.legend(fontsize=6)
    return figure


def noise(records: Sequence[Any]):
    """Samples against the chance rho of a wrong step; the signal shrinks by 1 - 2 rho, so its square is the law."""
    figure, axes = subplots(figsize=(1.6 * COLUMN, 2.7))
    costs = []
    for cot, hue in ((True, COT), (False, NO_COT)):
        chosen = where(records, lambda c, cot=cot: c.task.cot == cot)
        if not chosen:
            continue
        by_noise = {rho: hits(group) for rho, group in grouped(chosen, lambda c: c.task.noise).items()}
        for rho, found in by_noise.items():
            run_dots(axes, rho, found, hue, 0.004)
        label = f"{chain_text(cot)}, k={chosen[0].config.task.size}"
        first, last = (kaplan_meier(by_noise[rho]).median().value for rho in (min(by_noise), max(by_noise)))
        costs.append(f"{last / first:.2g} times {chain_text(cot)}")
        median_line(axes, list(by_noise), list(by_noise.values()), hue, linewidth=1, label=label)
        x = np.linspace(0, max(by_noise), 50)
        axes.plot(
            x, kaplan_meier(by_noise[min(by_noise)]).median().value / (1 - 2 * x) ** 2, ":", color=hue, linewidth=0.9
        )
    axes.plot([], [], ":", color="grey", label="noiseless / (1 - 2 rho)^2")
    triangle_key(axes)
    axes.set(
        yscale="log",
        xlabel="chance of a wrong step, rho",
        ylabel="samples until all is right",
    )
    axes.legend(fontsize=6, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    most = max(record.config.task.noise for record in records)
    law = f"the law says {1 / (1 - 2 * most) ** 2:.2g}"
    titled(
        figure, f"{most:.0%} of wrong steps take more samples: {', '.join(costs)}; {law} (medians)", setting(records)
    )
    return figure
