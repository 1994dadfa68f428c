"""Entropy of the heads and accuracy over training (Figures 1b, 5, 11)."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stairwise.lab.contract.plots import COLUMN, DASHES, colour, subplots, titled
from stairwise.papers.parity_cot.figures.run_dots import chain_text, pool_text, setting
from stairwise.papers.parity_cot.runs import final_heads, grouped, jump, per_head, trace, where

SPARSE = 0.2  # a head with a lower entropy (eq. 1) is called sparse


def draw_traces(upper: Any, lower: Any, records: Sequence[Any]) -> None:
    """Entropy (eq. 1) of every first-layer head of every run, and accuracy below: a colour and a dash for each head."""
    for record in records:
        samples, entropies = per_head(record, "entropy")
        for head in range(record.config.model.heads):
            upper.plot(
                samples[1:],
                entropies[head, 1:],
                color=colour(head),
                linestyle=DASHES[head % 4],
                linewidth=0.6,
                alpha=0.8,
            )
        when, exact = trace(record, "exact match")
        lower.plot(when[1:], exact[1:], color="black", linewidth=0.7, alpha=0.7)
    upper.set(xscale="log", ylim=(-0.03, 1.03))
    lower.set(xscale="log", ylim=(-0.03, 1.03), xlabel="samples")
    from matplotlib.ticker import NullFormatter

    lower.xaxis.set_minor_formatter(NullFormatter())


def columns(records: Sequence[Any], parts: dict[str, list[Any]]):
    figure, panels = subplots(2, len(parts), figsize=(2 * COLUMN, 3.8), sharex="col", sharey="row", squeeze=False)
    for column, (title, chosen) in enumerate(parts.items()):
        draw_traces(panels[0, column], panels[1, column], chosen)
        panels[0, column].set_title(title)
    panels[0, 0].set_ylabel("entropy (eq. 1), layer 1")
    panels[1, 0].set_ylabel("exact match")
    for panel in panels[0]:
        panel.title.set_fontsize(7)
    lines = f"{setting(records)}; every line one run (upper: one head of it)"
    titled(figure, f"First-layer heads end at an entropy of {_by_outcome(records)} (medians)", lines)
    return figure


def _by_outcome(records: Sequence[Any]) -> str:
    """The median entropy of first-layer heads at the end, of runs that learn and of those that do not."""
    found = []
    for reached, words in ((True, "learn"), (False, "do not")):
        chosen = [record for record in records if (record.status == "reached") == reached]
        if chosen:
            ends = [per_head(record, "entropy")[1][: record.config.model.heads, -1] for record in chosen]
            found.append(f"{np.median(ends):.2f} in the {len(chosen)} runs that {words}")
    return ", ".join(found)


def chains(records: Sequence[Any]):
    """Figure 1b: at k=3 (or the largest k that both arms have) the heads turn sparse as accuracy rises."""
    sizes = [
        {r.config.task.size for r in where(records, lambda c, cot=cot: c.task.cot == cot)} for cot in (True, False)
    ]
    shared = sorted(sizes[0] & sizes[1])
    size = 3 if 3 in shared else shared[-1]
    rate = max(record.config.learning_rate for record in records)
    chosen = where(records, lambda config: config.task.size == size and config.learning_rate == rate)
    by_chain = grouped(chosen, lambda config: config.task.cot)
    return columns(chosen, {f"k={size}, {chain_text(cot)}": by_chain[cot] for cot in (True, False)})


def by_size(records: Sequence[Any]):
    """The decoders that were kept, by the size of the secret."""
    sizes = grouped(records, lambda config: config.task.size)
    return columns(records, {f"k={size}, {chain_text(True)}": group for size, group in sizes.items()})


def by_pool(records: Sequence[Any]):
    """Figure 5: the largest model, by the size of the training set."""
    largest = max((record.config.model.layers, record.config.model.heads) for record in records)
    chosen = where(records, lambda config: (config.model.layers, config.model.heads) == largest)
    pools = grouped(chosen, lambda config: config.samples or float("inf"))
    parts = {}
    for group in pools.values():
        reached = sum(record.status == "reached" for record in group)
        parts[f"{pool_text(group[0].config.samples)}: {reached} of {len(group)} learn"] = group
    return columns(chosen, parts)


def aligned(records: Sequence[Any]):
    """Figure 11: successful runs, aligned at the jump of accuracy; and where the heads look in every run."""
    figure, (left, right) = subplots(1, 2, figsize=(2 * COLUMN, 3.1))
    for record in [record for record in records if record.status == "reached"]:
        moment, _ = jump(record)
        samples, entropies = per_head(record, "entropy")
        when, exact = trace(record, "exact match")
        left.plot(samples[1:] / moment, entropies.mean(axis=0)[1:], color=colour(0), linewidth=0.7, alpha=0.6)
        left.plot(when[1:] / moment, exact[1:], color=colour(1), linewidth=0.7, alpha=0.6)
    left.plot([], [], color=colour(0), label="mean entropy of the heads (eq. 1)")
    left.plot([], [], color=colour(1), label="exact match")
    left.set(
        xscale="log", xlabel="samples, as a share of those at the jump", ylim=(-0.03, 1.03), title="successful runs"
    )
    for number, (reached, words) in enumerate(((True, "learnt"), (False, "not learnt"))):
        chosen = [record for record in records if (record.status == "reached") == reached]
        if chosen:
            entropy = np.concatenate([final_heads(record, "entropy").ravel() for record in chosen])
            mass = np.concatenate([final_heads(record, "mass").ravel() for record in chosen])
            right.plot(
                entropy,
                mass,
                "o^"[number],
                color=colour(number),
                markersize=3,
                alpha=0.6,
                label=words,
                linestyle="none",
                markerfacecolor=colour(number) if reached else "none",
            )
    right.set(
        xlabel="final entropy of a head (eq. 1)",
        ylabel="its attention to the secret",
        ylim=(-0.03, 1.03),
        title="every head of every run",
    )
    left.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), fontsize=6)
    right.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), fontsize=6, ncols=2)
    found = []
    for reached, words in ((True, "learn"), (False, "do not")):
        ends = [(final_heads(record, "entropy").ravel(), final_heads(record, "mass").ravel())
                for record in records if (record.status == "reached") == reached]  # fmt: skip
        looks = np.concatenate([mass[entropy < SPARSE] for entropy, mass in ends]) if ends else np.array([])
        found += [f"{np.median(looks):.2f} of their attention in runs that {words}"] if len(looks) else []
    titled(
        figure,
        f"Heads with an entropy below {SPARSE:g} give the secret {', '.join(found)} (medians)"
        if found
        else "No head has turned sparse",
        setting(records),
    )
    return figure
