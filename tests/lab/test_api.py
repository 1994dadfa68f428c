"""What a notebook meets: keywords that are fields, results that are short when shown, progress where somebody looks."""

import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

import stairwise as sw
from stairwise.config import ConfigError
from stairwise.lab import api, progress
from stairwise.lab.contract.experiment import Figure
from stairwise.lab.store.store import Store
from tests.lab.walking import PAPER

WALK = PAPER.experiment("walk")


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    return sw.run(WALK, seeds=2, store=Store.open(tmp_path_factory.mktemp("store")))


def test_a_keyword_of_run_is_a_field_of_the_config(tmp_path):
    named = sw.run(WALK, seeds=1, store=str(tmp_path), shift=0.5)
    by_path = sw.run(WALK, seeds=1, changes={"shift": 0.5}, store=str(tmp_path))
    assert [record.config.shift for record in named.records] == [0.5] * len(named.records)
    assert [record.digest for record in named.records] == [record.digest for record in by_path.records]


@pytest.mark.parametrize(
    "call", [lambda **given: sw.run(WALK, **given), lambda **given: sw.sweep(WALK, {"shift": [0.0, 1.0]}, **given)]
)
def test_a_keyword_that_is_no_field_is_refused_before_anything_is_read(call, tmp_path):
    with pytest.raises(ConfigError, match="unknown field sed"):
        call(sed=3, store=str(tmp_path / "store"))
    assert not (tmp_path / "store").exists()


REFUSALS = {
    "sw.run(3)": "3 must be the name PAPER/EXPERIMENT",
    "sw.sweep(3, {})": "3 must be the name PAPER/EXPERIMENT",
    "sw.verify(3)": "3 must be the name of a paper or a claim",
    "sw.load(3)": "3 must be the name of a paper or an experiment",
    "sw.data(3, 1)": "3 must be the name of a task",
    "sw.fit(3)": "stages=3 must be a stage",
    "sw.fit([])": "must be a stage",
    "sw.check(3)": "3 must be a function",
    "sw.export(3, 'nowhere')": "a model must be an array, not int",
    "sw.evaluate(lambda prompt: 3, 'lego', n=1, cot=False)": "in words",
}
ASKING = """
import sys
import stairwise as sw
for call in sys.argv[1:]:
    try:
        eval(call)
    except ValueError as error:
        print(error)
"""


def test_a_number_where_a_name_or_a_function_belongs_is_refused_in_one_line():
    """In a process of its own: the tests check types, and users do not."""
    done = subprocess.run([sys.executable, "-c", ASKING, *REFUSALS], capture_output=True, text=True, check=True)
    for line, said in zip(done.stdout.splitlines(), REFUSALS.values(), strict=True):
        assert said in line


def test_a_run_is_read_as_a_sweep_is(result):
    pandas = pytest.importorskip("pandas")
    frame = result.table(pandas=True)
    assert isinstance(frame, pandas.DataFrame)
    assert len(frame) == result.table().num_rows
    assert result.statuses == {"finished": len(result.records)}
    name = result.records[0].names()[0]
    assert result.best(name).final(name) == min(record.final(name) for record in result.records)
    assert result.best("nothing") is None


def test_a_result_is_two_lines_a_trial_one_and_a_row_of_the_ledger_one(result):
    first, *rest = repr(result).splitlines()
    assert first == f"Result of {WALK.name}: 2 arms, 2 seeds, 4 finished"
    assert len(rest) == 1
    record = result.records[0]
    about = f"{WALK.name} arm {record.arm!r} seed {record.seed}"
    assert repr(record) == f"<trial {record.digest[:12]} of {about}: finished>"
    row = sw.verify("selection/def-sts")
    assert repr(row) == f"selection/def-sts: {row}"
    assert "$" not in row.says


def test_a_notebook_shows_a_table_of_the_last_measurements(result):
    shown = result._repr_html_()
    assert shown.count("<tr>") == 1 + len({(record.arm, name) for record in result.records for name in record.names()})
    assert len(shown) < 20_000


def test_a_figure_is_shown_with_the_table_and_one_that_cannot_be_drawn_is_left_out(result, monkeypatch):
    figure = Figure("fig", "a picture", lambda records: None)
    drawn = api.Result(replace(WALK, figures=(figure,)), result.records)
    monkeypatch.setattr(api.Result, "figure", lambda self: None)
    monkeypatch.setattr(api, "figure_bytes", lambda figure, suffix: b"picture")
    assert '<img alt="walking/walk" src="data:image/png;base64,cGljdHVyZQ==">' in drawn._repr_html_()
    monkeypatch.setattr(api.Result, "figure", lambda self: 1 / 0)
    assert "<img" not in drawn._repr_html_()


@pytest.mark.parametrize(
    ("terminal", "notebook", "shows"), [(True, False, True), (False, True, True), (False, False, False)]
)
def test_progress_shows_in_a_terminal_and_in_a_notebook_only(monkeypatch, terminal, notebook, shows):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: object() if notebook else None))
    assert (type(progress.for_people()) is not progress.Silent) == shows
