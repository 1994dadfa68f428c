"""What a notebook meets: keywords that are fields, results that are short when shown, progress where somebody looks."""

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
