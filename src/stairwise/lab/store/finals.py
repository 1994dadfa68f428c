"""The last values of stored measurements over seeds."""

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from stairwise.lab.store.trial import StoredTrial


def finals(records: Iterable[StoredTrial], *, arms: bool) -> list[dict[str, Any]]:
    """The last value of every metric: median, lowest and highest over the records (of each arm, with `arms`)."""
    values: dict[tuple[str, str], list[float]] = {}
    for record in records:
        for name, value in record.finals().items():
            values.setdefault((record.arm if arms else "", name), []).append(value)
    return [
        {
            "arm": arm,
            "metric": name,
            "median": median(column),
            "lowest": min(column, key=_nan_last),
            "highest": -min((-value for value in column), key=_nan_last),
            "trials": len(column),
        }
        for (arm, name), column in values.items()
    ]


def median(values: Sequence[float]) -> float:
    """The median; NaN when any value is."""
    return math.nan if any(math.isnan(value) for value in values) else statistics.median(values)


def _nan_last(value: float) -> float:
    return math.inf if math.isnan(value) else value
