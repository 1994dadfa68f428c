"""Help as a newcomer reads it: it fits a terminal of 80 columns, and its examples are commands that exist."""

import shlex
from contextlib import suppress

import pytest

from stairwise.cli import main, parser
from stairwise.commands import COMMANDS, GROUPS, module
from stairwise.commands.examples import EXAMPLES, REMARKS
from stairwise.commands.parsing import read
from stairwise.lab.registry import manifests

COLUMNS = 80


@pytest.fixture(autouse=True)
def narrow(monkeypatch):
    monkeypatch.setenv("COLUMNS", str(COLUMNS))


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_help_fits_a_terminal_of_80_columns(name, capsys):
    with suppress(SystemExit):  # which argparse ends with
        main([*([name] if name else []), "--help"])
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if len(line) > COLUMNS] == []
    assert "examples:" in lines


def test_the_fields_of_a_target_fit_as_well(capsys):
    assert main(["run", "selection/online", "--help"]) == 0
    out = capsys.readouterr().out
    assert [line for line in out.splitlines() if len(line) > COLUMNS] == []
    assert "  --optimizer {sgd,adam}\n      gradient step (default: sgd)\n" in out
    assert "  --test_lengths VALUES\n" in out


def test_every_command_is_in_one_group_and_has_an_example(capsys):
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert sum(map(len, GROUPS.values())) == len(COMMANDS) == len(EXAMPLES)
    assert set(REMARKS) <= set(COMMANDS)
    for name, about in COMMANDS.items():
        assert f"  {name:12}{about}\n" in out


@pytest.mark.parametrize("example", [words for lines in EXAMPLES.values() for words in lines])
def test_the_examples_are_read_and_name_what_there_is(example):
    name, *words = shlex.split(example.partition(" > ")[0])
    read(parser([name]).commands[name], module(name), words)
    known = {paper["id"] for paper in manifests()} | {
        f"{paper['id']}/{each['id']}"
        for paper in manifests()
        for kind in ("experiments", "figures", "claims", "constructions", "tasks")
        for each in paper[kind]
    }
    named = [word for word in words if word.partition("/")[0] in known and "." not in word.partition("/")[0]]
    assert [word for word in named if word not in known] == []
    assert EXAMPLES[name][0].split()[0] == name
