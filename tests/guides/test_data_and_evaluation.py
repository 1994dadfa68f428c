"""The how-to pages' commands and Python run as printed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from stairwise.cli import main
from stairwise.lab.data.check import problem_with
from stairwise.lab.data.formats import WRITERS, read_header
from tests.guides.page import blocks, commands, python, text
from tests.language import need_transformers, save_tiny_model

PAGES = {name: text(f"how-to/{name}") for name in ("data", "evaluate")}
COMMANDS = {name: commands(page) for name, page in PAGES.items()}
PYTHON = {name: python(page) for name, page in PAGES.items()}


def test_every_command_of_the_data_page_writes_its_file(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for command in COMMANDS["data"]:
        assert main(command) == 0, capsys.readouterr().err
    files = [path for path in tmp_path.iterdir() if path.is_file() and path.name != "croissant.json"]
    assert {read_header(path)["format"] for path in files} == set(WRITERS)
    train, test, again = (Path(f"{name}.jsonl").read_text().splitlines() for name in ("train", "test", "again"))
    assert train == again
    assert (len(train), len(test)) == (1000, 200)
    assert not {json.loads(line)["prompt"] for line in train} & {json.loads(line)["prompt"] for line in test}
    assert json.loads(Path("croissant.json").read_text())["name"] == "stairwise-lego"
    assert Path("harness/stairwise_lego.yaml").is_file()
    assert problem_with(read_header(Path("test.jsonl")), json.loads(test[-1])) is None


def test_the_record_of_the_data_page_is_one():
    (record,) = (block for language, block in blocks(PAGES["data"]) if language == "json")
    options = {"action": "C6", "variables": 24, "length": 2, "order": "chain", "distractors": 0, "tell": False}
    header = {"task": "lego/lego", "options": options, "cot": True, "drawn": {}, "unit": 1}
    assert problem_with(header, json.loads(record)) is None


def test_the_python_of_the_data_page_runs(tmp_path, monkeypatch, capsys):
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    others, score, plain, loader, _ = PYTHON["data"]
    assert main(next(command for command in COMMANDS["data"] if "train.jsonl" in command)) == 0
    exec(compile(others, "data.md", "exec"), {})
    exec(compile(score, "data.md", "exec"), {})
    assert capsys.readouterr().out == "1000\nTrue (True, True) False\n"
    exec(compile(plain, "data.md", "exec"), {})
    assert capsys.readouterr().out.count("->") == 3
    space: dict = {}
    exec(compile(loader, "data.md", "exec"), space)
    assert space["inputs"].shape == space["labels"].shape == (100, 34)


@pytest.mark.slow
def test_workers_of_a_loader_start_without_a_warning(tmp_path):
    pytest.importorskip("torch")
    (tmp_path / "script.py").write_text(PYTHON["data"][-1])
    done = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "script.py"], cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "1000\n"), done.stderr
    assert "fork" not in done.stderr


def test_the_python_of_the_evaluation_page_runs(capsys):
    for code in PYTHON["evaluate"]:
        exec(compile(code, "evaluate.md", "exec"), {})
    lines = capsys.readouterr().out.splitlines()
    assert [float(line.split()[0]) for line in lines[:2]] == [2, 4]
    assert all(0.2 < float(line.split()[1]) < 0.45 for line in lines[:2])  # three values
    assert len(json.loads(lines[2])) == 4


def test_the_commands_of_the_evaluation_page_run(tmp_path, capsys):
    need_transformers()
    save_tiny_model(tmp_path, ["Q: x1 = [2 0 1](x3); x3 = 1; x1 = ?", "A: x1 = 0. Answer: 0"] * 20)
    capsys.readouterr()
    for command in COMMANDS["evaluate"]:
        small = [str(tmp_path) if word == "MODEL" else "2" if word == "100" else word for word in command]
        assert main(small) == 0, capsys.readouterr().err
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]
    printed = next(line for line in PAGES["evaluate"].splitlines() if line.startswith("length "))
    assert shown[1] == printed.split()
