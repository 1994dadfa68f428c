"""Data for the site's script: chunks that are `.js` files, since a page opened from disk cannot fetch.

A chunk hands one JSON value to the script: `stairwise.receive("name", {...})`. JSON is escaped so far that no string in
it can end a script element or a line: "<", ">", "&" and the two separators that old readers take for line ends.
"""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stairwise.lab.files import StoreError
from stairwise.lab.record import StoredTrial
from stairwise.report.words import plain

CHUNK_BYTES = 600_000
POINTS = 60_000  # of one metric, over all trials
LONGEST, SHORTEST = 400, 24  # points of one series
ESCAPES = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


def chunk(name: str, value: Any) -> bytes:
    """The file that hands `value` to the script.

    >>> chunk("x", {"name": "</script>"})
    b'stairwise.receive("x",{"name":"\\\\u003c/script\\\\u003e"});\\n'
    """
    return f"stairwise.receive({to_json(name)},{to_json(value)});\n".encode("ascii")


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


def metrics_of(records: Sequence[StoredTrial]) -> dict[str, tuple[str, str]]:
    """Every metric of the records, by a name of its own: the stage is part of it where there are several."""
    found: dict[tuple[str, str], None] = {}
    for record in records:
        pairs = record.table().select(["stage", "name"]).group_by(["stage", "name"], use_threads=False).aggregate([])
        found |= dict.fromkeys(zip(pairs["stage"].to_pylist(), pairs["name"].to_pylist(), strict=True))
    several = len({stage for stage, _ in found}) > 1
    return {plain(f"{stage}: {name}" if several else name): (stage, name) for stage, name in found}


def thinned(steps: np.ndarray, values: np.ndarray, points: int) -> tuple[np.ndarray, np.ndarray]:
    """At most about `points` of a series: both ends, and the lowest and the highest of every stretch."""
    if len(steps) <= points:
        return steps, values
    kept = {0, len(steps) - 1}
    for stretch in np.array_split(np.arange(len(steps)), max(1, points // 2 - 1)):
        inside = values[stretch]
        if np.isnan(inside).all():
            kept.add(int(stretch[0]))
        else:
            kept |= {int(stretch[np.nanargmin(inside)]), int(stretch[np.nanargmax(inside)])}
    chosen = sorted(kept)
    return steps[chosen], values[chosen]


def series_chunks(prefix: str, records: Sequence[StoredTrial]) -> tuple[dict[str, bytes], list[dict[str, Any]]]:
    """The series of every metric of every trial, packed into files; and the list of metrics, with where each is.

    A metric is {"steps": [list, ...], "of": {trial: [number of its list of steps, values]}}.
    """
    points = int(np.clip(POINTS // max(1, len(records)), SHORTEST, LONGEST))
    files: dict[str, bytes] = {}
    listed: list[dict[str, Any]] = []
    packed: dict[str, Any] = {}
    size = 0

    def flush() -> None:
        nonlocal packed, size
        if packed:
            name = f"{prefix}/{len(files)}"
            files[f"data/{name}.js"] = chunk(name, packed)
        packed, size = {}, 0

    for label, (stage, name) in metrics_of(records).items():
        metric = _metric(records, stage, name, points)
        length = len(to_json(metric))
        if size + length > CHUNK_BYTES:
            flush()
        packed[label], size = metric, size + length
        longest = max((len(values) for _, values in metric["of"].values()), default=0)
        place = f"{prefix}/{len(files)}"
        listed.append({"name": label, "file": place, "points": longest, "trials": list(metric["of"])})
    flush()
    return files, listed


def _metric(records: Sequence[StoredTrial], stage: str, name: str, points: int) -> dict[str, Any]:
    axes: dict[tuple[int, ...], int] = {}
    of: dict[str, Any] = {}
    for number, record in enumerate(records):
        try:
            steps, values = thinned(*record.series(name, stage), points)
        except StoreError:  # this trial did not measure it, or did not get as far as that stage
            continue
        axis = axes.setdefault(tuple(int(step) for step in steps), len(axes))
        of[str(number)] = [axis, [short(value) for value in values]]
    return {"steps": [list(axis) for axis in axes], "of": of}


def trial_facts(record: StoredTrial) -> dict[str, Any]:
    return {"digest": record.digest, "seed": record.seed, "status": plain(record.status)}


def set_facts(
    id: str,
    label: str,
    members: Sequence[tuple[int, str]],
    config: Mapping[str, Any],
    metrics: Sequence[Mapping[str, Any]],
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
    }
