"""Tables of timings, from the files that `stairwise bench -o docs/results/bench/NAME.json` has written."""

import json
import statistics
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "results" / "bench"
HEAD = ("work", "unit", "Stairwise, ms", "PyTorch eager, ms", "times", "compiled, ms", "times")


def table(name: str) -> str:
    """One line per row, and below it what both sides ran on.

    A row that failed says so in the place of its numbers.
    """
    found = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    lines = [f"| {' | '.join(HEAD)} |", f"|{' --- |' * len(HEAD)}", *map(line, found["rows"])]
    facts = [f"- {row['work']}: {fact}: {value}." for row in found["rows"] for fact, value in row["facts"].items()]
    return "\n".join([*lines, "", machine(found), *(["", *facts] if facts else [])])


def line(row: dict[str, Any]) -> str:
    against = f", against {row['mirror']}" if row["mirror"] else ""
    begun = [f"`{row['bench']}`: {row['work']}{against}", row["unit"]]
    if row["failure"]:
        return f"| {' | '.join([*begun, row['failure'], '', '', '', ''])} |"
    sides = {side: milliseconds(row["milliseconds"][side]) for side in ("ours", "eager", "compiled")}
    ratios = {side: times(row[f"times faster than {side}"]) for side in ("eager", "compiled")}
    cells = [*begun, sides["ours"], sides["eager"], ratios["eager"], sides["compiled"], ratios["compiled"]]
    return f"| {' | '.join(cells)} |"


def milliseconds(values: list[float]) -> str:
    """Median and range.

    >>> milliseconds([0.5, 0.25, 1.0]), milliseconds([2.0])
    ('0.5 [0.25, 1]', '2')
    """
    if not values:
        return ""
    middle = f"{statistics.median(values):.3g}" if max(values) < 100 else f"{statistics.median(values):,.0f}"
    return middle if len(values) == 1 else f"{middle} [{min(values):.3g}, {max(values):.3g}]"


def times(ratio: list[float] | None) -> str:
    """Lowest, median and highest ratio.

    >>> times([2.0, 3.0, 4.0]), times([3.0, 3.0, 3.0]), times(None)
    ('3 [2, 4]', '3', '')
    """
    if ratio is None:
        return ""
    low, middle, high = ratio
    return f"{middle:.3g}" if low == high else f"{middle:.3g} [{low:.3g}, {high:.3g}]"


def machine(found: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in found["machine"]["versions"].items())
    cores = found["machine"]["cores"]
    return f"{found['machine']['device']['kind']}, {cores} core{'s' if cores != 1 else ''}; {versions}."
