"""Papers that were installed by themselves: found through their entry point, told apart by version and code."""

import json
import logging
import subprocess
import sys

import pytest

import stairwise as sw
from stairwise.config import ConfigError
from stairwise.lab import registry
from stairwise.lab.cluster import remote
from stairwise.lab.ledger.verify import verify
from stairwise.lab.run.execute import source_hash, versions

STUDY = """
from dataclasses import dataclass
from pathlib import Path
from stairwise.lab.contract.checks import equal
from stairwise.config import Config, option
from stairwise.lab.contract.claims import Ledger
from stairwise.lab.contract.experiment import Experiment, Preset
from stairwise.lab.contract.paper import Paper
from stairwise.train.stage import Outcome
LEDGER = Ledger()
@dataclass(frozen=True)
class Sizes(Config):
    rows: int = option(3, "rows", low=1)
def count(config, seed):
    with open(Path(__file__).with_name("calls.txt"), "a") as file:
        file.write("x")
    outcome = Outcome()
    outcome.add("count", 0, {"rows": config.rows})
    return outcome
def single():
    return 1
@LEDGER.exact("thm1", statement="Theorem 1", says="one is one", of=(single,), cases=Sizes())
def one(config, seed):
    yield equal("one", single(), 1)
EXPERIMENT = Experiment("count", "counts", Sizes, {"quick": Preset(Sizes(), seeds=2)}, count, study=True)
PAPER = Paper("ID", "A plug-in", "A. Author", 2026, "-", "-", tuple(LEDGER.claims), (EXPERIMENT,))
"""


def paper(id: str = "plugged") -> str:
    return STUDY.replace("ID", id)


@pytest.mark.parametrize(
    ("text", "value", "why"),
    [
        ("import a_module_that_is_not_there", "plugged_bad:PAPER", "ModuleNotFoundError: No module named"),
        ("PAPER = (", "plugged_bad:PAPER", "SyntaxError: '(' was never closed"),
        ("raise SystemExit(3)", "plugged_bad:PAPER", "SystemExit: 3"),
        ("raise ValueError('two\\nlines')", "plugged_bad:PAPER", "ValueError: two?lines"),
        ("PAPER = 5", "plugged_bad:PAPER", "TypeError: plugged_bad.PAPER must be a stairwise.lab.contract.paper.Paper"),
        ("", "plugged_bad:THESIS", "ValueError: the entry point must be plugged_bad:PAPER"),
    ],
)
def test_a_broken_plug_in_is_one_line_and_leaves_the_others_alone(install, caplog, text, value, why):
    install("bad", {"plugged_bad/__init__.py": text}, value, version="2.3")
    install("plugged", {"plugged/__init__.py": paper()}, "plugged:PAPER")
    with caplog.at_level(logging.WARNING, "stairwise"):
        found = list(registry.modules())
    assert "plugged" in found
    assert "selection" in found
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith(f"stairwise: plug-in bad 2.3 ({value}) is left out: {why}")
    assert "\n" not in line
    assert [id for id in registry.modules() if id == "bad"] == []  # and asking again says nothing new
    assert len(caplog.records) == 1


def test_the_command_line_prints_that_line_and_answers(install, tmp_path):
    install("bad", {"plugged_bad/__init__.py": "import nowhere_at_all"}, "plugged_bad:PAPER")
    call = [sys.executable, "-m", "stairwise.cli", "list", "--json"]
    path = [str(tmp_path), *filter(None, sys.path)]
    done = subprocess.run(
        call, capture_output=True, text=True, env={"PYTHONPATH": ":".join(path), "HOME": "/"}, cwd=tmp_path
    )
    assert done.returncode == 0
    assert "selection" in {each["id"] for each in json.loads(done.stdout)["papers"]}
    (line,) = done.stderr.splitlines()
    assert line.startswith("stairwise: plug-in bad 0.1.0 (plugged_bad:PAPER) is left out: ModuleNotFoundError")


def test_asking_for_a_broken_paper_says_why_it_is_not_there(install):
    install("bad", {"plugged_bad/__init__.py": "1 / 0"}, "plugged_bad:PAPER")
    with pytest.raises(ConfigError, match=r"unknown paper: bad .*left out: bad 0.1.0 .*ZeroDivisionError"):
        registry.paper("bad")


def test_a_plug_in_with_the_id_of_another_paper_is_left_out_and_named(install, caplog):
    install("taken", {"plugged_taken/__init__.py": paper(id="selection")}, "plugged_taken:PAPER")
    install("plugged", {"plugged/__init__.py": paper()}, "plugged:PAPER")
    with caplog.at_level(logging.WARNING, "stairwise"):
        assert registry.modules()["plugged"] == "plugged"
    (line,) = [record.getMessage() for record in caplog.records]
    assert "its paper is called selection, as that of stairwise.papers.selection is" in line
    assert registry.paper("selection").title.startswith("Transformers")


def test_versions_and_hash_of_a_plug_in_are_its_own(install):
    files = {"plugged/__init__.py": f"from plugged import task\n{paper()}", "plugged/task.py": "x = 1"}
    install("my-paper", files, "plugged:PAPER", version="1.4")
    experiment = registry.experiment("plugged/count")
    assert versions(experiment)["my-paper"] == "1.4"
    assert "my-paper" not in versions(registry.experiment("selection/online"))
    asked = remote.code(experiment)
    install("my-paper", {"plugged/task.py": "x = 2"}, "plugged:PAPER", version="1.5")
    there = remote.code_of("plugged/count")
    said = remote.differences(asked, there)
    assert "my-paper 1.5 instead of 1.4" in said
    assert "source of the experiment" in said
    assert "unknown paper: elsewhere" in remote.code_of("elsewhere/count")["error"]


def test_modules_that_an_experiment_names_count_and_others_do_not(install):
    named = paper().replace("study=True", 'study=True, code=("plugged.task",)')
    files = {"plugged/__init__.py": "", "plugged/paper.py": named}
    files |= {"plugged/task.py": "x = 1", "plugged/other.py": "y = 1"}
    install("plugged", files, "plugged.paper:PAPER")
    before = source_hash(registry.experiment("plugged/count"))
    install("plugged", {"plugged/other.py": "y = 2"}, "plugged.paper:PAPER")
    assert source_hash(registry.experiment("plugged/count")) == before
    install("plugged", {"plugged/task.py": "x = 2"}, "plugged.paper:PAPER")
    assert source_hash(registry.experiment("plugged/count")) != before


def test_trials_of_a_plug_in_are_stored_with_its_version_and_not_run_again(install, tmp_path):
    install("my-paper", {"plugged/__init__.py": paper()}, "plugged:PAPER", version="1.4")
    place = str(tmp_path / "store")
    first, second = (sw.run("plugged/count", store=place) for _ in range(2))
    assert (tmp_path / "plugged" / "calls.txt").read_text() == "xx"  # two seeds, once
    for record in second.records:
        assert record.run["versions"]["my-paper"] == "1.4"
        assert record.run["source_hash"] == source_hash(first.experiment)
        assert record.final("rows") == 3


def test_a_verdict_is_that_of_one_version_of_the_plug_in(install, tmp_path):
    from stairwise.lab.store.store import Store

    store = Store.open(str(tmp_path / "store"))
    install("my-paper", {"plugged/__init__.py": paper()}, "plugged:PAPER", version="1.4")
    stored = [row.stored for _ in range(2) for row in verify(["plugged/thm1"], store=store)]
    install("my-paper", {}, "plugged:PAPER", version="1.5")
    stored += [row.stored for row in verify(["plugged/thm1"], store=store)]
    assert stored == [False, True, False]
