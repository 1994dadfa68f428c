"""Exact match against length: two actions (Figure 1a), stages of self-training (1b), positions, controls."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stairwise.lab.contract.plots import COLUMN, all_seeds, colour, grouped, seeds_note, subplots, titled
from stairwise.papers.lego.figures.length_curves import (
    curve,
    draw_curves,
    length_axis,
    lessons,
    losses,
    protocol,
    sizes,
)


def two_actions(records: Sequence[Any]):
    """Figure 1a: a row per protocol, columns with and without a residual connection, one curve per action."""
    rows = grouped(records, lambda record: lessons(record.config))
    columns = list(grouped(records, lambda record: record.config.model.attention_residual))
    actions = list(grouped(records, lambda record: record.config.task.action))
    size = (max(1.4, len(columns)) * COLUMN, 0.8 + 1.75 * len(rows))
    figure, axes = subplots(len(rows), len(columns), figsize=size, squeeze=False, sharex=True, sharey=True)
    for panels, (title, of_row) in zip(axes, rows.items(), strict=True):
        for panel, residual in zip(panels, columns, strict=True):
            chosen = [record for record in of_row if record.config.model.attention_residual == residual]
            if not chosen:
                panel.set_axis_off()
                continue
            config = chosen[0].config
            for number, action in enumerate(actions):
                runs = [record for record in chosen if record.config.task.action == action]
                draw_curves(panel, runs, config.test_lengths, action, number)
            length_axis(panel, config.test_lengths, config.task.length)
            panel.label_outer()
            panel.set_title(f"{title}\n{'' if residual else 'no '}residual around attention", fontsize=7)
        panels[0].set_ylabel("share of sentences right")
    named = axes[0][0].get_legend_handles_labels()
    figure.legend(*named, loc="outside right upper")
    trained = f"trained at the dashed length; {sizes(records[0].config)}; {seeds_note(records)}"
    titled(figure, _further(records), trained)
    return figure


def _further(records: Sequence[Any]) -> str:
    """Which action has more chains right over all lengths (mean of the medians), protocol by protocol."""
    panels = grouped(records, lambda record: protocol(record.config))
    ahead = []
    for chosen in panels.values():
        actions = grouped(chosen, lambda record: record.config.task.action)
        medians = {
            action: np.median([curve(run, run.config.test_lengths)[1] for run in runs], axis=0)
            for action, runs in actions.items()
        }
        ahead.append(max(medians, key=lambda action: medians[action].mean()))
    found = ", ".join(f"{action} in {ahead.count(action)}" for action in dict.fromkeys(ahead))
    return f"Chains come out right up to larger lengths for {found} of {len(panels)} protocols"


def controls(records: Sequence[Any]):
    """One curve an action, and the spread over seeds at the longest length."""
    return _one_panel(records, lambda record: record.config.task.action)


def positions(records: Sequence[Any]):
    """One curve a positional encoding."""
    words = {"none": "none (NoPE)", "learned": "learned", "rotary": "rotary", "randomised": "learned, randomised"}
    return _one_panel(records, lambda record: words[record.config.model.positions])


def _one_panel(records: Sequence[Any], by: Any):
    config = records[0].config
    figure, axes = subplots(figsize=(1.35 * COLUMN, 2.7))
    for number, (label, runs) in enumerate(grouped(records, by).items()):
        draw_curves(axes, runs, config.test_lengths, f"{label}, {losses(runs)}", number)
    length_axis(axes, config.test_lengths, config.task.length)
    axes.set_ylabel("all values right (greedy roll-out)")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=6)
    arms, actions = grouped(records, by), dict.fromkeys(record.config.task.action for record in records)
    right = {
        length: {label: np.median([run.final(f"exact {length}") for run in runs]) for label, runs in arms.items()}
        for length in config.test_lengths
    }
    told = max(reversed(config.test_lengths), key=lambda length: np.ptp(list(right[length].values())))
    share = right[told]
    best, worst = (chosen(share, key=lambda label: share[label]) for chosen in (max, min))
    ends = ", ".join(f"{share[label]:.2f} with {label}" for label in dict.fromkeys((best, worst)))
    found = f"Share of chains of length {told} that are right: {ends} (medians)"
    of = f"{next(iter(actions))}; " if len(actions) == 1 else ""
    titled(figure, found, f"{of}{sizes(config)}; {protocol(config)}\n{seeds_note(records)}")
    return figure


def stages(records: Sequence[Any]):
    """Figure 1b: exact match after every stage, and how many labels each stage had right."""
    config = records[0].config
    base = config.base
    lengths = [base.task.length, *config.lengths]
    figure, (left, right) = subplots(1, 2, figsize=(2 * COLUMN, 2.7), width_ratios=(1.6, 1))
    for number, length in enumerate(lengths):
        runs = [curve(record, base.test_lengths, stage=f"L={length}") for record in records]
        label = f"L={length}, {'own' if number else 'true'} labels"
        all_seeds(left, runs, label, colour(number))
        left.axvline(length, color=colour(number), linestyle="--", linewidth=0.7)
    left.set(
        xscale="log", ylim=(-0.03, 1.03), xlabel="length L of the chain", ylabel="all values right after the stage"
    )
    left.set_xticks(base.test_lengths, [str(length) for length in base.test_lengths])
    left.minorticks_off()
    left.legend(loc="upper center", bbox_to_anchor=(0.5, -0.22), ncols=4, fontsize=6)
    left.set_title("chains right by length; dashed: trained")
    right.set_title("own labels")
    for number, name in enumerate(("exact", "step")):
        runs = [curve_of_labels(record, config.lengths, name) for record in records]
        all_seeds(right, runs, {"exact": "whole sentences", "step": "single values"}[name], colour(number))
    right.set(
        xscale="log", ylim=(-0.03, 1.03), xlabel="length that a stage trains at", ylabel="own labels that are right"
    )
    right.set_xticks(config.lengths, [str(length) for length in config.lengths])
    right.minorticks_off()
    right.legend(loc="upper center", bbox_to_anchor=(0.5, -0.22), ncols=2, fontsize=6)
    before, after = (
        np.median([curve(record, base.test_lengths, stage=f"L={length}")[1] for record in records], axis=0)
        for length in (lengths[0], lengths[-1])
    )
    most = int(np.argmax(after - before))
    titled(
        figure,
        f"Self-training on {base.task.action} to L={lengths[-1]}: {before[most]:.2f} of chains of length"
        f" {base.test_lengths[most]} are right before, {after[most]:.2f} after (medians)",
        f"{sizes(base)}; {protocol(base)}; {seeds_note(records)}",
    )
    return figure


def curve_of_labels(record: Any, lengths: Sequence[int], name: str):
    """The share of right labels that each stage was given."""
    return np.array(lengths), np.array([record.final(f"label {name}", f"L={length}") for length in lengths])
