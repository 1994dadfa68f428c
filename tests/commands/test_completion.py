"""Facts about `stairwise completion`, asked of a real bash."""

import shutil
import subprocess

import pytest

from stairwise.commands import COMMANDS, completion


def completed(words: list[str]) -> list[str]:
    place = f"COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}"
    script = f'{completion.bash()}\n{place}; _stairwise; echo "${{COMPREPLY[@]}}"'
    return subprocess.run([str(shutil.which("bash")), "-c", script], capture_output=True, text=True).stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_commands_names_and_flags():
    assert completed(["stairwise", "comp"]) == ["completion"]
    assert completed(["stairwise", "run", "lego/len"]) == ["lego/length"]
    assert completed(["stairwise", "verify", "selection/thm3.5"])[0].startswith("selection/thm3.5")
    assert completed(["stairwise", "run", "--see"]) == ["--seeds"]


def test_every_command_and_its_flags_are_in_the_other_shells_scripts_too():
    for script in (completion.fish(), completion.bash(zsh=True)):
        assert all(name in script for name in COMMANDS)
        assert "so-far" in script
