"""Figures as the page shows them: drawn from the largest preset that is complete in the store, inlined as data."""

import base64
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from stairwise.lab import api
from stairwise.lab.contract import Experiment, Figure
from stairwise.lab.record import StoredTrial
from stairwise.report.words import device_of, distinct, moment, plain, seconds_of, versions_of

LARGEST_FIRST = ("gpu", "paper", "quick")
SVG_BYTES = 500_000
KINDS = {".svg": "image/svg+xml", ".png": "image/png"}
PIXELS_PER_INCH = 130  # a column-wide figure is then comfortable to read on a screen


@dataclass(frozen=True)
class Picture:
    """A figure and the trials it stands on: drawn (`source`, a data URI), or why it could not be (`problem`)."""

    figure: Figure
    experiment: Experiment
    preset: str = ""
    records: tuple[StoredTrial, ...] = ()
    source: str = ""
    width: int = 0
    problem: str = ""

    @property
    def command(self) -> str:
        return f"stairwise run {self.experiment.name} --preset {self.preset or next(iter(self.experiment.presets))}"

    @property
    def seeds(self) -> list[int]:
        return sorted({record.seed for record in self.records})

    @property
    def arms(self) -> list[str]:
        return list(dict.fromkeys(record.arm for record in self.records if record.arm))

    @property
    def diverged(self) -> int:
        return sum(record.status == "diverged" for record in self.records)

    @property
    def seconds(self) -> float:
        return sum(seconds_of(record.run) for record in self.records)

    @property
    def device(self) -> str:
        return distinct(device_of(record.run) for record in self.records)

    @property
    def versions(self) -> str:
        return distinct(versions_of(record.run) for record in self.records)

    def made_by_other_code(self, source_hash: str | None) -> int:
        """How many of the trials say that they were made by code that is not the installed one."""
        made = [record.run.get("source_hash") for record in self.records]
        return sum(source_hash is not None and each is not None and each != source_hash for each in made)


def pictures(
    experiment: Experiment, stored: Mapping[str, StoredTrial], begun: Callable[[Figure], Any]
) -> list[Picture]:
    """The experiment's figures, drawn where all trials of some preset are among the stored ones (by digest)."""
    made = []
    for figure in experiment.figures:
        begun(figure)
        try:
            preset, records = _complete(experiment, stored)
        except Exception as error:
            made.append(Picture(figure, experiment, problem=_message(error)))
            continue
        made.append(_picture(figure, experiment, preset, records) if preset else Picture(figure, experiment))
    return made


def _complete(experiment: Experiment, stored: Mapping[str, StoredTrial]) -> tuple[str, tuple[StoredTrial, ...]]:
    """The largest preset that is stored completely, and its records."""
    if not stored:
        return "", ()
    known = [name for name in LARGEST_FIRST if name in experiment.presets]
    for preset in dict.fromkeys([*known, *experiment.presets]):
        trials = experiment.trials(preset)
        if all(trial.digest in stored for trial in trials):
            return preset, tuple(stored[trial.digest].of(trial) for trial in trials)
    return "", ()


def _picture(figure: Figure, experiment: Experiment, preset: str, records: tuple[StoredTrial, ...]) -> Picture:
    import matplotlib.pyplot as plt

    open_before = set(plt.get_fignums())
    try:
        source, width = _drawn(figure, records)
    except Exception as error:  # whatever a paper's drawing code does, the rest of the page stands
        return Picture(figure, experiment, preset, records, problem=_message(error))
    finally:
        for left_open in set(plt.get_fignums()) - open_before:
            plt.close(left_open)
    return Picture(figure, experiment, preset, records, source, width)


def _drawn(figure: Figure, records: tuple[StoredTrial, ...]) -> tuple[str, int]:
    """The drawing as a data URI (SVG; PNG where that would be too large or broken), and its width in pixels."""
    drawing = api.draw(figure, records)
    width = round(float(drawing.get_figwidth()) * PIXELS_PER_INCH)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "figure.svg")
        api.save_figure(drawing, path)
        if path.stat().st_size > SVG_BYTES or not _well_formed(path):
            path = path.with_suffix(".png")
            api.save_figure(drawing, path)
        return f"data:{KINDS[path.suffix]};base64,{base64.b64encode(path.read_bytes()).decode()}", width


def _well_formed(svg: Path) -> bool:
    """A control code in a label is a letter to Matplotlib and an error to every reader of XML."""
    try:
        ElementTree.parse(svg)
    except ElementTree.ParseError:
        return False
    return True


def _message(error: Exception) -> str:
    return plain(f"{type(error).__name__}: {error}")[:500]


def when(picture: Picture) -> str:
    """The day and minute at which the first of its trials was begun."""
    timings = [record.run.get("timing") for record in picture.records]
    started = [timing["started"] for timing in timings if isinstance(timing, Mapping) and "started" in timing]
    return min(map(moment, started), default="-")
