"""Tables of timings, from the files that `stairwise bench -o docs/results/bench/NAME.json` has written."""

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "results" / "bench"
HEAD = ("work", "unit", "Stairwise, ms", "PyTorch eager, ms", "times", "compiled, ms", "times")
SHARES = {"share of matrix rate": "share of the matrix rate", "waiting share": "waiting"}  # what a GPU adds to a row
MEASURED = ("model TFLOP/s", "device busy, ms")
SYMBOLS = {"W_KQ": "$W_{KQ}$", "d_e=": "$d_e$ = "}
MEMORY = ("peak so far, MB", "limit, MB")  # of the process, not of the row


def table(name: str) -> str:
    """One line per row, and below it what both sides ran on.

    A row that failed says so in the place of its numbers. On a GPU a second table says how busy the device was.
    """
    found = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    parts = ["\n".join([*head(HEAD), *map(line, found["rows"])]), machine(found)]
    busy = [row for row in found["rows"] if any(isinstance(row["facts"].get(name), float) for name in SHARES)]
    if busy:
        parts.append("\n".join([*head(("work", *MEASURED, *SHARES.values())), *map(device_line, busy)]))
    shown = {*SHARES, *MEASURED, *MEMORY}
    facts = [
        (row["work"], name, value)
        for row in found["rows"]
        for name, value in row["facts"].items()
        if name not in shown and not name.endswith("matrix TFLOP/s")
    ]
    if facts:
        parts.append("\n".join(f"- {work}: {fact}: {told(value)}." for work, fact, value in facts))
    return "\n\n".join(parts)


def head(names: Sequence[str]) -> list[str]:
    return [f"| {' | '.join(names)} |", f"|{' --- |' * len(names)}"]


def device_line(row: dict[str, Any]) -> str:
    facts = row["facts"]
    numbers = [told(facts[name]) if name in facts else "" for name in MEASURED]
    # kernels of a graph may take less time than one by one, as they are profiled: then nothing waits
    shares = [f"{max(0.0, facts[name]):.0%}" if name in facts else "" for name in SHARES]
    return f"| {' | '.join([described(row), *numbers, *shares])} |"


def told(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def described(row: dict[str, Any]) -> str:
    against = f", against {row['mirror']}" if row["mirror"] else ""
    work = row["work"]
    for plain, typeset in SYMBOLS.items():
        work = work.replace(plain, typeset)
    return f"`{row['bench']}`: {work}{against}"


def line(row: dict[str, Any]) -> str:
    begun = [described(row), row["unit"]]
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
