"""`stairwise new-paper`: what it writes is a project of its own, and bad input writes nothing."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import jax
import pytest

from stairwise.cli import main
from stairwise.skeleton import write
from stairwise.skeleton.paper import PAPER

NEWEST = 'One "step" isn\'t 50% \\ {enough} — Γ⁻¹'


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["My-Paper"], ["name=My-Paper", "identifier", "such as my_paper"]),
        (["9lives"], ["name=9lives", "identifier", "such as lives"]),
        (["class"], ["name=class", "keyword of Python"]),
        (["../out"], ["name=../out", "identifier", "such as out"]),
        (["x" * 41], ["at most 40"]),
        ([""], ["name=", "such as my_paper"]),
        (["selection"], ["name=selection", "installed paper", "stairwise.papers.selection"]),
        (["json"], ["name=json", "installed module"]),
        (["fresh", "--into", "full"], ["into=full", "new or empty"]),
        (["fresh", "--into", "full/file"], ["into=full/file", "must be a folder"]),
        (["fresh", "--into", "no/where"], ["into=no/where", "a folder that exists"]),
        (["fresh", "--title", "two\nlines"], ["title", "one printable line"]),
        (["fresh", "--title", ""], ["title", "1..200"]),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(here, capsys, arguments, words):
    (here / "full").mkdir()
    (here / "full" / "file").touch()
    assert main(["new-paper", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    assert all(word in line for word in words), line
    assert {path.relative_to(here).as_posix() for path in here.rglob("*")} == {"full", "full/file"}


def test_a_project_that_cannot_be_put_in_place_leaves_nothing_behind(here, capsys, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "replace", refuse)
    assert main(["new-paper", "fresh"]) == 2
    assert capsys.readouterr().err == "stairwise: cannot write fresh: Permission denied\n"
    assert list(here.iterdir()) == []


def test_the_project_has_every_file_under_its_own_name(here, capsys):
    assert main(["new-paper", "k_hop", "--title", NEWEST]) == 0
    install, test, verify = capsys.readouterr().out.splitlines()[1:]
    python = shlex.split(install)[0]  # the one that this is, whatever a shell calls python
    assert Path(shutil.which(python) or "").samefile(sys.executable)
    assert shlex.split(install)[1:] == ["-m", "pip", "install", "-e", "k_hop[test]"]
    assert shlex.split(test) == [python, "-m", "pytest", "k_hop"]
    assert shlex.split(verify) == [python, "-m", "stairwise", "verify", "k-hop"]
    files = {path.relative_to(here / "k_hop").as_posix() for path in (here / "k_hop").rglob("*") if path.is_file()}
    parts = ("__init__", "config", "task", "model", "theory", "claims", "presets", "train", "figures")
    assert files == {"pyproject.toml", "tests/test_k_hop.py", "src/k_hop/README.md"} | {
        f"src/k_hop/{part}.py" for part in parts
    }
    project = tomllib.loads((here / "k_hop" / "pyproject.toml").read_text())
    assert project["project"]["name"] == "k-hop"
    assert project["project"]["description"] == NEWEST
    assert project["project"]["entry-points"]["stairwise.papers"] == {"k-hop": "k_hop:PAPER"}
    for file in files:
        text = (here / "k_hop" / file).read_text()
        assert not re.search(r"stairwise\.skeleton|marked-token|Attention finds the marked token", text)
        if file.endswith(".py"):
            assert "To change:" in text
    page = (here / "k_hop" / "src" / "k_hop" / "README.md").read_text()
    for heading in (f"# {NEWEST}", "**Task.**", "**Model.**", "## Where each statement lives", "## Errata"):
        assert heading in page


def test_the_new_package_says_who_it_is_and_starts_no_device(here):
    write.new_paper("k_hop", "empty", NEWEST)
    code = "from k_hop import PAPER; from jax._src import xla_bridge; assert not xla_bridge._backends; "
    code += "print(PAPER.id, PAPER.title, sep='|')"
    path = ":".join([str(here / "empty" / "src"), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONPATH": path, "PYTHONUTF8": "1"}
    )
    assert done.stdout == f"k-hop|{NEWEST}\n", done.stderr


@pytest.mark.skipif(shutil.which("ruff", path=str(Path(sys.executable).parent)) is None, reason="ruff is not installed")
def test_the_new_package_is_formatted_and_lints(here):
    write.new_paper("k_hop")
    ruff = str(Path(sys.executable).with_name("ruff"))
    for check in (["check"], ["format", "--check"]):
        done = subprocess.run([ruff, *check, "k_hop"], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("into", ["empty", "."])
def test_an_empty_folder_is_filled(here, monkeypatch, into):
    (here / "empty").mkdir()
    if into == ".":
        monkeypatch.chdir(here / "empty")
    assert write.new_paper("fresh", into) == Path(into)
    assert {path.name for path in (here / "empty").iterdir()} == {"pyproject.toml", "src", "tests"}
    assert [path.name for path in here.iterdir()] == ["empty"]


def test_an_empty_folder_is_empty_again_where_writing_fails(here, capsys, monkeypatch):
    write_text = Path.write_text

    def full(path, *words, **more):
        if path.name == "theory.py":
            raise OSError(28, "No space left on device")
        return write_text(path, *words, **more)

    (here / "empty").mkdir()
    monkeypatch.setattr(Path, "write_text", full)
    assert main(["new-paper", "fresh", "--into", "empty"]) == 1
    assert capsys.readouterr().err == "stairwise: cannot write empty: No space left on device\n"
    assert list((here / "empty").iterdir()) == []


def test_the_closed_form_of_the_skeleton_holds_at_sizes_it_does_not_print():
    claim = PAPER.claim("thm1")
    with jax.enable_x64(True):
        verdict = claim.at(type(claim.cases[0])(length=3, score=-2.2), 0)
    assert verdict.status == "holds"
    assert verdict.required == 1e-12
