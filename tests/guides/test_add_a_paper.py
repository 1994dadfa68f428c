"""The tutorial on adding a paper prints the code of the example package and commands that exist."""

import re
import shlex
import tomllib

import pytest

from tests.guides.page import ROOT, commands, parsed, text
from tests.test_conventions import DRAWS, calls

EXAMPLE = ROOT / "examples" / "in_context_regression"
PAGE = text("tutorials/add-a-paper")
BLOCKS = re.findall(r"^`(src/\S+)`\n\n```python\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE)
COMMANDS = [shlex.split(line) for line in PAGE.splitlines() if line.startswith(("stairwise ", "pip ", "python -m "))]


@pytest.mark.parametrize(("place", "code"), BLOCKS)
def test_every_block_of_code_is_a_part_of_the_example(place, code):
    assert code in (EXAMPLE / place).read_text()


def test_no_block_of_code_is_without_its_place():
    assert len(BLOCKS) == PAGE.count("```python") >= 7


def test_every_command_is_one():
    assert {command[0] for command in COMMANDS} == {"stairwise", "pip", "python"}
    names = {parsed(command)[0].command for command in commands(PAGE)}
    assert names == {"new-paper", "verify", "list", "run", "figure", "query", "report"}


def test_the_example_is_a_distribution_that_registers_its_paper():
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())
    assert project["project"]["entry-points"]["stairwise.papers"] == {
        "in-context-regression": "in_context_regression:PAPER"
    }
    assert project["project"]["dependencies"] == ["stairwise>=0.1"]


def test_the_example_keeps_the_conventions_of_papers():
    page = (EXAMPLE / "src" / "in_context_regression" / "README.md").read_text()
    assert "## Errata" in page
    assert "## Where each statement lives" in page
    draws = [call for path in EXAMPLE.rglob("src/**/*.py") for call in calls(path.read_text(), DRAWS)]
    assert draws
    assert [call for call in draws if "dtype" not in call] == []
