"""Sample sizes, value matrices, the compact code, and what gradients see of the hidden permutations."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stairwise.lab.contract.plots import COLUMN, colour, grouped, subplots, titled
from stairwise.papers.composition.figures.after_steps import hops, size
from stairwise.train.stage import LOST

FLOOR = 1e-4  # a share of wrong tokens below this is drawn here


# --- sample sizes -----------------------------------------------------------------------------------------------------


def thresholds(records: Sequence[Any]):
    """The share of wrong attention in the worst layer against M, and M* against kN(L+1)^2."""
    figure, (left, right) = subplots(1, 2, figsize=(2 * COLUMN, 2.7))
    groups = grouped(records, lambda record: size(record.config))
    for number, (label, chosen) in enumerate(groups.items()):
        _wrong(left, chosen, "wrong", label, number)
        _needed(right, chosen, "wrong", label, number)
    left.set(xlabel="samples M", ylabel="wrong attention, worst layer", title="by samples")
    units = np.array([record.config.unit for record in records])
    line = np.array([0.8 * units.min(), 1.2 * units.max()])
    right.plot(line, 32 * line, ":", color="grey", linewidth=1, label="32 kN(L+1)²")
    right.set(xscale="log", yscale="log", xlabel="kN(L+1)²", ylabel="M*, samples without error")
    right.set_title("by size")
    right.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=6)
    needed = [(first_right(record, "wrong"), record.config.unit) for record in records]
    times = [samples / unit for samples, unit in needed if samples]
    found = f" from {min(times):.2g} to {max(times):.2g} times kN(L+1)² samples on" if times else ""
    titled(
        figure,
        f"No token attends to a wrong key{found} in {len(times)} of {len(records)} runs",
        f"{_seeds(records)}; left: bottom row: none wrong; right: open: not reached",
    )
    return figure


def sharing(records: Sequence[Any]):
    """M* of every layer above the first, with and without averaging over positions."""
    groups = grouped(records, lambda record: size(record.config))
    figure, (left, right) = subplots(1, 2, figsize=(2 * COLUMN, 2.7))
    largest = max(groups.values(), key=lambda chosen: chosen[0].config.unit)
    last = largest[0].config.task.layers
    _wrong(left, largest, f"wrong layer {last}", "each position by itself", 0)
    _wrong(left, largest, f"wrong layer {last} shared", "shared by all positions", 1)
    left.set(xlabel="samples M", ylabel=f"wrong attention, layer {last}", title=size(largest[0].config))
    left.legend(loc="upper center", bbox_to_anchor=(0.5, -0.25), fontsize=6, ncols=2)
    every: list[float] = []
    for number, (label, chosen) in enumerate(groups.items()):
        places, ratios = [], []
        for layer in range(2, chosen[0].config.task.layers + 1):
            for record in chosen:
                alone, together = (first_right(record, f"wrong layer {layer}{s}") for s in ("", " shared"))
                if alone and together:
                    places.append(layer + 0.06 * number)
                    ratios.append(alone / together)
        every += ratios
        right.plot(places, ratios, "o", color=colour(number), alpha=0.6, markersize=4, label=label)
        right.axhline(chosen[0].config.task.blocks, color=colour(number), linestyle=":", linewidth=0.8)
    right.set(yscale="log", xlabel="layer", ylabel="M* alone / M* shared", title="all sizes")
    right.set_yticks([1, 2, 4, 8, 16], ["1", "2", "4", "8", "16"])
    right.minorticks_off()
    right.set_xticks(range(2, max(r.config.task.layers for r in records) + 1))
    right.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=6)
    less = f"takes {np.median(every):.2g} times fewer samples (median)" if every else "by size"
    titled(
        figure,
        f"Averaging over positions {less}",
        f"{_seeds(records)}; M*: first measurement without error; dotted: k, what k times less noise gives",
    )
    return figure


def _seeds(records: Sequence[Any]) -> str:
    seeds = len({record.seed for record in records})
    return f"{seeds} seed{'s' if seeds != 1 else ''}, all shown"


def _wrong(axes: Any, records: Sequence[Any], name: str, label: str, number: int) -> None:
    for place, record in enumerate(records):
        samples, wrong = record.series("samples")[1], record.series(name)[1]
        axes.plot(
            samples,
            np.maximum(wrong, FLOOR),
            "o-",
            color=colour(number),
            alpha=0.6,
            linewidth=0.8,
            markersize=2.5,
            label=label if place == 0 else None,
        )
    axes.set(xscale="log", yscale="log", ylim=(0.7 * FLOOR, 1.3))


def _needed(axes: Any, records: Sequence[Any], name: str, label: str, number: int) -> None:
    for place, record in enumerate(records):
        needed = first_right(record, name)
        axes.plot(
            record.config.unit * 1.03 ** (place - 1),
            needed or record.series("samples")[1][-1],
            "o",
            color=colour(number),
            mfc=colour(number) if needed else "none",
            markersize=4.5,
            alpha=0.8,
            label=label if place == 0 else None,
        )


def first_right(record: Any, name: str) -> float | None:
    """The first M from which on no look finds a wrong token."""
    samples, wrong = record.series("samples")[1], record.series(name)[1]
    late = np.flatnonzero(wrong > 0)
    first = late[-1] + 1 if late.size else 0
    return float(samples[first]) if first < len(samples) else None


# --- value matrices ---------------------------------------------------------------------------------------------------


def signs(V: np.ndarray, blocks: int) -> np.ndarray:
    """a_i - b_i of every position: the factor by which V multiplies the first layer's signal."""
    alphabet = len(V) // blocks
    w = V.reshape(blocks, alphabet, blocks, alphabet).sum(axis=0)  # row letter s, column (i, u)
    same = np.einsum("sis->i", w) / alphabet
    other = (w.sum(axis=(0, 2)) - alphabet * same) / (alphabet * (alphabet - 1))
    return same - other


def values(records: Sequence[Any]):
    """After one step with V = cI + noise: tokens that attend to the right key, and positions with a_i > b_i."""
    chosen = [record for record in records if record.config.values.noise > 0]
    config = chosen[0].config
    figure, axes = subplots(figsize=(1.2 * COLUMN, 2.6))
    scales = sorted({record.config.values.scale for record in chosen})
    kinds = {
        "tokens that attend to the right key": lambda r: r.final("attending layer 1"),
        "positions with $a_i > b_i$": lambda r: np.mean(signs(r.array("exact/value1"), r.config.task.blocks) > 0),
    }
    for number, (label, value) in enumerate(kinds.items()):
        rows = [[value(r) for r in chosen if r.config.values.scale == scale] for scale in scales]
        for scale, row in zip(scales, rows, strict=True):
            axes.plot([scale] * len(row), row, "os"[number], color=colour(number), alpha=0.5, markersize=4)
        axes.plot(
            scales, [np.mean(row) for row in rows], "-" if number == 0 else "--", color=colour(number), label=label
        )
    axes.set(xlabel="c of V = cI + Gaussian(1/kN)", ylabel="share after the first step", ylim=(-0.03, 1.05))
    axes.legend(loc="upper left", bbox_to_anchor=(0.0, -0.2), fontsize=6)
    shares = {c: np.mean([r.final("attending layer 1") for r in chosen if r.config.values.scale == c]) for c in scales}
    none, whole = min(scales, key=abs), max(scales)
    titled(
        figure,
        f"One step puts {shares[none]:.2f} of tokens on the right key at c = {none:g},"
        f" {shares[whole]:.2f} at c = {whole:g} (means)",
        f"{size(config)}, M={config.samples:,}; a dot is a seed, lines are means",
    )
    return figure


def trained_values(records: Sequence[Any]):
    """Final accuracy of every head against the rate of V."""
    chosen = [record for record in records if record.config.values.noise == 0]
    config = chosen[0].config
    rates = sorted({record.config.values.rate for record in chosen})
    figure, axes = subplots(figsize=(1.2 * COLUMN, 2.6))
    for number, layer in enumerate(config.task.plan):
        rows = [
            [r.final(f"accuracy {hops(layer.hops)}") for r in chosen if r.config.values.rate == rate] for rate in rates
        ]
        for place, row in enumerate(rows):
            axes.plot([place + 0.05 * number] * len(row), row, "o", color=colour(number), alpha=0.5, markersize=4)
        axes.plot(range(len(rates)), [np.median(row) for row in rows], color=colour(number), label=hops(layer.hops))
    axes.axhline(1 / config.task.alphabet, color="grey", linestyle=":", linewidth=0.8)
    axes.set_xticks(range(len(rates)), ["frozen" if rate == 0 else f"{rate:g}" for rate in rates])
    axes.set(xlabel="learning rate of V over that of $W_{KQ}$", ylabel="held-out accuracy at the end", ylim=(0, 1.05))
    axes.legend(loc="upper right")
    lost = {rate: sum(r.status in LOST for r in chosen if r.config.values.rate == rate) for rate in rates}
    moved = [rate for rate in rates if rate and not lost[rate]]
    still = f", none at {' and '.join(f'{rate:g}' for rate in moved)}" if moved else ""
    worst = next((rate for rate in rates if lost[rate]), None)
    found = f"{sum(lost.values())} runs are lost when values train at {worst:g} of the keys' rate or more{still}"
    titled(
        figure,
        found if worst is not None else "No run is lost when values are trained along with keys",
        f"{size(config)}, V starts at the identity; a dot is a seed, lines are medians;"
        " dotted: chance, where lost runs are drawn",
    )
    return figure


# --- the compact code -------------------------------------------------------------------------------------------------


def sparse(records: Sequence[Any]):
    """The share of tokens that attend to the right key, layer by layer, at the end of Algorithm 1."""
    arms = grouped(records, lambda record: record.arm)
    figure, axes = subplots(figsize=(1.3 * COLUMN, 2.6))
    layers = range(1, records[0].config.task.layers + 1)
    for number, (arm, chosen) in enumerate(arms.items()):
        rows = [[record.final(f"attending layer {layer}") for record in chosen] for layer in layers]
        for layer, row in zip(layers, rows, strict=True):
            axes.plot([layer + 0.04 * number] * len(row), row, "o", color=colour(number), alpha=0.5, markersize=4)
        axes.plot(layers, [np.median(row) for row in rows], "-", color=colour(number), label=arm)
    config = records[0].config
    axes.set(xlabel="layer", ylabel="tokens that attend to the right key", ylim=(0, 1.05))
    axes.set_xticks(layers)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=6)
    last = {
        arm: np.median([record.final(f"attending layer {layers[-1]}") for record in chosen])
        for arm, chosen in arms.items()
    }
    best, worst = max(last, key=lambda arm: last[arm]), min(last, key=lambda arm: last[arm])
    titled(
        figure,
        f"In the last layer {last[best]:.2f} of tokens are on the right key ({best}),"
        f" {last[worst]:.2f} with {worst} (medians)",
        f"{size(config)}, M={config.samples:,}; a dot is a seed; m: permutations that move",
    )
    return figure


# --- hardness ---------------------------------------------------------------------------------------------------------


def hardness(records: Sequence[Any]):
    """Variance over pi of a gradient coordinate over its query's norm: the largest and the mean, against the bound."""
    figure, axes = subplots(figsize=(1.3 * COLUMN, 3.2))
    bound = {record.config.hops: record.final("eigenvalue") for record in records}
    axes.plot(sorted(bound), [bound[k] for k in sorted(bound)], "k-", label="bound $1/(N(N-1)^{2k-1})$")
    for number, (network, chosen) in enumerate(grouped(records, lambda record: record.config.network).items()):
        for name, dash, marker in (("largest ratio", "-", "o"), ("mean ratio", ":", "s")):
            counts = sorted({record.config.hops for record in chosen})
            rows = [[record.final(name) for record in chosen if record.config.hops == k] for k in counts]
            for k, row in zip(counts, rows, strict=True):
                axes.plot([k] * len(row), row, marker, color=colour(number), alpha=0.5, markersize=4)
            label = f"{network}, {name.replace('ratio', 'coordinate' if 'largest' in name else 'over coordinates')}"
            axes.plot(counts, [np.median(row) for row in rows], dash, color=colour(number), label=label)
    config = records[0].config
    axes.set(yscale="log", xlabel="composed blocks k", ylabel="variance over hidden permutations / norm²")
    axes.set_xticks(sorted(bound))
    largest = max(record.final("largest ratio") / bound[record.config.hops] for record in records)
    axes.legend(loc="lower left", fontsize=6)
    titled(
        figure,
        f"Gradients vary with the hidden permutations by {largest:.2g} of the bound at most",
        f"random networks, N={config.alphabet}, exact enumeration; a dot is a seed",
    )
    return figure
