"""The paper's figures, drawn from stored records. Losses are halved as in its formulas: 1/2 E||target - f||^2."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from stairwise.lab.contract.microscope import snapshot_ticks
from stairwise.lab.contract.plots import (
    COLOURS,
    COLUMN,
    ON_LIGHT,
    all_seeds,
    count_axis,
    grouped,
    seeds_note,
    subplots,
    titled,
)
from stairwise.papers.selection.theory.fcn import optimal_risk
from stairwise.papers.selection.theory.generalisation import loss_ratio_limit

ARM_COLOURS = {"stochastic": COLOURS[0], "fixed": COLOURS[1]}
HALVED = "validation loss (1/2 convention)"


def by_arm(records: Sequence[Any]) -> dict[str, list[Any]]:
    """Records by kind of encoding: stochastic (fresh every step), fixed, or a pool."""

    def kind(record: Any) -> str:
        pool = record.config.encoding.pool
        return {0: "stochastic", 1: "fixed"}.get(pool, f"pool of {pool}")

    return grouped(records, kind)


def trivial_loss(config: Any, sparsity: int | None = None) -> float:
    """The loss of predicting zero: d/(2q)."""
    return config.task.width / (2 * (sparsity or config.task.sparsity))


def title(config: Any) -> str:
    sizes = config.task
    return f"T={sizes.length}, q={sizes.sparsity}, d={sizes.width}, d_e={config.encoding.width}, B={config.batch}"


def convergence(records: Sequence[Any]):
    """Figure 1: training loss and its inverse; cosine similarity with the ground truth (stochastic encodings)."""
    chosen = by_arm(records)["stochastic"]
    figure, (left, right) = subplots(1, 2, figsize=(2 * COLUMN, 2.9))
    loss = [record.series("train_loss") for record in chosen]
    loss = [(steps[1:], values[1:]) for steps, values in loss]  # no batch has been seen at step 0
    all_seeds(left, loss, "training loss", COLOURS[0])
    left.set(xlabel="SGD step", ylabel="training loss (1/2 convention)")
    inverse = left.twinx()
    all_seeds(inverse, [(steps, 1 / values) for steps, values in loss], "inverse loss", COLOURS[1], "--")
    inverse.set_ylabel("1 / training loss")
    inverse.grid(False)
    inverse.spines["right"].set_visible(True)
    handles = left.get_legend_handles_labels()[0] + inverse.get_legend_handles_labels()[0]
    left.legend(handles=handles, loc="upper center")
    for name, colour, dash in (("cosine W", COLOURS[0], "-"), ("cosine V", COLOURS[2], "--")):
        all_seeds(
            right,
            [record.series(name) for record in chosen],
            name.replace("cosine ", "") + " to its truth",
            colour,
            dash,
        )
    right.set(xlabel="SGD step", ylabel="cosine similarity", ylim=(None, 1.02))
    right.legend(loc="lower right")
    count_axis(left)
    count_axis(right)
    sizes = f"{title(chosen[0].config)}; {seeds_note(chosen)}"
    titled(figure, "Training loss, its inverse, and how close the weights are to the truth", sizes)
    return figure


def _panels(axes: Any, arms: dict[str, list[Any]], names: Sequence[str], labels: Sequence[str]) -> None:
    for panel, name, label in zip(axes, names, labels, strict=True):
        for arm, records in arms.items():
            colour = ARM_COLOURS.get(arm, COLOURS[3])
            all_seeds(
                panel, [record.series(name) for record in records], arm, colour, "-" if arm == "stochastic" else "--"
            )
        panel.set(title=label, xlabel="step")
    for panel in axes:
        panel.set_ylim(bottom=0)  # after all is drawn: panels share the axis
        count_axis(panel)


def lengths(records: Sequence[Any]):
    """Figure 2: loss on longer sequences over training, one panel a length."""
    arms, config = by_arm(records), records[0].config
    names = [f"loss length={length}" for length in config.test_lengths]
    figure, axes = subplots(1, len(names), figsize=(2 * COLUMN, 2.6), sharey=True, squeeze=False)
    labels = [f"T_test={length}" for length in config.test_lengths]
    _panels(axes[0], arms, names, labels)
    axes[0][0].set_ylabel(HALVED)
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside right upper")
    titled(figure, "Loss at lengths that were not trained", f"trained at {title(config)}; {seeds_note(records)}")
    return figure


def generalisation(records: Sequence[Any]):
    """Figures 4-7: longer sequences on top, larger subsets below."""
    arms, config = by_arm(records), records[0].config
    rows = [
        ([f"loss length={n}" for n in config.test_lengths], [f"T_test={n}" for n in config.test_lengths]),
        ([f"loss sparsity={q}" for q in config.test_sparsities], [f"q_test={q}" for q in config.test_sparsities]),
    ]
    columns = max(len(names) for names, _ in rows)
    figure, axes = subplots(2, columns, figsize=(2 * COLUMN, 4.0), sharey="row", squeeze=False)
    for row, (names, labels) in zip(axes, rows, strict=True):
        _panels(row[: len(names)], arms, names, labels)
        row[0].set_ylabel(HALVED)
        for empty in row[len(names) :]:
            empty.set_visible(False)
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside right upper")
    how = f"{config.optimizer.upper() if config.optimizer == 'sgd' else 'Adam'}, {config.start} start"
    trained = f"trained at {title(config)}; {seeds_note(records)}"
    titled(figure, f"Loss on longer sequences (top) and larger subsets (bottom): {how}", trained)
    return figure


def heatmaps_ends(records: Sequence[Any]):
    """Figure 3: W and V at the start and after training."""
    steps = _snapshot_steps(records[0])
    return _heatmaps(records[0], [steps[0], steps[-1]])


def heatmaps_all(records: Sequence[Any]):
    """Figure 8: W and V at the start, early, and after training."""
    steps = _snapshot_steps(records[0])
    early = [step for step in steps if step in (100, 500)] or steps[1:-1][:2]
    return _heatmaps(records[0], [*dict.fromkeys([steps[0], *early, steps[-1]])])


def _snapshot_steps(record: Any) -> list[int]:
    return snapshot_ticks(record, "train/W")


def _heatmaps(record: Any, steps: Sequence[int]):
    width = record.config.task.width
    figure, axes = subplots(
        2, len(steps), figsize=(1.75 * len(steps) + 0.6, 3.0), squeeze=False, gridspec_kw={"height_ratios": [2, 1]}
    )
    for row, name, label in zip(axes, ("W", "V"), ("$W$", "$V$"), strict=True):
        scale = max(np.abs(record.array(f"train/{name}@{step}")).max() for step in steps)
        for panel, step in zip(row, steps, strict=True):
            picture = panel.imshow(
                record.array(f"train/{name}@{step}"), cmap="RdBu_r", vmin=-scale, vmax=scale, interpolation="nearest"
            )
            panel.set_title(f"{label} at step {step:,}")
            panel.grid(False)
            panel.axvline(width - 0.5, color=ON_LIGHT, linewidth=0.5)
            if name == "W":
                panel.axhline(width - 0.5, color=ON_LIGHT, linewidth=0.5)
            panel.set_xticks([width / 2, width + record.config.encoding.width / 2], ["token", "position"])
            panel.set_yticks([])
        figure.colorbar(picture, ax=row, shrink=0.8)
    axes[0][0].set_yticks([width / 2, width + record.config.encoding.width / 2], ["token", "position"], rotation=90)
    titled(figure, "Weights over training", f"{title(record.config)}, seed {record.seed}")
    return figure


def fcn_risks(records: Sequence[Any]):
    """Risk of trained fully connected nets against first-layer width, with the infimum and the bound of Theorem 3.5."""
    sizes = records[0].config.task
    T, q, d = sizes.length, sizes.sparsity, sizes.width
    figure, axes = subplots(figsize=(1.4 * COLUMN, 2.8))
    widest = max(record.config.first_width for record in records)
    widths = np.arange(1, T * d + 1)
    exact = np.array([optimal_risk(T, q, d, int(m)) for m in widths])
    axes.plot(widths[:-1], exact[:-1], color=COLOURS[6], linewidth=1, label="infimum over all nets of width m")
    bound = (T - q) / (T * q * (T - 1))
    axes.axhline(bound, color=COLOURS[6], linestyle=":", linewidth=1, label=f"Theorem 3.5: {bound:.4f} for m < Td")
    axes.axvline(T * d, color="grey", linewidth=0.6)
    axes.text(T * d, axes.get_ylim()[1], " Td", va="top", fontsize=7)
    styles = {"head": ("o", COLOURS[0], "query given to the head"), "input": ("s", COLOURS[1], "query as raw integers")}
    for query, (marker, colour, label) in styles.items():
        chosen = [record for record in records if record.config.query == query]
        if chosen:
            risks = [(record.config.first_width, float(record.array("train/risk"))) for record in chosen]
            axes.plot(
                *zip(*risks, strict=True), marker, color=colour, markersize=4, alpha=0.8, label=f"trained, {label}"
            )
    axes.set(xscale="log", yscale="log", xlabel="first-layer width m", ylabel="risk E||target - f||^2 (not halved)")
    axes.set_xlim(0.9, 1.15 * widest)
    axes.legend(loc="lower left", fontsize=6)
    titled(figure, "Trained nets against the infimum of their width", f"T={T}, q={q}, d={d}; a point is a trained net")
    return figure


def switches(records: Sequence[Any]):
    """Beyond the paper: the three losses and the cosine of W under each switch, every seed a dot."""
    arms = grouped(records, lambda record: record.arm)
    config = records[0].config
    columns = {
        "in distribution": "loss in",
        f"T_test={max(config.test_lengths)}": f"loss length={max(config.test_lengths)}",
        f"q_test={max(config.test_sparsities)}": f"loss sparsity={max(config.test_sparsities)}",
        "cosine of W": "cosine W",
    }
    figure, axes = subplots(1, len(columns), figsize=(2.2 * COLUMN, 0.19 * len(arms) + 1), sharey=True)
    for panel, (label, name) in zip(axes, columns.items(), strict=True):
        for row, (arm, chosen) in enumerate(arms.items()):
            colour = ARM_COLOURS["fixed" if "fixed" in arm else "stochastic"]
            values = [record.final(name) for record in chosen]
            panel.plot(values, [row] * len(values), "o", color=colour, markersize=3.5, alpha=0.7)
        panel.set(title=label, ylim=(len(arms) - 0.5, -0.5))
        if name != "cosine W":
            panel.set_xscale("log")
    axes[0].set_yticks(range(len(arms)), list(arms))
    axes[0].set_xlabel("loss (1/2 convention)")
    titled(
        figure,
        "Losses and cosine under every switch, with stochastic and fixed encodings",
        f"trained at {title(config)}, {config.steps} steps; a dot is a seed",
    )
    return figure


def population_dynamics(records: Sequence[Any]):
    """Exact gradient flow, one-hot: the loss against (T-1)/(4 eta t), and what the weights cost at other lengths."""
    figure, (left, right) = subplots(1, 2, figsize=(2 * COLUMN, 2.7))
    for colour, record in zip(COLOURS, records, strict=False):
        T, time = record.config.task.length, record.array("time")
        left.loglog(time, record.array("loss"), color=colour, label=f"T={T}")
        late = time > T
        left.loglog(time[late], (T - 1) / (4 * time[late]), color=colour, linestyle=":", linewidth=1)
    left.set(xlabel="time $\\eta t$", ylabel="population loss (1/2 convention)", title="dotted: (T-1)/(4 $\\eta t$)")
    left.legend(loc="lower left")
    longest = max(records, key=lambda record: record.config.task.length)
    task = longest.config.task
    for colour, length in zip(COLOURS, longest.config.test_lengths, strict=False):
        ratio = longest.array(f"loss length={length}") / longest.array("loss")
        right.loglog(longest.array("time"), ratio, color=colour, label=f"T_test={length}")
        right.axhline(loss_ratio_limit(task, replace(task, length=length)), color=colour, linestyle=":", linewidth=1)
    right.set(
        xlabel="time $\\eta t$",
        ylabel=f"loss at T_test over loss at T={task.length}",
        title="dotted: limit in closed form",
    )
    right.legend(loc="lower left", bbox_to_anchor=(0, 0.07))
    lengths = ", ".join(str(record.config.task.length) for record in records)
    titled(figure, "Exact gradient flow: loss against its law, and against that at longer inputs", f"T = {lengths}")
    return figure
