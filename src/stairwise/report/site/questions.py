"""The questions asked of every paper: a table filled from the store, and one figure of its numbers."""

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from stairwise.lab.contract.answers import QUESTIONS, Measured
from stairwise.lab.contract.paper import Paper
from stairwise.lab.contract.plots import COLOURS, COLUMN, house_style
from stairwise.report.pictures import message, none_left_open
from stairwise.report.site.sets import TrialSet
from stairwise.words import is_number, plain

LOGARITHMIC = ("samples", "steps")
PAIRED = {"supervision": ("with", "without"), "extrapolation": ("beyond", "within")}


@dataclass(frozen=True)
class AnswerCell:
    """One paper's answer to one question: what it says, and what was measured, or why nothing was."""

    says: str = ""
    experiment: str = ""
    preset: str = ""
    text: str = ""
    value: float | None = None
    other: float | None = None
    missing: str = ""
    problem: str = ""


def cell(paper: Paper, question: str, sets: Mapping[str, Sequence[TrialSet]]) -> AnswerCell:
    answer = next((each for each in paper.answers if each.question == question), None)
    if answer is None:
        return AnswerCell()
    if answer.read is None:
        return AnswerCell(answer.says)
    name = f"{paper.id}/{answer.experiment}"
    found = sets.get(name, ())
    if not found:
        preset = next(iter(paper.experiment(answer.experiment).presets))
        return AnswerCell(answer.says, name, missing=f"stairwise run {name} --preset {preset}")
    return _measured(answer.says, answer.read, name, found[0])


def _measured(says: str, read: Callable[[list[Any]], Measured], name: str, found: TrialSet) -> AnswerCell:
    about = f"{found.preset or 'other'}, {len(found.seeds)} seed{'s' if len(found.seeds) != 1 else ''}"
    try:
        with none_left_open():
            measured = read(list(found.records))
        value, other = (each if is_number(each) else None for each in (measured.value, measured.other))
        return AnswerCell(says, name, about, plain(measured.text), value, other)
    except Exception as error:  # records that the paper's function did not expect
        return AnswerCell(says, name, about, problem=message(error))


def as_data(cells: Mapping[str, Mapping[str, AnswerCell]]) -> dict[str, Any]:
    return {paper: {question: asdict(each) for question, each in row.items()} for paper, row in cells.items()}


def figure(cells: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> bytes:
    """One panel a question, one row a paper, a dot where the store has a number."""
    import matplotlib.pyplot as plt

    papers = list(cells)
    with house_style():
        drawing, panels = plt.subplots(
            1, len(QUESTIONS), figsize=(2.6 * COLUMN, 0.34 * len(papers) + 1.1), sharey=True, squeeze=False
        )
        for panel, (question, (_, unit)) in zip(panels[0], QUESTIONS.items(), strict=True):
            _panel(panel, question, unit, [row[question] for row in cells.values()])
        panels[0][0].set_yticks(range(len(papers)), papers)
        panels[0][0].set_ylim(len(papers) - 0.5, -0.5)
        buffer = io.BytesIO()
        drawing.savefig(buffer, format="svg", metadata={"Date": None})
        plt.close(drawing)
    return buffer.getvalue()


def _panel(panel: Any, question: str, unit: str, column: Sequence[Mapping[str, Any]]) -> None:
    names = PAIRED.get(question, ("", ""))
    for row, each in enumerate(column):
        value, other = each["value"], each["other"]
        if value is not None and other is not None:
            panel.plot([other, value], [row, row], color="0.6", linewidth=1, zorder=1)
        if other is not None:
            panel.plot(other, row, "o", mfc="white", color=COLOURS[1], markersize=5, zorder=2)
        if value is not None:
            panel.plot(value, row, "o", color=COLOURS[0], markersize=5, zorder=3)
    for label, style in zip(names, ({"color": COLOURS[0]}, {"color": COLOURS[1], "mfc": "white"}), strict=True):
        if label:
            panel.plot([], [], "o", markersize=5, label=label, **style)
    if names[0]:
        panel.legend(loc="lower center", bbox_to_anchor=(0.5, 1.1), ncols=2, handletextpad=0.1, columnspacing=0.8)
    panel.set_title(question)
    panel.set_xlabel(unit.partition(",")[0], fontsize=7)
    if question in LOGARITHMIC:
        panel.set_xscale("log")
        values = [each["value"] for each in column if each["value"]]
        panel.set_xlim(0.5, 20 * max(values, default=10))
        panel.xaxis.set_minor_formatter("")
    else:
        panel.set_xlim(-0.05, 1.1)
