"""Where answers look: heat maps (Figure 2), with permuted predicates (5), diagonals against place (6, 7)."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stairwise.lab.contract.plots import COLUMN, ON_DARK, all_seeds, colour, grouped, seeds_note, subplots, titled
from stairwise.papers.lego.figures.length_curves import first_lessons, lessons, sizes


def kind(record: Any) -> str:
    residual = "residual" if record.config.model.attention_residual else "no residual"
    return f"{record.config.task.action}, {residual}"


def mean_map(records: Sequence[Any], length: int, name: str = "attention") -> np.ndarray:
    """Averaged over heads and seeds."""
    return np.mean([record.array(f"train/{name} {length}") for record in records], axis=(0, 1))


def diagonal(record: Any, length: int, part: str) -> np.ndarray:
    """Attention of answer l to predicate l+1 or to itself, averaged over heads, for every l."""
    weights = record.array(f"train/attention {length}").mean(axis=0)
    return np.diagonal(weights[:, :length] if part == "predicate" else weights[:, length:])


def heat_maps(records: Sequence[Any]):
    """Figure 2: mean attention at the shortest kept length; a column per action, rows with and without residual."""
    records = first_lessons(records)
    length = min(records[0].config.map_lengths)
    actions = list(grouped(records, lambda record: record.config.task.action))
    rows = grouped(records, lambda record: record.config.model.attention_residual)
    size = (len(actions) * COLUMN, 1.6 * len(rows) + 0.3)
    figure, axes = subplots(len(rows), len(actions), figsize=size, squeeze=False)
    image: Any = None
    for row, chosen in zip(axes, rows.values(), strict=True):
        for axis, action in zip(row, actions, strict=True):
            runs = [record for record in chosen if record.config.task.action == action]
            if not runs:
                axis.set_axis_off()
                continue
            image = _heat(axis, mean_map(runs, length), length)
            predicate, answer = (np.mean([diagonal(r, length, part) for r in runs]) for part in ("predicate", "answer"))
            axis.set_title(f"{kind(runs[0])}: predicate {predicate:.2f}, answer {answer:.2f}", fontsize=7)
    figure.colorbar(image, ax=axes, shrink=0.8)
    found = []
    for residual, runs in rows.items():
        predicate, answer = (np.mean([diagonal(r, length, part) for r in runs]) for part in ("predicate", "answer"))
        found.append(f"{predicate:.2f} and {answer:.2f} {_with(residual)}")
    _caption(
        figure,
        records,
        f"Answers attend to the predicate they need and to themselves: {', '.join(found)}",
        "rows: answers a0, a1, ...; columns: predicates (p), answers (a); averaged over heads and seeds",
    )
    return figure


def permuted(records: Sequence[Any]):
    """Figure 5: the order in which predicates are told, and the attention that follows it; one seed."""
    records = first_lessons(records)
    plain = [record for record in records if not record.config.model.attention_residual] or records
    length, seed = min(plain[0].config.map_lengths), plain[0].seed
    chosen = [record for record in plain if record.seed == seed]
    figure, axes = subplots(1, 1 + len(chosen), figsize=((1 + len(chosen)) * 0.7 * COLUMN, 2.5), squeeze=False)
    order = chosen[0].array(f"train/order {length}")
    needed = np.zeros((length, 2 * length))
    needed[order, np.arange(length)] = needed[np.arange(length), length + np.arange(length)] = 0.5
    image = _heat(axes[0][0], needed, length, order)
    axes[0][0].set_title("the two clauses needed,\npredicates permuted", fontsize=7)
    followed: list[bool] = []
    for axis, record in zip(axes[0][1:], chosen, strict=True):
        weights = mean_map([record], length, "attention permuted")
        followed += list(weights[record.array(f"train/order {length}"), :length].argmax(axis=1) == np.arange(length))
        _heat(axis, weights, length, record.array(f"train/order {length}"))
        axis.set_title(f"{kind(record)}\nlogits move by {record.final('order logits'):.0e}", fontsize=7)
    figure.colorbar(image, ax=axes[0], shrink=0.8)
    found = f"{sum(followed)} of {len(followed)} answers look most at the predicate they need, wherever it stands"
    _caption(figure, chosen, found, f"seed {seed}, averaged over heads")
    return figure


def predicate_diagonal(records: Sequence[Any]):
    """Figure 6."""
    return _diagonals(
        records, "predicate", "attention to the right predicate", "Answers attend to the predicate they need"
    )


def answer_diagonal(records: Sequence[Any]):
    """Figure 7."""
    return _diagonals(records, "answer", "attention of an answer to itself", "Answers attend to themselves")


def _diagonals(records: Sequence[Any], part: str, words: str, title: str):
    records = first_lessons(records)
    lengths = sorted(records[0].config.map_lengths)[1:] or list(records[0].config.map_lengths)
    columns = grouped(records, lambda record: record.config.model.attention_residual)
    figure, axes = subplots(1, len(columns), figsize=(len(columns) * COLUMN, 2.6), squeeze=False, sharey=True)
    for axis, (residual, chosen) in zip(axes[0], columns.items(), strict=True):
        for number, (action, runs) in enumerate(grouped(chosen, lambda record: record.config.task.action).items()):
            for dash, length in zip(("-", "--", ":"), lengths, strict=False):
                places = (np.arange(length) + 0.5) / length
                lines = [(places, diagonal(record, length, part)) for record in runs]
                all_seeds(axis, lines, f"{action}, L={length}", colour(number), dash)
        axis.set(
            xlabel="place in the sentence, as a share of L",
            title="residual" if residual else "no residual around attention",
        )
    axes[0][0].set_ylabel(words)
    axes[0][0].set_ylim(0, min(1.0, axes[0][0].get_ylim()[1]))
    named = {label: line for axis in axes[0] for line, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    axes[0][-1].legend(named.values(), named, loc="center left", bbox_to_anchor=(1.0, 0.5))
    found = []
    for residual, chosen in columns.items():
        means = [f"{np.mean([diagonal(r, length, part) for r in chosen]):.2f} at L={length}" for length in lengths]
        found.append(f"{' and '.join(means)} {_with(residual)}")
    _caption(figure, records, f"{title}: {', '.join(found)} (means)", seeds_note(records))
    return figure


def _with(residual: bool) -> str:
    return "with residual" if residual else "without"


def _heat(axis: Any, weights: np.ndarray, length: int, order: np.ndarray | None = None):
    image = axis.imshow(weights, cmap="viridis", vmin=0, vmax=1, aspect="auto", origin="lower")
    names = np.arange(length) if order is None else order
    axis.set_xticks(range(2 * length), [*(f"p{n + 1}" for n in names), *(f"a{n}" for n in range(length))], fontsize=5)
    axis.set_yticks(range(length), [f"a{n}" for n in range(length)], fontsize=5)
    axis.axvline(length - 0.5, color=ON_DARK, linewidth=0.8)
    axis.grid(False)
    return image


def _caption(figure: Any, records: Sequence[Any], title: str, more: str) -> None:
    config = records[0].config
    titled(figure, title, f"{sizes(config)}; {lessons(config)}; {more}")
