"""A trial under the microscope as a chunk of data: maps in 16 bits, small enough to open at once.

Numbers are fractions of the range of their map over all frames (65534 steps; 65535 means "not there"), in base64.
A map that is too large keeps evenly chosen frames first, then is pooled: of every tile the entry that is largest in
size stays, since what one looks for here is sparse and an average would hide it.
"""

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np

from stairwise.lab.contract.experiment import Experiment
from stairwise.lab.contract.microscope import Map, MapAxis, Microscope, Overlay
from stairwise.lab.store.trial import StoredTrial
from stairwise.report.site.data import chunk, short, thinned
from stairwise.report.site.sets import TrialSet
from stairwise.words import plain

CELLS = 360_000  # of all maps of a trial over all frames: just under a megabyte
FRAMES = 40
SIDE = 160
CIRCLES = 4000
CURVE_POINTS = 300
TRIALS = 12  # of one experiment
ABSENT = 65535


def chosen_trials(chosen: TrialSet) -> list[StoredTrial]:
    """Trials of a set: one seed of every arm, then the next, as many as are shown."""
    by_arm: dict[str, list[StoredTrial]] = {}
    for record in chosen.records:
        by_arm.setdefault(record.arm, []).append(record)
    rounds = range(max(map(len, by_arm.values())))
    order = [records[number] for number in rounds for records in by_arm.values() if number < len(records)]
    return order[:TRIALS]


def scope_chunk(name: str, experiment: Experiment, record: StoredTrial) -> bytes | None:
    """The trial's microscope; None where the trial kept nothing to look at."""
    seen = experiment.microscope(record) if experiment.microscope else None
    return None if seen is None else chunk(name, scope_data(seen))


def scope_data(seen: Microscope) -> dict[str, Any]:
    frames = _frames(seen)
    budget = CELLS // (len(frames) * len(seen.maps))
    return {
        "says": plain(seen.says),
        "axis": plain(seen.axis),
        "places": [short(seen.places[k]) for k in frames],
        "labels": [plain(seen.labels[k]) for k in frames],
        "maps": [_map(each, frames, budget) for each in seen.maps],
        "curves": [_curve(each) for each in seen.curves],
    }


def _frames(seen: Microscope) -> list[int]:
    """Evenly chosen frames, with the first and the last."""
    total = len(seen.places)
    cells = sum(max(np.size(frame) for frame in each.frames) for each in seen.maps)
    count = min(total, FRAMES, max(8, CELLS // cells))
    return sorted({round(k * (total - 1) / max(1, count - 1)) for k in range(count)})


def _curve(curve: Any) -> dict[str, Any]:
    places, values = (np.asarray(column, dtype=np.float64) for column in (curve.places, curve.values))
    places, values = thinned(places, values, CURVE_POINTS)
    return {
        "name": plain(curve.name),
        "places": [short(place) for place in places],
        "values": [short(value) for value in values],
    }


def _map(shown: Map, frames: Sequence[int], budget: int) -> dict[str, Any]:
    arrays = {k: np.asarray(shown.frames[k], dtype=np.float64) for k in frames}
    finite = np.concatenate([array[np.isfinite(array)].ravel() for array in arrays.values()])
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    axes: list[dict[str, Any]] = []
    made = []
    for k, array in arrays.items():
        tile = tile_of(array.shape, budget)
        rows, columns = _axis(shown.rows_of(k), tile[0]), _axis(shown.columns_of(k), tile[1])
        for axis in (rows, columns):
            if axis not in axes:
                axes.append(axis)
        made.append(
            {
                "rows": axes.index(rows),
                "columns": axes.index(columns),
                "data": encode(pooled(array, tile), low, high),
                "cells": [_cells(overlay, k, tile) for overlay in shown.overlays],
            }
        )
    return {
        "name": plain(shown.name),
        "says": plain(shown.says),
        "low": low,
        "high": high,
        "axes": axes,
        "overlays": [plain(overlay.name) for overlay in shown.overlays],
        "frames": made,
    }


def tile_of(shape: tuple[int, ...], budget: int) -> tuple[int, int]:
    """How many rows and columns one shown cell stands for.

    >>> tile_of((400, 100), 10**6), tile_of((100, 100), 2500)
    ((3, 1), (2, 2))
    """
    tile = [-(-shape[0] // SIDE), -(-shape[1] // SIDE)]
    while -(-shape[0] // tile[0]) * -(-shape[1] // tile[1]) > max(budget, 16):
        longer = int(shape[1] / tile[1] > shape[0] / tile[0])
        tile[longer] += 1
    return tile[0], tile[1]


def pooled(array: np.ndarray, tile: tuple[int, int]) -> np.ndarray:
    """Of every tile the entry that is largest in size; NaN where there is none.

    >>> pooled(np.array([[1.0, -3.0], [2.0, np.nan]]), (2, 2))
    array([[-3.]])
    """
    rows, columns = (-(-size // part) for size, part in zip(array.shape, tile, strict=True))
    padded = np.full((rows * tile[0], columns * tile[1]), np.nan)
    padded[: array.shape[0], : array.shape[1]] = array
    tiles = padded.reshape(rows, tile[0], columns, tile[1]).swapaxes(1, 2).reshape(rows, columns, -1)
    sizes = np.where(np.isfinite(tiles), np.abs(tiles), -1.0)
    largest = np.argmax(sizes, axis=-1)[..., None]
    return np.take_along_axis(tiles, largest, axis=-1)[..., 0]


def encode(array: np.ndarray, low: float, high: float) -> str:
    """16-bit fractions of low..high, little-endian, as base64."""
    span = (high - low) or 1.0
    there = np.isfinite(array)
    fractions = np.where(there, (np.where(there, array, low) - low) / span, 0)
    codes = np.where(there, np.round(np.clip(fractions, 0, 1) * (ABSENT - 1)), ABSENT)
    return base64.b64encode(codes.astype("<u2").tobytes()).decode()


def _axis(axis: MapAxis, tile: int) -> dict[str, Any]:
    labels = [plain(label) for label in axis.labels]
    if tile > 1:
        ends = [(labels[k], labels[min(k + tile, len(labels)) - 1]) for k in range(0, len(labels), tile)]
        labels = [first if first == last else f"{first} … {last}" for first, last in ends]
    return {"title": plain(axis.title), "labels": labels, "blocks": [short(place / tile) for place in axis.blocks]}


def _cells(overlay: Overlay, frame: int, tile: tuple[int, int]) -> list[tuple[int, int]]:
    cells = overlay.cells[frame] if overlay.by_frame else overlay.cells
    return sorted({(int(row) // tile[0], int(column) // tile[1]) for row, column in cells})[:CIRCLES]
