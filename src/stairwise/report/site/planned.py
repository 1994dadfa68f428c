"""What the page of an experiment says before anything of it has run: the question, sizes, arms, cost, one example."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stairwise import words
from stairwise.config import as_text, leaves
from stairwise.lab.contract.experiment import Experiment, Preset
from stairwise.lab.contract.paper import Paper
from stairwise.lab.data.request import data
from stairwise.lab.run.measured import measured

MOST_ARMS = 60  # rows
LONGEST_EXAMPLE = 400  # characters


@dataclass(frozen=True)
class PlannedPreset:
    """One way to run it, and what that costs as far as it is known."""

    name: str
    arms: int
    seeds: int
    cost: str
    note: str

    @property
    def trials(self) -> int:
        return self.arms * self.seeds


@dataclass(frozen=True)
class Plan:
    """An experiment that nobody has run here."""

    about: list[str]
    presets: list[PlannedPreset]
    fields: list[tuple[str, str, str, dict[str, str]]]  # path, meaning, range, value by preset
    arm_fields: list[str]
    arms: list[tuple[str, list[str]]]
    more_arms: int
    examples: list[dict[str, str]]


def planned(experiment: Experiment, paper: Paper) -> Plan:
    """Nothing is run; one example of each task of the paper is drawn."""
    first = next(iter(experiment.presets.values()))
    paths, rows = _arms(first)
    return Plan(
        about=_about(experiment),
        presets=[
            PlannedPreset(name, len(preset.arms), preset.seeds, _cost(experiment, name, preset), preset.note)
            for name, preset in experiment.presets.items()
        ],
        fields=_fields(experiment.presets),
        arm_fields=paths,
        arms=rows[:MOST_ARMS],
        more_arms=max(0, len(rows) - MOST_ARMS),
        examples=[each for task in paper.tasks if (each := _example(task))],
    )


def _about(experiment: Experiment) -> list[str]:
    """The first sentences of its program's module and of its config: how it is run, and what is trained."""
    module = inspect.getmodule(experiment.program)
    found = [inspect.getdoc(each) or "" for each in (module, experiment.Config) if each is not None]
    firsts = [" ".join(text.split("\n\n")[0].split()) for text in found]
    return list(dict.fromkeys(text for text in firsts if text))


def _cost(experiment: Experiment, name: str, preset: Preset) -> str:
    known = measured(experiment.name).get(name)
    if known and known["trials"] == len(preset.arms) * preset.seeds:
        return f"{words.duration(known['seconds'])} ({known['device']})"
    if preset.hours is not None:
        return f"{words.duration(3600 * preset.hours)}, predicted for one GPU"
    return "not measured: add --dry-run to estimate it"


def _fields(presets: Mapping[str, Preset]) -> list[tuple[str, str, str, dict[str, str]]]:
    """Every field with its value in every preset; those that differ between presets first."""
    by_preset = {name: {leaf.path: leaf for leaf in leaves(preset.config)} for name, preset in presets.items()}
    rows = []
    for path, leaf in next(iter(by_preset.values())).items():
        values = {name: _text(known[path].default) for name, known in by_preset.items() if path in known}
        rows.append((path, words.plain(leaf.metadata.get("help") or ""), leaf.range, values))
    return sorted(rows, key=lambda row: len(set(row[3].values())) == 1)


def _arms(preset: Preset) -> tuple[list[str], list[tuple[str, list[str]]]]:
    """The fields in which the arms of a preset differ, and their values by arm; none where there is one arm."""
    if len(preset.arms) < 2:
        return [], []
    values = preset.values
    places = [k for k in range(len(preset.axes)) if len({repr(own[k]) for own in values.values()}) > 1]
    return [preset.axes[k] for k in places], [(arm, [_text(own[k]) for k in places]) for arm, own in values.items()]


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return words.plain(as_text(value)) or "none"


def _example(task: Any) -> dict[str, str]:
    """One example in words; none of a plug-in's task that cannot make one."""
    try:
        record = next(iter(data(task.id, 1)))
    except Exception:  # `stairwise data` says why
        return {}
    found = {name: words.plain(record[name]) for name in ("prompt", "steps", "answer")}
    return {"task": task.id, "says": task.says} | {name: _cut(text) for name, text in found.items()}


def _cut(text: str) -> str:
    """
    >>> _cut("1 " * 300)[-5:]
    '1 1 …'
    """
    return text if len(text) <= LONGEST_EXAMPLE else text[:LONGEST_EXAMPLE].rsplit(" ", 1)[0] + " …"
