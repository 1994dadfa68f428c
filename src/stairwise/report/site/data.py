"""Data for the site's script: chunks that are `.js` files, since a page opened from disk cannot fetch.

A chunk hands one JSON value to the script: `stairwise.receive("name", {...})`. JSON is escaped so far that no string in
it can end a script element or a line: "<", ">", "&" and the two separators that old readers take for line ends.
"""

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stairwise.lab.contract.axes import StepAxes, first_metric
from stairwise.lab.store.trial import StoredTrial
from stairwise.words import plain

CHUNK_BYTES = 600_000
POINTS = 60_000  # of one metric, over all trials
LONGEST, SHORTEST = 400, 24  # points of one series
ESCAPES = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


def chunk(name: str, value: Any) -> bytes:
    """The file that hands `value` to the script.

    >>> chunk("x", {"name": "</script>"})
    b'stairwise.receive("x",{"name":"\\\\u003c/script\\\\u003e"});\\n'
    """
    return chunk_of(name, to_json(value))


def chunk_of(name: str, value: str) -> bytes:
    """The same of what is JSON already."""
    return f"stairwise.receive({to_json(name)},{value});\n".encode("ascii")


def to_json(value: Any) -> str:
    return json.dumps(value, allow_nan=False, separators=(",", ":")).translate(ESCAPES)


def short(value: Any) -> float | int | None:
    """Six digits of a number; None where it is none that a picture can show.

    >>> short(1 / 3), short(float("nan")), short(12.0)
    (0.333333, None, 12)
    """
    value = float(value)
    if not math.isfinite(value):
        return None
    rounded = float(f"{value:.6g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e6 else rounded


def short_numbers(values: Sequence[float]) -> str:
    """A JSON list of numbers as `short` makes them, all at once.

    >>> short_numbers([1 / 3, float("nan"), 12.0, -0.0, 1e6, 1e-7])
    '[0.333333,null,12,0,1000000.0,1e-07]'
    """
    text = "%.6g," * len(values) % tuple(values)
    if "n" in text or "e+" in text or "-0," in text:  # no number, a large one, or one without a sign in JSON
        return to_json([short(value) for value in values])
    return f"[{text[:-1]}]"


def thinned(steps: np.ndarray, values: np.ndarray, points: int) -> tuple[np.ndarray, np.ndarray]:
    """At most about `points` of a series: both ends, and the lowest and the highest of every stretch."""
    if len(steps) <= points:
        return steps, values
    stretches = max(1, points // 2 - 1)
    length, longer = divmod(len(steps), stretches)  # the first ones are longer by 1
    kept, begin = [0, len(steps) - 1], 0
    for count, width in ((longer, length + 1), (stretches - longer, length)):
        block = values[begin : begin + count * width].reshape(count, width)
        first = begin + width * np.arange(count)
        for placed in (
            np.where(np.isnan(block), np.inf, block).argmin(1),
            np.where(np.isnan(block), -np.inf, block).argmax(1),
        ):
            kept.extend(first + placed)
        begin += count * width
    chosen = np.unique(kept)
    return steps[chosen], values[chosen]


def _place(step: float) -> float:
    """A place on the x-axis: whole numbers stay whole, others keep six digits."""
    return int(step) if float(step).is_integer() else float(f"{step:.6g}")


@dataclass
class Metric:
    """One metric of many trials: the lists of steps, and by trial, as JSON, the number of its list and its values."""

    axes: dict[tuple[float, ...], int] = field(default_factory=dict)
    steps: dict[bytes, int] = field(default_factory=dict)  # the number of a list, by the steps that it was made of
    of: dict[str, str] = field(default_factory=dict)
    over: dict[str, None] = field(default_factory=dict)  # what the steps count, where there are several things
    longest: int = 0

    def add(self, trial: str, steps: np.ndarray, values: np.ndarray, over: str = "steps") -> None:
        known = steps.dtype.char.encode() + steps.tobytes()
        if known not in self.steps:
            self.steps[known] = self.axes.setdefault(tuple(map(_place, steps.tolist())), len(self.axes))
        self.over.setdefault(over)
        self.of[trial] = f"[{self.steps[known]},{short_numbers(values.tolist())}]"
        self.longest = max(self.longest, len(values))

    def as_json(self) -> str:
        return f'{{"steps":{to_json([list(axis) for axis in self.axes])},"of":{joined(self.of)}}}'


def joined(of: Mapping[str, str]) -> str:
    """A JSON object of values that are JSON already."""
    return "{" + ",".join(f"{to_json(name)}:{text}" for name, text in of.items()) + "}"


def series_chunks(
    prefix: str, records: Sequence[StoredTrial], axes: StepAxes
) -> tuple[dict[str, bytes], list[dict[str, Any]]]:
    """The series of every metric of every trial, packed into files; and the list of metrics, with where each is.

    A metric is {"steps": [list, ...], "of": {trial: [number of its list of steps, values]}}. Trials are read one
    after another, and what is read of one is let go before the next.
    """
    points = int(np.clip(POINTS // max(1, len(records)), SHORTEST, LONGEST))
    found: dict[tuple[str, str], Metric] = {}
    for number, record in enumerate(records):
        for (stage, name), (steps, values) in dataclasses.replace(record).every_series().items():
            axis = axes.of(record.config, stage)
            few, their = thinned(steps, values, points)
            found.setdefault((stage, name), Metric()).add(str(number), axis.places(few), their, axis.title)
    several = len({stage for stage, _ in found}) > 1
    files: dict[str, bytes] = {}
    listed: list[dict[str, Any]] = []
    packed: dict[str, str] = {}

    def flush() -> None:
        if packed:
            name = f"{prefix}/{len(files)}"
            files[f"data/{name}.js"] = chunk_of(name, joined(packed))
        packed.clear()

    for stage, name in list(found):
        metric, label = found.pop((stage, name)), plain(f"{stage}: {name}" if several else name)
        text = metric.as_json()
        if sum(map(len, packed.values())) + len(text) > CHUNK_BYTES:
            flush()
        packed[label] = text
        place = f"{prefix}/{len(files)}"
        over = " or ".join(metric.over)
        listed.append({"name": label, "file": place, "points": metric.longest, "over": over, "trials": list(metric.of)})
    flush()
    return files, listed


def trial_facts(record: StoredTrial) -> dict[str, Any]:
    return {"digest": record.digest, "seed": record.seed, "status": plain(record.status)}


def set_facts(
    id: str,
    label: str,
    members: Sequence[tuple[int, str]],
    config: Mapping[str, Any],
    metrics: Sequence[Mapping[str, Any]],
    opens_with: str = "",
) -> dict[str, Any]:
    """A set of trials as the script sees it: members are (trial, arm), metrics those that one of them measured."""
    trials = {str(trial) for trial, _ in members}
    measured = [metric["name"] for metric in metrics if trials & set(metric["trials"])]
    return {
        "id": id,
        "label": label,
        "members": [list(member) for member in members],
        "config": dict(config),
        "metrics": measured,
        "opens": first_metric(opens_with, measured) if measured else "",
    }
