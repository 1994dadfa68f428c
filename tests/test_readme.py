"""The README's Python runs as printed (at sizes a test can afford) and its commands exist."""

import re
from pathlib import Path

import pytest

import stairwise as sw
from stairwise.cli import parser
from stairwise.lab import registry
from stairwise.lab.contract import Outcome

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_a_users_own_task_and_model_train_as_the_readme_prints_them(capsys):
    code = next(block for block in BLOCKS if "def sample" in block)
    assert len([line for line in code.splitlines() if line.strip()]) <= 22
    exec(compile(code, "README", "exec"), {})
    lines = capsys.readouterr().out.split("\n")[:4]
    assert [line.split()[0] for line in lines] == ["finished"] * 4
    assert min(float(line.split()[1]) for line in lines) < 0.5  # predicting zero costs 1


def test_the_ten_lines_name_things_that_exist():
    from stairwise.papers import selection

    assert selection.fig2.id == "fig2"
    for name in re.findall(r"\bsw\.(\w+)", README):
        assert callable(getattr(sw, name))


def test_every_command_the_readme_names_is_one():
    commands = parser()._subparsers._group_actions[0].choices  # type: ignore[union-attr]
    named = set(re.findall(r"^stairwise (\w+)", README, re.MULTILINE))
    assert named <= set(commands)
    assert {"list", "run", "verify", "figure", "report"} <= named


def test_the_table_has_every_paper_with_as_many_claims_as_it_has():
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \| (\d+) \|", README, re.MULTILINE)
    assert sorted(rows) == sorted((paper.id, str(len(paper.claims))) for paper in registry.papers())


def test_every_file_that_the_readme_links_to_exists():
    links = [link for link in re.findall(r"\]\(([^)#]+)", README) if not link.startswith("https://")]
    assert links
    assert [link for link in links if not (ROOT / link).is_file()] == []


def test_fit_refuses_columns_of_another_length():
    stage = sw.Stage("idle", init=lambda *_: (), tick=lambda *_: (), max_ticks=0)
    with pytest.raises(ValueError, match="rate has 2 values and there are 3 seeds"):
        sw.fit(stage, seeds=3, rate=[1.0, 2.0])


def test_an_outcome_names_the_metrics_it_has():
    outcome = Outcome()
    outcome.add("train", 1, {"loss": 0.5})
    assert outcome.last("loss") == 0.5
    with pytest.raises(KeyError, match="no metric accuracy"):
        outcome.last("accuracy")
