"""Trials that other code has made are served, but never without a word; `--fresh` runs them again."""

import json
import logging

import pytest

import stairwise as sw
from stairwise import cli
from stairwise.lab.store.store import Store
from stairwise.lab.sweep import sweep

PLACE = "plugged/count"
FILES = {
    "plugged/config.py": """
from dataclasses import dataclass
from stairwise.config import Config, option
@dataclass(frozen=True)
class Sizes(Config):
    rows: int = option(3, "rows", low=1)
""",
    "plugged/train.py": """
from pathlib import Path
from stairwise.train.stage import Outcome
FACTOR = 1
def count(config, seed):
    with open(Path(__file__).with_name("calls.txt"), "a") as file:
        file.write("x")
    outcome = Outcome()
    outcome.add("count", 0, {"rows": FACTOR * config.rows})
    outcome.arrays["rows"] = [FACTOR * float(config.rows)]
    return outcome
""",
    "plugged/figures.py": """
import matplotlib.pyplot as plt
def draw(records):
    figure, axes = plt.subplots()
    axes.plot([record.final("rows") for record in records])
    return figure
""",
    "plugged/__init__.py": """
from plugged import figures, train
from plugged.config import Sizes
from stairwise.lab.contract.claims import Ledger
from stairwise.lab.contract.experiment import Experiment, Figure, Preset
from stairwise.lab.contract.paper import Paper
from stairwise.lab.contract.checks import at_least
LEDGER = Ledger()
@LEDGER.empirical("fig1", experiment="count", statement="Figure 1", says="there are rows", tier="instant")
def rows(records):
    yield at_least("rows", [record.final("rows") for record in records], 1)
PRESETS = {"quick": Preset(Sizes(), {"few": {}, "many": {"rows": 9}}, seeds=2)}
FIGURES = (Figure("fig1", "Rows", figures.draw),)
EXPERIMENT = Experiment("count", "counts", Sizes, PRESETS, train.count, FIGURES, study=True)
PAPER = Paper("plugged", "A plug-in", "A. Author", 2026, "-", "-", tuple(LEDGER.claims), (EXPERIMENT,))
""",
}
LINE = "4 of 4 trials were made by other code: --fresh runs them again"


@pytest.fixture
def plugged(install, tmp_path, monkeypatch):
    """An installed paper with its trials in a store; gives a function that changes one of its files."""
    monkeypatch.setenv("STAIRWISE_STORE", str(tmp_path / "store"))
    install("plugged", FILES, "plugged:PAPER")
    sw.run(PLACE)

    def change(**files: str) -> None:
        install("plugged", {f"plugged/{name}.py": text for name, text in files.items()}, "plugged:PAPER")

    change.calls = lambda: len((tmp_path / "plugged" / "calls.txt").read_text())
    return change


def edited(name: str, old: str, new: str) -> dict[str, str]:
    text = FILES[f"plugged/{name}.py"]
    assert old in text
    return {name: text.replace(old, new)}


def broken() -> dict[str, str]:
    program = "def count(config, seed):\n    raise RuntimeError('the author is not done')\n"
    return {"train": FILES["plugged/train.py"] + program}


def printed(capsys, *words: str, status: int = 0) -> str:
    capsys.readouterr()
    assert cli.main([*words]) == status
    return capsys.readouterr().out


def test_what_the_present_code_made_is_served_without_a_word(plugged, capsys, caplog):
    assert "other code" not in printed(capsys, "run", PLACE)
    assert "stale" not in printed(capsys, "verify", "plugged/fig1")
    assert sw.run(PLACE).stale == 0
    assert caplog.records == []


@pytest.mark.parametrize(
    "change",
    [
        edited("figures", "axes.plot", "axes.scatter(0, 0)\n    axes.plot"),
        edited("__init__", "there are rows", "there are some rows"),
        edited("__init__", '"Rows"', '"A better caption"'),
        edited("__init__", "seeds=2", "seeds=2, note='more'"),
    ],
    ids=["figure", "claim", "caption", "preset"],
)
def test_a_figure_a_claim_a_caption_or_a_preset_makes_nothing_stale(plugged, capsys, change):
    plugged(**change)
    assert "other code" not in printed(capsys, "run", PLACE)


def test_code_that_has_changed_is_said_by_run_and_verify_and_the_verdict_is_marked(plugged, capsys):
    plugged(**broken())
    assert LINE in printed(capsys, "run", PLACE)
    assert plugged.calls() == 4  # served, not run
    assert "holds (stale)" in printed(capsys, "verify", "plugged/fig1")
    (row,) = json.loads(printed(capsys, "verify", "plugged/fig1", "--json"))
    assert (row["status"], row["stale"]) == ("holds", 4)
    told = json.loads(printed(capsys, "run", PLACE, "--json"))
    assert (told["stale"], [trial["stale"] for trial in told["trials"]]) == (4, [True] * 4)
    assert LINE.replace("--fresh", "stairwise run --fresh") in printed(capsys, "runs", "--trials")
    assert LINE.replace("--fresh", "stairwise run --fresh") in printed(capsys, "runs")
    assert "made by other code" in printed(capsys, "run", PLACE, "--dry-run")
    row = sw.verify("plugged/fig1")
    assert not isinstance(row, list)
    assert row.stale == 4
    assert str(row).endswith("(stale)")


def test_python_figure_report_and_query_say_it_too(plugged, tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    plugged(**edited("train", "FACTOR = 1", "FACTOR = 2"))

    def said() -> list[str]:
        lines = [record.getMessage() for record in caplog.records]
        caplog.clear()
        return lines

    with caplog.at_level(logging.WARNING, "stairwise"):
        assert sw.run(PLACE).stale == 4
        assert said() == [f"stairwise: {LINE.replace('--fresh', 'fresh=True')}"]
        assert sw.load(PLACE, fields=["stale"])["stale"].to_pylist() == [True] * 4
        assert len(said()) == 1
        assert cli.main(["figure", "plugged/fig1"]) == 0
        assert said() == [f"stairwise: {LINE.replace('--fresh', '--run --fresh')}"]
        assert cli.main(["query", "select count(*) from trials"]) == 0
        assert said() == [f"stairwise: {LINE.replace('--fresh', 'stairwise run --fresh')}"]
        assert cli.main(["figure", "plugged/fig1", "--fresh"]) == 2


def test_fresh_runs_stale_trials_again_and_only_those(plugged, capsys):
    plugged(**edited("train", "FACTOR = 1", "FACTOR = 2"))
    sw.run(PLACE, changes={"rows": 5}, seeds=1)  # one trial of the present code, for rows=5
    assert plugged.calls() == 5
    assert "other code" not in printed(capsys, "run", PLACE, "--fresh")
    assert plugged.calls() == 9
    result = sw.run(PLACE, fresh=True)
    assert plugged.calls() == 9
    assert sorted(record.final("rows") for record in result.records) == [6, 6, 18, 18]
    assert list(Store.open().root.glob("replaced/*")) == []


def test_fresh_code_that_fails_leaves_the_old_trials(plugged, capsys):
    plugged(**broken())
    assert cli.main(["run", PLACE, "--fresh"]) == 1
    assert "RuntimeError: the author is not done" in capsys.readouterr().err
    assert [record.final("rows") for record in Store.open().trials(PLACE)].count(3) == 2
    assert LINE in printed(capsys, "run", PLACE)


def test_verify_figure_and_sweep_have_fresh(plugged, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sweep(PLACE, {"rows": [3, 9]})
    for factor, words in enumerate(
        (
            ["verify", "plugged/fig1", "--run", "--fresh"],
            ["figure", "plugged/fig1", "--run", "--fresh"],
            ["sweep", PLACE, "--grid", "rows=3,9", "--fresh"],
        ),
        start=2,
    ):
        plugged(**edited("train", "FACTOR = 1", f"FACTOR = {factor}"))
        assert "stale" not in printed(capsys, *words)
        assert {record.final("rows") for record in Store.open().trials(PLACE)} == {3 * factor, 9 * factor}
    plugged(**edited("train", "    outcome = Outcome()", "    raise ValueError('no')"))
    assert LINE in printed(capsys, "sweep", PLACE, "--grid", "rows=3,9", "--fresh", status=1)
    assert {record.status for record in Store.open().trials(PLACE)} == {"finished"}


@pytest.fixture
def followed(install):
    """A second experiment, which starts from the trials of the first."""
    second = FILES["plugged/__init__.py"].replace("PAPER = ", f"{FOLLOWS}PAPER = ")
    second = second.replace("(EXPERIMENT,)", "(EXPERIMENT, MORE)")
    install("plugged", FILES | {"plugged/__init__.py": second, "plugged/more.py": MORE}, "plugged:PAPER")
    return install


def test_a_trial_is_stale_when_the_code_of_what_it_starts_from_has_changed(followed, tmp_path):
    assert sw.run("plugged/more", store=str(tmp_path / "store")).records[0].final("sum") == 4
    followed("plugged", {"plugged/train.py": FILES["plugged/train.py"].replace("= 1", "= 2")}, "plugged:PAPER")
    result = sw.run("plugged/more", store=str(tmp_path / "store"))
    assert (result.stale, result.records[0].final("sum")) == (1, 4)
    result = sw.run("plugged/more", store=str(tmp_path / "store"), fresh=True)
    assert (result.stale, result.records[0].final("sum")) == (0, 7)


def test_a_trial_that_starts_from_a_stale_one_is_stale(followed, tmp_path):
    place = str(tmp_path / "store")
    sw.run(PLACE, store=place)
    followed("plugged", {"plugged/train.py": FILES["plugged/train.py"].replace("= 1", "= 2")}, "plugged:PAPER")
    assert sw.run("plugged/more", store=place).stale == 1  # new, and made of an old one
    sw.run(PLACE, store=place, fresh=True)
    result = sw.run("plugged/more", store=place)
    assert (result.stale, result.records[0].final("sum")) == (1, 4)
    result = sw.run("plugged/more", store=place, fresh=True)
    assert (result.stale, result.records[0].final("sum")) == (0, 7)


FOLLOWS = """
from plugged import more
def needs(config, seed):
    from stairwise.lab.contract.experiment import Trial
    return {"first": Trial(PAPER.experiment("count"), config, seed)}
MORE = Experiment(
    "more", "adds", Sizes, {"quick": Preset(Sizes(), seeds=1)}, more.add, needs=needs, study=True
)
"""
MORE = """
from stairwise.train.stage import Outcome
def add(config, seed, upstream):
    outcome = Outcome()
    outcome.add("add", 0, {"sum": 1 + float(upstream["first"]["rows"][0])})
    return outcome
"""
