"""How words become options and fields: the target is found by its place, and what is unknown is said to be."""

import pytest

from stairwise.cli import main, parser
from stairwise.commands import COMMANDS, module
from stairwise.commands.parsing import split_fields


def refused(capsys, *words: str) -> str:
    """The one line with which a command is refused."""
    assert main(list(words)) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    return err


def test_fields_and_flags_are_told_apart():
    known = {"--preset", "--json"}
    rest, fields = split_fields(["a/b", "--x.y", "-3", "--preset", "gpu", "--z=1=2", "--json", "--last"], known)
    assert rest == ["a/b", "--preset", "gpu", "--json"]
    assert fields == {"x.y": "-3", "z": "1=2", "last": None}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "selection/online", "--sedes", "2"], "unknown flag --sedes; did you mean --seeds?"),
        (["run", "selection/online", "--dryrun"], "unknown flag --dryrun; did you mean --dry-run?"),
        (["run", "selection/online", "--dryrun", "--json"], "unknown flag --dryrun; did you mean --dry-run?"),
        (["run", "--dryrun", "selection/online"], "unknown flag --dryrun; did you mean --dry-run?"),
        (["run", "selection/online", "--task.lenght", "5"], "unknown flag --task.lenght; did you mean --task.length?"),
        (["run", "selection/online", "--lenght=5"], "unknown flag --lenght; did you mean --task.length?"),
        (
            ["run", "selection/online", "--zzzz", "5"],
            "unknown flag --zzzz (stairwise run --help; fields: attend_query, ",
        ),
        (["verify", "selection/thm3.5", "--detials", "1"], "unknown flag --detials; did you mean --details?"),
        (["data", "lego", "-n", "1", "--spilt", "val"], "unknown flag --spilt; did you mean --split?"),
        (["runs", "--sinse", "2026-11-15"], "unknown flag --sinse; did you mean --since? (stairwise runs --help)"),
        (["list", "--zzzz"], "unknown flag --zzzz (stairwise list --help)"),
    ],
)
def test_an_unknown_flag_is_called_unknown_and_held_against_all_flags_and_fields(capsys, words, said):
    assert said in refused(capsys, *words)


def test_what_else_is_wrong_is_not_blamed_on_a_field(capsys):
    words = ["run", "selection/online", "--steps", "3"]
    assert "seeds=x must be a whole number" in refused(capsys, *words, "--seeds", "x")
    assert "argument --preset: expected one argument" in refused(capsys, *words, "--preset")
    assert "required: PAPER/EXPERIMENT" in refused(capsys, "run", "--steps", "3")


def test_a_field_at_the_end_needs_a_value(capsys):
    assert "--task.length needs a value" in refused(capsys, "run", "selection/online", "--task.length")


@pytest.mark.parametrize(
    ("words", "target", "field"),
    [
        (["run", "--store", "some/folder", "selection/online"], "selection/online", "--task.length"),
        (["run", "--seeds", "none", "selection/online"], None, None),
        (["data", "-o", "x.jsonl", "lego"], "lego", "--length"),
        (["eval", "lego"], "lego", "--length"),
        (["verify", "--preset", "a/b", "selection/thm3.5"], "selection/thm3.5", "--task.length"),
        (["export", "-o", "some/folder"], None, None),
    ],
)
def test_help_is_about_the_target_wherever_it_stands(capsys, words, target, field):
    assert main([*words, "--help"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"usage: stairwise {words[0]}")
    assert ("fields of" in out) == (target is not None)
    if target is not None:
        assert f"  {field} " in out.partition(f"fields of {target}:\n")[2]


def test_every_command_is_a_file_with_flags_and_an_action():
    commands = parser().commands
    assert list(commands) == list(COMMANDS)
    for name, command in commands.items():
        assert callable(module(name).act)
        assert {"--store", "--debug", "--help"} <= set(command.flags)
