"""The README's Python runs as printed, its commands exist, and its examples are what they print."""

import json
import re
from pathlib import Path

import pytest

import stairwise as sw
from stairwise.cli import main, parser
from stairwise.lab import registry
from stairwise.train.stage import Outcome

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_a_users_own_task_and_model_train_as_the_readme_prints_them(capsys):
    code = next(block for block in BLOCKS if "def sample" in block)
    assert len([line for line in code.splitlines() if line.strip()]) <= 22
    exec(compile(code, "README", "exec"), {})
    lines = capsys.readouterr().out.split("\n")[:4]
    assert [(line.split()[0], line.split()[2]) for line in lines] == [("finished", "(64,)")] * 4
    assert min(float(line.split()[1]) for line in lines) < 0.5  # predicting zero costs 1


def test_the_ten_lines_name_things_that_exist():
    from stairwise.papers import selection

    assert selection.fig2.id == "fig2"
    for name in re.findall(r"\bsw\.(\w+)", README):
        assert callable(getattr(sw, name))


def test_every_command_the_readme_names_is_one():
    commands = parser().commands
    named = set(re.findall(r"(?:^|`)stairwise ([a-z-]+)", README, re.MULTILINE))
    assert named <= set(commands)
    assert {"list", "run", "verify", "figure", "report", "data", "cite"} <= named


def test_the_readme_is_short():
    assert len(README.splitlines()) < 200


def test_the_theorem_at_other_sizes_is_printed_as_the_readme_shows(capsys, tmp_path):
    (found,) = re.findall(r"^stairwise (verify .*)\n```\n\n```text\n((?:.*\n)+?)\.\.\.\n```", README, re.MULTILINE)
    command, shown = found
    main([*command.split(), "--store", str(tmp_path)])
    printed = capsys.readouterr().out
    columns = 6  # the seventh is the time that it took
    rows = [line.split()[:columns] for line in printed.splitlines()]
    assert len(shown.splitlines()) == 4
    assert [line for line in shown.splitlines() if line.split()[:columns] not in rows] == []


def test_the_examples_of_the_tasks_are_what_data_prints(capsys):
    rows = re.findall(r"^\| `(\w+ --.* -n 1)` \| `(.*)` \| `(.*)` \| `(.*)` \|$", README, re.MULTILINE)
    assert {row[0].split()[0] for row in rows} == {task.id for paper in registry.papers() for task in paper.tasks}
    for command, *shown in rows:
        assert main(["data", *command.split()]) == 0
        record = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert shown == [record["prompt"], record["steps"], record["answer"]]


def test_the_entries_to_cite_are_those_that_cite_prints(capsys):
    papers = [paper.id for paper in registry.papers() if paper.id != "crossings"]
    for words in ([], *([paper] for paper in papers)):
        assert main(["cite", *words]) == 0
        assert capsys.readouterr().out in README


def test_the_table_has_every_paper_with_as_many_claims_as_it_has():
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \| (\d+) \|", README, re.MULTILINE)
    assert sorted(rows) == sorted((paper.id, str(len(paper.claims))) for paper in registry.papers())
    theirs = sum(len(paper.claims) for paper in registry.papers() if paper.id != "crossings")
    assert f"It checks their statements numerically by {theirs} [claims]" in README


def test_the_table_links_every_paper_that_is_on_arxiv():
    numbers = [paper.arxiv for paper in registry.papers() if paper.arxiv]
    assert sorted(re.findall(r"\[arXiv:(.+?)\]\(https://arxiv.org/abs/\1\)", README)) == sorted(numbers)


def test_every_file_that_the_readme_links_to_exists():
    links = [link for link in re.findall(r"\]\(([^)#]+)", README) if not link.startswith("https://")]
    assert links
    assert [link for link in links if not (ROOT / link).is_file()] == []


def test_an_outcome_names_the_metrics_it_has():
    outcome = Outcome()
    outcome.add("train", 1, {"loss": 0.5})
    assert outcome.last("loss") == 0.5
    with pytest.raises(KeyError, match="no metric accuracy"):
        outcome.last("accuracy")
