"""One heat map per question: rows are models, columns are lengths, and every cell says its number."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stairwise.lab.contract.plots import COLUMN, ON_DARK, ON_LIGHT, empty_figure, subplots, titled
from stairwise.papers.crossings.atlas import runs
from stairwise.papers.crossings.atlas.config import HOUSEHOLDERS, PARITY, POSITIONS, SUPERVISED, TIMES, Rows
from stairwise.papers.crossings.hits import hits

SOLVED = 0.9  # a median exact match from which on a length counts as solved


def parity(records: Sequence[Any]):
    """Recurrences of one layer on words of C_2."""
    return extrapolation(records, PARITY, "Parity of words")


def householders(records: Sequence[Any]):
    """DeltaNet on words of S_3."""
    return extrapolation(records, HOUSEHOLDERS, "DeltaNet on words of $S_3$")


def positions(records: Sequence[Any]):
    """Attention with a chain of LEGO's clauses."""
    return extrapolation(records, POSITIONS, "Attention with a chain")


def extrapolation(records: Sequence[Any], rows: Rows, title: str):
    """Median exact match at L, 2L and 4L; beside each row how many seeds solved L, and from how many samples."""
    lines = {name: runs.cell(records, fields, _length(records, rows)) for name, fields in rows.items()}
    lines = {name: found for name, found in lines.items() if found}
    if not lines:
        return _nothing(title)
    values = np.array([[np.median(runs.exact(found, times)) for times in TIMES] for found in lines.values()])
    figure, axes = subplots(figsize=(1.35 * COLUMN, 0.34 * len(lines) + 1.3))
    seeds = [[sorted(runs.exact(found, times)) for times in TIMES] for found in lines.values()]
    _map(axes, values, lambda r, c: f"{values[r, c]:.2f}\n{seeds[r][c][0]:.2f}-{seeds[r][c][-1]:.2f}", (0.0, 1.0))
    length = next(iter(lines.values()))[0].config.length
    axes.set_xticks(range(len(TIMES)), [f"{times * length}" + (" (trained)" if times == 1 else "") for times in TIMES])
    axes.set_yticks(range(len(lines)), list(lines))
    axes.set_xlabel("length of the words or chains")
    beside = axes.secondary_yaxis("right")
    beside.set_yticks(range(len(lines)), [_solved(found) for found in lines.values()])
    beside.tick_params(length=0)
    beside.spines["right"].set_visible(False)
    solved, further = (int(np.sum(values[:, column] >= SOLVED)) for column in (0, -1))
    found = f"{solved} of {len(lines)} models solve length {length}, {further} still length {TIMES[-1] * length}"
    words = f"cells: median exact match (solved: {SOLVED:g} or more), smallest to largest below"
    return _titled(figure, next(iter(lines.values())), f"{title}: {found}", words)


def supervised(records: Sequence[Any]):
    """Samples until solved by length of training; a cell that fewer than half of the seeds solve is grey."""
    lengths = sorted({n for name, fields in SUPERVISED.items() for n in runs.lengths(records, {name: fields})})
    title = "Attention without positions on LEGO's clauses"
    if not lengths:
        return _nothing(title)
    cells = [[runs.cell(records, fields, length) for length in lengths] for fields in SUPERVISED.values()]
    medians = np.array([[runs.samples(found) if found else math.nan for found in line] for line in cells])
    logs = np.log10(np.where(np.isfinite(medians), medians, np.nan))
    figure, axes = subplots(figsize=(1.35 * COLUMN, 0.4 * len(SUPERVISED) + 1.2))
    shown = [record for line in cells for found in line for record in found]
    config = shown[0].config
    budget = config.budget

    def text(row: int, column: int) -> str:
        found = cells[row][column]
        if not found:
            return "not run"
        median = medians[row, column]
        said = f"{median:,.0f}" if math.isfinite(median) else f"over {budget:,}"
        return f"{said}\n{hits(found).reached} of {len(found)} solved"

    _map(axes, -logs, text, (-math.log10(budget), -math.log10(budget / config.looks)))
    axes.set_xticks(range(len(lengths)), [str(length) for length in lengths])
    axes.set_yticks(range(len(SUPERVISED)), list(SUPERVISED))
    axes.set_xlabel("length of training")
    found = []
    for name, line in zip(SUPERVISED, cells, strict=True):
        runs_of = [record for cell in line for record in cell]
        found += [f"{hits(runs_of).reached} of {len(runs_of)} runs ({name})"] if runs_of else []
    return _titled(figure, shown, f"{title} is learnt in {', '.join(found)}", "cells: median samples until solved")


# --- drawing ----------------------------------------------------------------------------------------------------------


def _map(axes: Any, values: np.ndarray, text: Callable[[int, int], str], limits: tuple[float, float]) -> None:
    """Coloured cells with their text; what is not a number is grey."""
    from matplotlib import colormaps

    colours = colormaps["viridis"].with_extremes(bad="0.85")
    shown = np.ma.masked_invalid(values)
    axes.imshow(shown, cmap=colours, vmin=limits[0], vmax=limits[1], aspect="auto")
    axes.grid(False)
    for row, column in np.ndindex(*values.shape):
        share = (values[row, column] - limits[0]) / (limits[1] - limits[0])
        ink = ON_DARK if np.isfinite(share) and share < 0.6 else ON_LIGHT
        axes.text(column, row, text(row, column), ha="center", va="center", fontsize=5.5, color=ink)


def _length(records: Sequence[Any], rows: Rows) -> int | None:
    """The longest length at which all rows that were run were run."""
    there = {name: fields for name, fields in rows.items() if runs.lengths(records, {name: fields})}
    shared = runs.lengths(records, there)
    return max(shared) if shared else None


def _solved(found: Sequence[Any]) -> str:
    median = runs.samples(found)
    reached = hits(found)
    said = f", {median:,.0f} samples" if math.isfinite(median) else ""
    return f"{reached.reached} of {len(found)} solve L{said}"


def _titled(figure: Any, records: Sequence[Any], title: str, cells: str):
    config = records[0].config
    steps = config.measure_every * config.looks
    seeds = len({record.seed for record in records})
    sizes = f"{steps:,} steps of {config.batch} sequences, better of the rates, {seeds} seeds"
    titled(figure, title, f"{cells}; {sizes}")
    return figure


def _nothing(title: str):
    figure = empty_figure(figsize=(COLUMN, 0.8))
    figure.suptitle(f"{title}: no such cell was run", fontsize=7)
    return figure
