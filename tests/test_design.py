"""What the documents say of the code is so: rooms, the walk of one number, and the files that are named."""

import ast
import configparser
import re
import tomllib
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "stairwise"
DESIGN = (ROOT / "docs" / "design.md").read_text()
WALK = re.findall(r"^\| \d+ \| `([\w/]+\.py): ([\w.]+)` \|", DESIGN, re.MULTILINE)
APART = {"papers", "__init__", "__main__", "compiler", "extras"}  # beside the rooms, or below all of them


@cache
def defined(file: str) -> set[str]:
    """The functions, methods (as Class.method) and classes of a file."""
    found = set()
    for node in ast.parse((SOURCE / file).read_text()).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{each.name}" for each in node.body if isinstance(each, ast.FunctionDef)}
    return found


def test_the_walk_of_one_number_has_at_most_thirty_hops_and_each_of_them_exists():
    assert 20 <= len(WALK) <= 30
    assert [f"{file}: {function}" for file, function in WALK if function not in defined(file)] == []


def test_the_rooms_of_the_design_page_are_those_that_the_linter_holds_apart_in_the_same_order():
    rooms = re.findall(r"^(\w+)  +\w", DESIGN.partition("```text\n")[2].partition("```")[0], re.MULTILINE)
    linter = configparser.ConfigParser()
    linter.read(ROOT / ".importlinter")
    layers = [name.removeprefix("stairwise.") for name in linter["importlinter:contract:rooms"]["layers"].split()]
    assert rooms == layers[::-1]
    there = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert there - APART == set(rooms)
    contributing = set(re.findall(r"`(\w+)", (ROOT / "CONTRIBUTING.md").read_text()))
    assert set(rooms) - {"trees"} <= contributing


def test_files_that_documents_and_the_package_name_exist():
    pages = [ROOT / "CONTRIBUTING.md", ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    pages.remove(ROOT / "docs" / "tutorials" / "add-a-paper.md")  # names files of the paper that its reader writes
    pattern = r"`((?:tests|docs|src|examples|benchmarks)/[\w/.-]+)`"
    named = {(page.name, path) for page in pages for path in re.findall(pattern, page.read_text())}
    assert {(page, path) for page, path in named if not (ROOT / path).exists()} == set()
    packed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["sdist"]
    assert [path for path in packed["include"] if not (ROOT / path).exists()] == []
    assert {"src", "tests", "docs", "examples", "benchmarks"} <= set(packed["include"])
