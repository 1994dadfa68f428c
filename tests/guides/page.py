"""What a guide prints: its text, its blocks of code, its commands; and whether the command line takes these."""

import re
import shlex
from pathlib import Path

from stairwise.cli import parser
from stairwise.commands import module
from stairwise.commands.parsing import split_fields

ROOT = Path(__file__).parents[2]


def text(name: str) -> str:
    return (ROOT / "docs" / f"{name}.md").read_text()


def blocks(page: str) -> list[tuple[str, str]]:
    """The blocks of code on a page: (language, text)."""
    return re.findall(r"^```(\w*)\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


def python(page: str) -> list[str]:
    return [block for language, block in blocks(page) if language == "python"]


def commands(block: str) -> list[list[str]]:
    """The words of each line that calls stairwise, without that word."""
    return [shlex.split(line)[1:] for line in block.splitlines() if line.startswith("stairwise ")]


def parsed(command: list[str]):
    """Options and fields of a command, or SystemExit where it is none."""
    top = parser()
    name, *rest = command
    assert name in top.commands
    rest = [word for word in rest if word != "--help"]
    takes_fields = hasattr(module(name), "configs_of")
    plain, fields = split_fields(rest, top.commands[name].flags) if takes_fields else (rest, {})
    return top.parse_args([name, *plain]), fields
