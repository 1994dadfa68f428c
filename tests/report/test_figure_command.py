"""`stairwise figure`: whole sets of trials, or what there is so far, and then it says so."""

import resource

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

from stairwise.cli import main
from stairwise.lab import api
from stairwise.lab.store.files import StoreError
from tests.report import tiny


@pytest.fixture
def half(store):
    """A store with three of the four trials of `walk`."""
    for trial in tiny.PAPER.experiment("walk").trials("quick")[:3]:
        store.write(trial, tiny.outcome(trial), tiny.RUN)
    return store


def drawn(store, tmp_path, *arguments) -> tuple[int, str]:
    out = tmp_path / "figure.svg"
    status = main(["figure", *arguments, "--store", str(store.root), "-o", str(out)])
    return status, out.read_text() if out.exists() else ""


def test_what_is_missing_is_said_and_nothing_drawn(half, tmp_path, capsys):
    assert drawn(half, tmp_path, "tiny/fig1") == (2, "")
    assert "1 of 4 trials of tiny/walk are not in the store" in capsys.readouterr().err


def test_what_is_there_so_far_is_drawn_with_its_number(half, tmp_path, monkeypatch):
    monkeypatch.setitem(mpl.rcParams, "svg.fonttype", "none")
    status, text = drawn(half, tmp_path, "tiny/fig1", "--so-far")
    assert status == 0
    assert "3 of 4 trials; the others have not been run" in text


def test_a_whole_set_carries_no_such_line(store, tmp_path, monkeypatch):
    monkeypatch.setitem(mpl.rcParams, "svg.fonttype", "none")
    tiny.fill(store)
    status, text = drawn(store, tmp_path, "tiny/fig1", "--so-far")
    assert status == 0
    assert "have not been run" not in text


def test_a_drawing_that_needs_more_is_one_line(half, tmp_path, capsys):
    assert drawn(half, tmp_path, "tiny/fig3", "--so-far") == (2, "")
    error = capsys.readouterr().err
    assert "fig3 cannot be drawn from 3 of 4 trials yet" in error
    assert len(error.splitlines()) == 1


def test_nothing_so_far_is_no_figure(store, tmp_path, capsys):
    assert drawn(store, tmp_path, "tiny/fig1", "--so-far") == (2, "")
    assert "4 of 4 trials" in capsys.readouterr().err


@pytest.mark.parametrize("suffix", [".pdf", ".svg", ".png"])
def test_a_figure_that_does_not_fit_on_the_disk_is_one_line_and_leaves_nothing(tmp_path, suffix):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    drawn = plt.figure()
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        with pytest.raises(StoreError, match=rf"cannot write .*figure{suffix}: File too large"):
            api.save_figure(drawn, tmp_path / f"figure{suffix}")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []
