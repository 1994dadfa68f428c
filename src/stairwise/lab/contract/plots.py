"""The house style of figures: legible at column width, colour-blind-safe, every seed shown."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from textwrap import wrap
from typing import Any

import numpy as np

from stairwise.train.stage import LOST

# Okabe and Ito's palette, without yellow (too pale on white)
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
ON_DARK, ON_LIGHT = "#fffffe", "#000001"  # what stands on a map: no greys, which change places on dark pages
DASHES = ("-", "--", "-.", ":")
COLUMN = 3.4  # inches: one column of a two-column paper

STYLE = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "legend.fontsize": 7,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.4,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
    "figure.dpi": 150,
    "savefig.dpi": 200,
    "pdf.fonttype": 42,
    "svg.hashsalt": "stairwise",  # the same data gives the same file
}


def subplots(*args: Any, **options: Any) -> tuple[Any, Any]:
    """`matplotlib.pyplot.subplots`; Matplotlib is imported when something is drawn, not when a paper is."""
    import matplotlib.pyplot as plt

    return plt.subplots(*args, **options)


def empty_figure(**options: Any) -> Any:
    """`matplotlib.pyplot.figure`, in the same way."""
    import matplotlib.pyplot as plt

    return plt.figure(**options)


def titled(figure: Any, title: str, sizes: str) -> None:
    """What the data show above the figure; sizes, seeds and budgets below it, small, where a legend may be already.

    A title says the finding with the numbers of these very records, so that it is true of anyone's own run.
    """
    inches = figure.get_size_inches()[0]
    figure.suptitle(fitted(title, 15 * inches), fontsize=8)
    sizes = fitted(sizes, 21 * inches)
    below = [legend for legend in figure.legends if getattr(legend, "_outside_loc", None) == "lower"]
    if below:  # Matplotlib would draw the two over each other
        below[0].set_title(sizes, prop={"size": 6})
        below[0].get_title().set_color("0.35")
    else:
        figure.supxlabel(sizes, fontsize=6, color="0.35")


def fitted(text: str, most: float) -> str:
    """Lines of at most so many characters, as few as it takes and about as long as each other.

    >>> fitted("One step finds the tree in every run", 30)
    'One step finds the\\ntree in every run'
    """

    def lines(width: int) -> list[str]:
        return [
            line
            for given in text.split("\n")
            for line in wrap(given, width, break_long_words=False, break_on_hyphens=False)
        ]

    width = max(1, int(most))
    while width > 1 and len(lines(width - 1)) == len(lines(width)):
        width -= 1
    return "\n".join(lines(width))


@contextmanager
def house_style() -> Iterator[None]:
    """Matplotlib in the house style, drawing to files only."""
    import matplotlib

    matplotlib.use("Agg")
    from cycler import cycler

    style: Any = {**STYLE, "axes.prop_cycle": cycler(color=COLOURS)}
    with matplotlib.rc_context(style):
        yield


def colour(number: int) -> str:
    """The palette, round and round."""
    return COLOURS[number % len(COLOURS)]


def grouped(records: Iterable[Any], by: Callable[[Any], Any]) -> dict[Any, list[Any]]:
    """Records by a property of theirs, in the order of first appearance.

    >>> grouped([1, 2, 3, 4], by=lambda number: number % 2)
    {1: [1, 3], 0: [2, 4]}
    """
    groups: dict[Any, list[Any]] = {}
    for record in records:
        groups.setdefault(by(record), []).append(record)
    return groups


def all_seeds(
    axes: Any,
    runs: Sequence[tuple[np.ndarray, np.ndarray]],
    label: str,
    colour: str,
    dash: str = "-",
) -> None:
    """Every seed as a thin line, their median as a thick one, the range between the quartiles as a band."""
    for steps, values in runs:
        axes.plot(steps, values, color=colour, alpha=0.35, linewidth=0.6)
    steps, values = common_steps(runs)
    low, middle, high = np.nanquantile(values, [0.25, 0.5, 0.75], axis=0)
    axes.fill_between(steps, low, high, color=colour, alpha=0.15, linewidth=0)
    axes.plot(steps, middle, color=colour, linestyle=dash, label=label)


def count_axis(axes: Any) -> None:
    """Large counts on the horizontal axis as 50k, 100k."""
    from matplotlib.ticker import EngFormatter

    axes.xaxis.set_major_formatter(EngFormatter(sep=""))


def common_steps(runs: Sequence[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """The steps that all seeds share (one that was lost may be shorter), and the values there, one row per seed."""
    shared = runs[0][0]
    for steps, _ in runs[1:]:
        shared = np.intersect1d(shared, steps)
    rows = [values[np.searchsorted(steps, shared)] for steps, values in runs]
    return shared, np.stack(rows)


def seeds_note(records: Sequence[Any]) -> str:
    """How many seeds, and how many of them did not end well."""
    seeds = len({record.seed for record in records})
    text = f"{seeds} seed{'s' if seeds != 1 else ''}: thin lines; median: thick; band: quartiles"
    return text + lost_note(records)


def lost_note(records: Sequence[Any]) -> str:
    """How many of the trials were lost to a NaN, by status, for the end of a caption."""
    counts = Counter(record.status for record in records)
    return "".join(f"; {counts[status]} {status}" for status in LOST if counts[status])
