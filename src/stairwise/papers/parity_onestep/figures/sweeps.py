"""The one step against one quantity at a time: samples, bits, logit, link, noise."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stairwise.lab.contract.plots import COLUMN, colour, grouped, subplots, titled
from stairwise.papers.parity_onestep.boundary import curve
from stairwise.papers.parity_onestep.figures.seed_dots import FLOOR, count, dots, finals, sizes

CURVATURE = 4.0  # c of the link poly4
ERRORS = (("nodes sup", "largest over all nodes", "o"), ("root sup", "root", "s"))


def scaling(records: Sequence[Any]):
    """Error against n with the law of the imbalance; error against d at n = d^2.5 with the theorem's rate."""
    arms = grouped(records, lambda record: record.config.task.bits)
    figure, (left, right) = subplots(1, 2, figsize=(2 * COLUMN, 2.8))
    for number, (bits, chosen) in enumerate(arms.items()):
        counts = curve(chosen[0], "nodes sup")[0]
        errors = np.array([curve(record, "nodes sup")[1] for record in chosen])
        dots(left, counts, errors.T, f"d={bits}", number)
        predicted = [CURVATURE * np.tanh(curve(record, "imbalance")[1] / 2) ** 2 for record in chosen]
        left.plot(counts, np.median(predicted, axis=0), ":", color=colour(number), linewidth=1)
    left.plot([], [], ":", color="grey", label="$c\\,\\tanh^2(\\max\\Delta/2)$")
    counts = curve(records[0], "nodes sup")[0]
    left.plot(counts, 0.25 * counts[-1] / counts * 0.02, "--", color="grey", linewidth=0.8, label="slope -1")
    left.set(xscale="log", yscale="log", ylim=(1e-4, 4), xlabel="samples n", ylabel="largest error over all nodes")
    left.set_title("by samples")
    left.legend(fontsize=6, loc="lower left")
    at = {bits: int(np.argmin(np.abs(np.log(counts) - 2.5 * np.log(bits)))) for bits in arms}
    for number, (name, label, marker) in enumerate(ERRORS):
        rows = [[curve(record, name)[1][at[bits]] for record in chosen] for bits, chosen in arms.items()]
        dots(right, list(arms), rows, label, number, marker)
    reference = np.array(list(arms), dtype=float)
    right.plot(reference, reference ** (-0.5 / 8), "--", color="grey", linewidth=0.8, label="$d^{-\\epsilon/8}$")
    right.set(xscale="log", yscale="log", xlabel="bits d", ylabel="sup error on fresh inputs")
    right.set_xticks(list(arms), [str(bits) for bits in arms], minor=False)
    right.minorticks_off()
    right.set_title("by bits, at the tried n nearest to $d^{2.5}$ ($\\epsilon = 1/2$)")
    right.legend(fontsize=6)
    ratios = []
    for record in records:
        law = CURVATURE * np.tanh(curve(record, "imbalance")[1][-1] / 2) ** 2
        ratios.append(curve(record, "nodes sup")[1][-1] / law)
    titled(
        figure,
        f"With the most samples the error is {np.median(ratios):.2f} times its law c tanh²(max Δ/2) (median)",
        f"k = d/2, lam = ln d + 6; {len({record.seed for record in records})} seeds: dots; lines: medians",
    )
    return figure


def dimension(records: Sequence[Any]):
    """Error against d at fixed n and k."""
    arms = grouped(records, lambda record: record.config.task.bits)
    figure, axes = subplots(figsize=(1.3 * COLUMN, 2.8))
    for number, (name, label) in enumerate((("nodes sup", "largest over all nodes"), ("root sup", "root"))):
        dots(
            axes, list(arms), [[r.final(name) for r in chosen] for chosen in arms.values()], label, number, "os"[number]
        )
    predicted = [np.median([CURVATURE * np.tanh(r.final("imbalance") / 2) ** 2 for r in a]) for a in arms.values()]
    axes.plot(list(arms), predicted, ":", color="grey", label="$c\\,\\tanh^2(\\max\\Delta/2)$")
    axes.set(xscale="log", yscale="log", xlabel="bits d", ylabel="sup error on fresh inputs")
    axes.set_xticks(list(arms), [str(bits) for bits in arms])
    axes.minorticks_off()
    config = records[0].config
    worst = min(record.final("accuracy") for record in records)
    axes.legend(loc="lower left", fontsize=6)
    titled(
        figure,
        f"One step at k = {config.task.size} up to d = {max(arms)}: lowest accuracy {worst:g}",
        f"n={count(config.samples)}, lam = ln d + 12; {len(records) // len(arms)} seeds: dots; lines: medians",
    )
    return figure


def lam(records: Sequence[Any]):
    """Error against lam, with its two causes: leakage of attention, and children torn apart."""
    arms = grouped(records, lambda record: record.config.rate.lam)
    figure, (left, right) = subplots(1, 2, figsize=(2 * COLUMN, 2.6))
    for number, (name, label) in enumerate((("nodes sup", "largest over all nodes"), ("root sup", "root"))):
        dots(
            left, list(arms), [[r.final(name) for r in chosen] for chosen in arms.values()], label, number, "os"[number]
        )
    left.set(yscale="log", xlabel="logit lam", ylabel="sup error on fresh inputs")
    config = records[0].config
    left.set_title("error")
    left.legend()
    for number, (name, label) in enumerate((("imbalance", "imbalance $\\max\\Delta$"), ("leakage", "leakage"))):
        dots(right, list(arms), finals(arms, name), label, number + 2, "os"[number])
    right.set(yscale="log", xlabel="logit lam", ylabel="worst node", title="its causes: children torn apart, leakage")
    right.legend()
    medians = {value: float(np.median([r.final("root sup") for r in chosen])) for value, chosen in arms.items()}
    titled(
        figure,
        f"One step errs least at a logit of {min(medians, key=lambda value: medians[value]):g}",
        f"{sizes(config)}, n={count(config.samples)}; {len(records) // len(arms)} seeds: dots; lines: medians",
    )
    return figure


def link(records: Sequence[Any]):
    """Error against the realised root logit, and the nominal logit behind it."""
    arms = grouped(records, lambda record: _link_name(record.config))
    figure, (left, right) = subplots(1, 2, figsize=(2 * COLUMN, 2.8))
    for number, (name, chosen) in enumerate(arms.items()):
        by_lam = grouped(chosen, lambda record: record.config.rate.lam)
        rows = finals(by_lam, "root sup")
        realised = [float(np.median([record.final("root logit") for record in some])) for some in by_lam.values()]
        dots(left, realised, rows, name, number, "osD^v"[number % 5])
        dots(right, realised, finals(by_lam, "nominal logit"), name, number, "osD^v"[number % 5])
    left.set(yscale="log", xlabel="realised root logit", ylabel="root sup error")
    config = records[0].config
    left.set_title("error")
    ends = right.get_xlim()
    right.plot(ends, ends, "--", color="grey", linewidth=0.8, label="equal")
    right.set(
        xlabel="realised root logit", ylabel="nominal logit $2c\\eta/V^2$", title="what the leading order promises"
    )
    right.legend(fontsize=6, loc="upper left")
    least = {}
    for name, chosen in arms.items():
        by_lam = grouped(chosen, lambda record: record.config.rate.lam)
        least[name] = min(np.median(row) for row in finals(by_lam, "root sup"))
    best, worst = (chosen(least, key=lambda name: least[name]) for chosen in (min, max))
    titled(
        figure,
        f"At its best logit the link {worst} errs {least[worst] / least[best]:.2g} times as much as {best} (medians)",
        f"{sizes(config)}, n={count(config.samples)}; {len({r.seed for r in records})} seeds: dots; lines: medians",
    )
    return figure


def _link_name(config: Any) -> str:
    return config.link.name if config.link.name != "requ" else f"requ({config.link.slope:g})"


def noise(records: Sequence[Any]):
    """Root error against the strength of the adversarial oracle, without and with saturating weights."""
    panels = grouped(records, lambda record: record.config.quantiser.kind)
    figure, axes = subplots(1, len(panels), figsize=(2 * COLUMN, 2.6), sharey=True, squeeze=False)
    titles = {"none": "no quantiser (Theorem 5)", "saturating": "saturating weights (extension)"}
    for panel, (kind, chosen) in zip(axes[0], panels.items(), strict=True):
        for number, (bits, arm) in enumerate(grouped(chosen, lambda r: r.config.task.bits).items()):
            by_strength = grouped(arm, lambda record: record.config.oracle.strength)
            label = f"d={bits}, lam={arm[0].config.rate.lam:g}"
            dots(panel, list(by_strength), finals(by_strength, "root sup"), label, number, "osD^"[number % 4])
        panel.set(yscale="log", xlabel="C in  delta = C $d^{-2-\\epsilon/8}$", title=titles.get(kind, kind))
        panel.set_xscale("symlog", linthresh=0.03)
        panel.set_xlim(-0.005, 1.2)
        panel.set_xticks([0, 0.03, 0.1, 0.3, 1], ["0", "0.03", "0.1", "0.3", "1"])
        panel.minorticks_off()
        panel.axhline(2, color="grey", linewidth=0.6)
        panel.legend(fontsize=6)
    axes[0][0].set(ylabel="root sup error", ylim=(max(FLOOR, axes[0][0].get_ylim()[0]), 4))
    seeds = len({record.seed for record in records})
    found = []
    for kind, chosen in panels.items():
        cells = grouped(chosen, lambda record: (record.config.task.bits, record.config.oracle.strength))
        worst = max(np.median(row) for row in finals(cells, "root sup"))
        found.append(f"{worst:.1g} with {titles.get(kind, kind)}")
    titled(
        figure,
        f"Under adversarial noise the median error grows to {', '.join(found)}",
        f"eps=1, k=d/2, n={count(records[0].config.samples)}; {seeds} seeds: dots; lines: medians",
    )
    return figure
