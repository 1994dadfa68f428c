"""The oracle that hides the parity."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stairwise.lab.contract.plots import COLUMN, all_seeds, colour, grouped, subplots, titled


def oracle(records: Sequence[Any]):
    """Variance of the gradient over all parities; share hidden by an oracle of error eps; loss on what is hidden."""
    arms = grouped(records, lambda record: "all inputs" if record.config.samples == 0 else f"n={record.config.samples}")
    figure, (left, middle, right) = subplots(1, 3, figsize=(2.3 * COLUMN, 3.1))
    for number, (arm, chosen) in enumerate(arms.items()):
        all_seeds(left, [record.series("variance") for record in chosen], arm, colour(number), "-")
        for place, record in enumerate(chosen):
            factors = record.array("oracle/factor")
            label = arm if place == 0 else None
            marker = "osD"[number % 3]
            style = {"color": colour(number), "alpha": 0.7, "markersize": 3, "linewidth": 0.8}
            middle.plot(factors, record.array("oracle/hidden"), f"{marker}-", label=label, **style)
            right.plot(record.array("oracle/hidden"), record.array("oracle/loss"), marker, label=label, **style)
    bounds = [record.series("bound") for record in next(iter(arms.values()))]
    all_seeds(left, bounds, "Prop. 3 bound, all inputs", "black", ":")
    left.set(yscale="log", xlabel="query", ylabel="Var over all parities", title="gradient variance")
    left.legend(fontsize=6)
    config = records[0].config
    factors = np.linspace(1e-3, max(config.tolerances), 200)
    chebyshev = 1 - config.queries / factors**2
    middle.plot(factors, np.maximum(chebyshev, 0), ":", color="black", label="Chebyshev bound (0: vacuous)")
    middle.set(xlabel="oracle error eps / sqrt(max Var)", ylabel="share of parities hidden", ylim=(-0.03, 1.05))
    middle.set_title("Pr(Q)")
    middle.legend(fontsize=6)
    share = np.linspace(0.34, 1, 100)
    right.plot(share, 2 - 1 / share, ":", color="black", label="bound 2 - 1/Pr(Q)")
    right.axhline(1, color="grey", linewidth=0.6)
    right.set(xlabel="Pr(Q)", ylabel="$E_{p \\in Q,\\, x}\\,(p - f)^2$", ylim=(-1.1, 1.3), xlim=(0.3, 1.02))
    right.set_title("what the hidden run is worth")
    right.legend(fontsize=6)
    worst = max(float(record.array("oracle/differing replays")) for record in records)
    titled(
        figure,
        f"An oracle with small errors hides the parity: of the runs that it hides, {worst:.0f} differ in a bit",
        f"d={config.bits}, k={config.size}, tanh net of width {config.width}, {config.queries} queries;"
        f" {len({r.seed for r in records})} seeds",
    )
    return figure
