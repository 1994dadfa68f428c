"""The commands of the tutorial on sweeps exist and mean what they say; what needs no cluster runs."""

import re

import pytest

from stairwise.cli import main
from stairwise.lab.cluster.engine import Cluster
from stairwise.lab.run import grid
from stairwise.lab.sweep import SweepRequest
from tests.guides.page import blocks, commands, parsed, python, text

pytestmark = pytest.mark.slow

PAGE = text("tutorials/sweeps")
COMMANDS = commands(PAGE)
SMALL = [
    "--steps",
    "4",
    "--measure_every",
    "2",
    "--test_lengths",
    "30",
    "--test_sparsities",
    "4",
    "--test_examples",
    "8",
]


def test_every_command_is_one_and_every_grid_is_one_of_its_experiment():
    assert {command[0] for command in COMMANDS} == {"run", "sweep", "verify", "runs", "query", "gc"}
    for command in COMMANDS:
        found, fields = parsed(command)
        if command[0] == "sweep":
            SweepRequest.of(found.target, grid.from_words(found.grid), found.preset, found.seeds, fields)


def test_the_first_plan_has_the_numbers_that_the_page_gives(capsys, tmp_path):
    command = next(command for command in COMMANDS if "--dry-run" in command)
    assert main([*command, "--json", "--store", str(tmp_path / "store")]) == 0
    plan = capsys.readouterr().out
    assert '"trials": 32' in plan
    assert '"programs": 2' in plan


def _without(words: list[str], options: list[str]) -> list[str]:
    """The words less these options and their values."""
    return [word for k, word in enumerate(words) if word not in options and (k == 0 or words[k - 1] not in options)]


def test_the_commands_that_need_no_cluster_run_one_after_another(capsys, tmp_path):
    pytest.importorskip("duckdb")
    place = ["--store", str(tmp_path / "store")]
    plain = [command for command in COMMANDS if "--cluster" not in command and command[0] != "verify"]
    for command in plain:
        small = SMALL if command[0] in ("run", "sweep") else []
        quick = _without([word for word in command if word != "--dry-run"], small[::2])
        assert main([*quick, *place, *small]) == 0, capsys.readouterr().err
    said = capsys.readouterr().out
    assert "finished,32" in said  # the four trials of the run are among those of the grid
    assert re.search(r"1 +stochastic +\d", said)


def test_the_job_script_of_the_page_is_what_slurm_is_asked_for(tmp_path):
    pytest.importorskip("dask_jobqueue")
    (toml,) = (block for language, block in blocks(PAGE) if language == "toml")
    (tmp_path / "slurm.toml").write_text(toml + 'interface = "lo"\n')
    cluster = Cluster.parse("slurm", str(tmp_path / "slurm.toml"))
    script = cluster.job_script()
    assert cluster.workers == 4
    for line in ("#SBATCH -p gpu", "#SBATCH --cpus-per-task=4", "#SBATCH -t 02:00:00", "#SBATCH --gres=gpu:1"):
        assert line in script.splitlines()


def test_the_python_of_the_page_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("STAIRWISE_STORE", str(tmp_path / "store"))
    (code,) = python(PAGE)
    small = code.replace(
        '{"steps": 300}', '{"steps": 4, "measure_every": 2, "test_lengths": (30,), "test_examples": 8}'
    )
    space: dict = {}
    exec(compile(small, "sweeps.md", "exec"), space)
    assert capsys.readouterr().out.startswith("Counter({'finished': 16})")
    assert sorted(set(space["table"]["learning_rate"])) == [0.1, 0.215443, 0.464159, 1.0]
