"""The page on models: its commands and its Python work as printed (a training at a size a test can afford)."""

import json
import shlex

import pytest

from stairwise.cli import main
from tests.guides.page import commands, python, text

PAGE = text("how-to/models")
SMALL = shlex.split(
    "--task.bits 5 --task.size 2 --task.padding 2 --model.width 8 --model.heads 2 --batch 16 --look 16"
    " --budget 64 --test_examples 4 --attention 0"
)


@pytest.mark.slow
def test_every_command_and_every_line_of_python_works_as_printed(tmp_path, monkeypatch, capsys):
    pytest.importorskip("transformers", reason="needs the extra hf")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STAIRWISE_STORE", str(tmp_path / "store"))
    digest = said = ""
    for command in commands(PAGE):
        training = command[0] == "run"
        words = [digest[:8] if word == "DIGEST" else word for word in command]
        assert main([*words, *SMALL, "--json"] if training else words) == 0
        printed = capsys.readouterr().out
        digest = json.loads(printed)["trials"][0]["digest"] if training else digest
        said += printed
    assert "thm4: AttentionOnly of composition/thm4, seed 0" in said
    assert f"decoder: Transformer of parity_cot/kept {digest}, seed 0" in said
    assert "--task.blocks" in said
    space: dict = {}
    for code in python(PAGE):
        exec(compile(code, "models.md", "exec"), space)
    assert space["network"].layers == 4
    assert space["model"].config.n_embd == space["decoder"].table.shape[1] == 8
