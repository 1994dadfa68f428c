"""What the stories show that is computed: one module per paper, each with a function `numbers`.

`python -m stairwise.stories.numbers` writes what they return to `kept.json`; a test compares the two.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from stairwise.lab.contract.latex import plain

Family = tuple[str, list[dict[str, Any]]]


def line(name: str, x: Iterable[Any], y: Iterable[Any], style: str = "line") -> dict[str, Any]:
    """One curve; `style` is line, dash or dots."""
    points = [(float(a), float(b)) for a, b in zip(x, y, strict=True)]
    return {
        "name": plain(name),
        "x": [_short(a) for a, _ in points],
        "y": [_short(b) for _, b in points],
        "style": style,
    }


def plot(x: str, y: str, families: Sequence[Family], *, log: str = "", choose: str = "") -> dict[str, Any]:
    """Curves to compare at one x; `choose` names what tells one family of curves from the next."""
    shown = [{"label": plain(label), "lines": lines} for label, lines in families]
    return {"x": plain(x), "y": plain(y), "log": log, "choose": plain(choose), "families": shown}


def _short(value: float) -> float:
    """Six digits: more than a reader or a plot needs."""
    return float(f"{value:.6g}")
