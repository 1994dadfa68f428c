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
HALVED = "validation loss (half)"
ROUNDING = 1e-6  # below this a loss of float32 is its rounding


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


def ends(arms: dict[str, list[Any]], name: str) -> str:
    """The median of a metric at the end of training, arm by arm."""
    found = {arm: np.median([record.final(name) for record in own]) for arm, own in arms.items()}
    return " and ".join(f"{value:.2g} ({arm})" for arm, value in found.items())


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
    first, last = (np.median([values[place] for _, values in loss]) for place in (0, -1))
    W, V = (min(record.final(f"cosine {name}") for record in chosen) for name in "WV")
    found = f"The loss goes from {first:.2g} to {last:.2g}; W and V end at cosines of {W:.3f} and {V:.3f} or more"
    titled(figure, f"{found} with the truth", sizes)
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
    labels = [f"length {length}" for length in config.test_lengths]
    _panels(axes[0], arms, names, labels)
    axes[0][0].set_ylabel(HALVED)
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=len(arms))
    found = f"At length {config.test_lengths[-1]} the loss ends at {ends(arms, names[-1])}"
    titled(figure, found, f"trained at {title(config)}; {seeds_note(records)}")
    return figure


def generalisation(records: Sequence[Any]):
    """Figures 4-7: longer sequences on top, larger subsets below."""
    arms, config = by_arm(records), records[0].config
    rows = [
        ([f"loss length={n}" for n in config.test_lengths], [f"length {n}" for n in config.test_lengths]),
        ([f"loss sparsity={q}" for q in config.test_sparsities], [f"{q} selected" for q in config.test_sparsities]),
    ]
    columns = max(len(names) for names, _ in rows)
    figure, axes = subplots(2, columns, figsize=(2 * COLUMN, 4.0), sharey="row", squeeze=False)
    for row, (names, labels) in zip(axes, rows, strict=True):
        _panels(row[: len(names)], arms, names, labels)
        row[0].set_ylabel(HALVED)
        for empty in row[len(names) :]:
            empty.set_visible(False)
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=len(arms))
    how = f"{config.optimizer.upper() if config.optimizer == 'sgd' else 'Adam'}, {config.start} start"
    trained = f"trained at {title(config)}; {seeds_note(records)}"
    found = ", ".join(f"at {ends(arms, names[-1])} for {labels[-1]}" for names, labels in rows if names)
    titled(figure, f"{how}: the loss ends {found}", trained)
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
    W, V = (record.array(f"train/{name}@{steps[-1]}") for name in "WV")
    shares = [
        np.square(np.diag(part)).sum() / np.square(whole).sum() for part, whole in ((W[width:, width:], W), (V, V))
    ]
    found = f"{shares[0]:.0%} of W lies on the diagonal of positions, {shares[1]:.0%} of V on that of tokens"
    titled(figure, f"In the end {found} (squared)", f"{title(record.config)}, seed {record.seed}")
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
    axes.set(xscale="log", yscale="log", xlabel="first-layer width m", ylabel="risk E||target - f||² (not halved)")
    axes.set_xlim(0.9, 1.15 * widest)
    axes.legend(loc="lower left", fontsize=6)
    titled(figure, reached(records, exact), f"T={T}, q={q}, d={d}; a point is a trained net")
    return figure


def reached(records: Sequence[Any], infimum: np.ndarray) -> str:
    """How near the infimum of their width the narrow nets come, and where the wide ones end."""
    risks = [(record.config.first_width, float(record.array("train/risk"))) for record in records]
    narrow = [risk / infimum[width - 1] for width, risk in risks if width < len(infimum)]
    wide = [risk for width, risk in risks if width >= len(infimum)]
    parts = [f"narrower than Td end at {min(narrow):.2f} to {max(narrow):.2f} times their infimum"] if narrow else []
    parts += (
        [f"{'the others' if narrow else 'of width Td or more'} at a risk of {max(wide):.1g} or less"] if wide else []
    )
    return f"Trained nets {', '.join(parts)}"


def switches(records: Sequence[Any]):
    """Beyond the paper: the three losses and the cosine of W under each switch, every seed a dot."""
    arms = grouped(records, lambda record: record.arm)
    config = records[0].config
    columns = {
        "in distribution": "loss in",
        f"length {max(config.test_lengths)}": f"loss length={max(config.test_lengths)}",
        f"{max(config.test_sparsities)} selected": f"loss sparsity={max(config.test_sparsities)}",
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
    name = columns[f"length {max(config.test_lengths)}"]
    median = {arm: np.median([record.final(name) for record in chosen]) for arm, chosen in arms.items()}
    pairs = [(arm, arm.replace("stochastic", "fixed")) for arm in arms if "stochastic" in arm]
    both = [median[fresh] < median[fixed] for fresh, fixed in pairs if fixed in median]
    titled(
        figure,
        f"Stochastic encodings beat fixed ones at length {max(config.test_lengths)} under {sum(both)} of {len(both)}"
        " switches that have both (medians)",
        f"trained at {title(config)}, {config.steps} steps; a dot is a seed",
    )
    return figure


def population_dynamics(records: Sequence[Any]):
    """Exact gradient flow, one-hot: the loss against (T-1)/(4 eta t), and what the weights cost at other lengths."""
    figure, (left, right) = subplots(1, 2, figsize=(2 * COLUMN, 2.7))
    ratios = []
    for colour, record in zip(COLOURS, records, strict=False):
        T, above = record.config.task.length, record.array("loss") > ROUNDING
        time, loss = record.array("time")[above], record.array("loss")[above]
        left.loglog(time, loss, color=colour, label=f"T={T}")
        late = time > T
        left.loglog(time[late], (T - 1) / (4 * time[late]), color=colour, linestyle=":", linewidth=1)
        ratios.append(loss[-1] * 4 * time[-1] / (T - 1))
    left.set(xlabel="time $\\eta t$", ylabel="population loss (1/2 convention)", title="dotted: (T-1)/(4 $\\eta t$)")
    left.legend(loc="lower left")
    longest = max(records, key=lambda record: record.config.task.length)
    task = longest.config.task
    for colour, length in zip(COLOURS, longest.config.test_lengths, strict=False):
        ratio = longest.array(f"loss length={length}") / longest.array("loss")
        right.loglog(longest.array("time"), ratio, color=colour, label=f"length {length}")
        right.axhline(loss_ratio_limit(task, replace(task, length=length)), color=colour, linestyle=":", linewidth=1)
    right.set(
        xlabel="time $\\eta t$",
        ylabel=f"loss there over loss at length {task.length}",
        title="dotted: limit in closed form",
    )
    right.legend(loc="lower left", bbox_to_anchor=(0, 0.07))
    titled(
        figure,
        f"Exact gradient flow ends at {min(ratios):.2f} to {max(ratios):.2f} times its law (T-1)/(4$\\eta t$)",
        f"losses down to {ROUNDING:g}; right: trained at T={task.length}, tested at longer inputs",
    )
    return figure
