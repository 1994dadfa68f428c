"""What a paper shows of one trial under the microscope: maps over training (or over anything else) and curves beside.

An experiment names a function ("module:function") that maps a stored record to a `Microscope`, or to None where the
trial kept nothing to look at. It computes nothing new: frames come from the arrays that snapshots left ("stage/W@100")
or that the end of the trial stored, structure that the theory predicts comes from the config and from stored arrays
(secret, tree, hidden permutations), curves come from the metrics. `snapshot_ticks` finds the frames.

The slider need not be time. Maps at several lengths are frames too, each with axes of its own: give `rows`, `columns`
and the cells of overlays as one entry a frame (`by_frame=True`). So the two diagonals of attention to predicates and
answers, stored at lengths 5, 10, 20, are one map with three frames, `axis="length"`, and show how they dilute; a head
that collapses onto a secret is a map of attention rows by step of the chain, frames from its snapshots, with the cell
(step, secret position) in an overlay. Frames are best kept as a few dozen snapshots of small arrays: the report shows
at most 40 frames and pools what is wider than 160 cells.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import entr

Numbers = Sequence[float] | Sequence[int] | np.ndarray


@dataclass(frozen=True)
class MapAxis:
    """What the rows or columns of a map mean: a title, one label an entry, and where a new block begins."""

    title: str
    labels: Sequence[str]
    blocks: Sequence[int] = ()


@dataclass(frozen=True)
class Overlay:
    """Predicted structure, as (row, column) cells that are circled: one list for all frames, or one list a frame."""

    name: str
    cells: Sequence[Any]
    by_frame: bool = False


@dataclass(frozen=True)
class Map:
    """A matrix at every frame; NaN is drawn as "not there". Axes: one for all frames, or one a frame."""

    name: str
    says: str
    frames: Sequence[np.ndarray]
    rows: MapAxis | Sequence[MapAxis]
    columns: MapAxis | Sequence[MapAxis]
    overlays: Sequence[Overlay] = ()

    def __post_init__(self):
        for number, frame in enumerate(self.frames):
            expected = (len(self.rows_of(number).labels), len(self.columns_of(number).labels))
            if np.shape(frame) != expected:
                raise ValueError(f"map {self.name}: frame {number} is {np.shape(frame)}, its labels are {expected}")

    def rows_of(self, frame: int) -> MapAxis:
        return self.rows if isinstance(self.rows, MapAxis) else self.rows[frame]

    def columns_of(self, frame: int) -> MapAxis:
        return self.columns if isinstance(self.columns, MapAxis) else self.columns[frame]


@dataclass(frozen=True)
class Curve:
    """A measurement beside the maps, over the same places as the frames."""

    name: str
    places: Numbers
    values: Numbers


@dataclass(frozen=True)
class Microscope:
    """`places`: where each frame stands on the curves' axis (a tick, a step, a length); `labels`: what to call it."""

    says: str
    axis: str
    places: Numbers
    labels: Sequence[str]
    maps: Sequence[Map]
    curves: Sequence[Curve] = ()

    def __post_init__(self):
        frames = {len(self.places), len(self.labels), *(len(each.frames) for each in self.maps)}
        if len(frames) != 1 or not self.maps:
            raise ValueError(f"microscope: places, labels and frames of maps must be equally many, not {frames}")


def snapshot_ticks(record: Any, name: str) -> list[int]:
    """The ticks at which an array ("stage/W") was kept, in order."""
    kept = [each.rpartition("@")[2] for each in record.arrays() if each.startswith(f"{name}@")]
    return sorted(int(tick) for tick in kept if tick.isdigit())


def frames_of(record: Any, name: str) -> list[np.ndarray]:
    """Those snapshots."""
    return [record.array(f"{name}@{tick}") for tick in snapshot_ticks(record, name)]


def curves_of(record: Any, names: Sequence[str], stage: str | None = None) -> list[Curve]:
    """The metrics of that name which the trial measured."""
    known = set(record.names())
    return [Curve(name, *record.series(name, stage)) for name in names if name in known]


def mean_entropy(attention: np.ndarray) -> float:
    """The mean entropy of rows of attention, in nats; entries that are not there count as nothing.

    >>> round(mean_entropy(np.array([[0.5, 0.5, np.nan], [1.0, 0.0, 0.0]])), 4)  # log(2)/2
    0.3466
    """
    rows = np.nan_to_num(np.asarray(attention, dtype=np.float64))
    return float(np.mean(np.sum(entr(rows), axis=1)))
