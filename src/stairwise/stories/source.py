"""Reads the pages: a few fields, then screens, each a heading with a name and Markdown below it."""

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
PAPERS = ("selection", "lego", "composition", "parity_onestep", "parity_cot")


class Screen(NamedTuple):
    """One idea: the name that links use, the heading, and the Markdown."""

    name: str
    title: str
    text: str


class Question(NamedTuple):
    """A question, and the name of the screen that answers it."""

    text: str
    screen: str


class Story(NamedTuple):
    """A page as it is written."""

    paper: str
    title: str
    lead: str
    screens: list[Screen]
    questions: list[Question]


def read(paper: str) -> Story:
    """The page of a paper, with its questions."""
    text = (HERE / "pages" / f"{paper}.md").read_text(encoding="utf-8")
    head, *rest = re.split(r"^## (.+) \{#([a-z-]+)\}\n", text, flags=re.MULTILINE)
    fields = dict(line.split(": ", 1) for line in head.strip().splitlines())
    parts = zip(rest[::3], rest[1::3], rest[2::3], strict=True)
    screens = [Screen(name, title, body.strip()) for title, name, body in parts]
    return Story(paper, fields["title"], fields["lead"], screens, questions()[paper])


@cache
def questions() -> dict[str, list[Question]]:
    """What a reader of each paper would ask: lines `1. Question? (screen)` under the heading of the paper."""
    text = (HERE / "questions.md").read_text(encoding="utf-8")
    _, *parts = re.split(r"^## `?(\w+)`?\n", text, flags=re.MULTILINE)
    pattern = re.compile(r"^\d+\. (.+\?) \(([a-z-]+)\)$", re.MULTILINE)
    return {
        paper: [Question(found[1], found[2]) for found in pattern.finditer(body)]
        for paper, body in zip(parts[::2], parts[1::2], strict=True)
    }
