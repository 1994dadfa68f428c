"""Facts about `stairwise plot`: what is stored becomes curves, numbers and tables; what is not is said."""

import csv
import io

import pytest

import stairwise as sw
from stairwise.cli import main

SMALL = {"task.length": 6, "steps": 20, "measure_every": 10, "test_examples": 16}
FLAGS = [word for name, value in SMALL.items() for word in (f"--{name}", str(value))]
NAME = "selection/online"


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("store")
    return folder, sw.run(NAME, "quick", 2, SMALL, store=str(folder)).records


def plot(store, *words, capsys):
    status = main(["plot", NAME, *words, "--store", str(store[0]), "--seeds", "2", *FLAGS])
    return status, capsys.readouterr()


def test_without_a_metric_it_lists_what_was_measured(store, capsys):
    assert plot(store, capsys=capsys)[1].out.splitlines() == store[1][0].names()


@pytest.mark.parametrize("ending", ["pdf", "svg", "png"])
def test_curves_are_written_to_the_file_that_is_asked_for(store, tmp_path, capsys, ending):
    out = tmp_path / f"curve.{ending}"
    assert plot(store, store[1][0].names()[0], "-o", str(out), "--log", "y", capsys=capsys)[0] == 0
    assert out.read_bytes()[:4] in (b"%PDF", b"<?xm", b"\x89PNG")


def test_the_csv_has_every_measurement_once(store, tmp_path, capsys):
    metric, out = store[1][0].names()[0], tmp_path / "numbers.csv"
    plot(store, metric, "-o", str(out), capsys=capsys)
    rows = list(csv.DictReader(io.StringIO(out.read_text())))
    for record in store[1]:
        steps, values = record.series(metric)
        own = [row for row in rows if row["digest"] == record.digest]
        assert [(int(row["step"]), float(row["value"])) for row in own] == list(zip(steps, values, strict=True))
    assert {row["counts"] for row in rows} == {"gradient steps"}
    assert len(rows) == sum(len(record.series(metric)[0]) for record in store[1])


def test_the_table_has_a_line_per_arm(store, tmp_path, capsys):
    metric, out = store[1][0].names()[0], tmp_path / "table.tex"
    plot(store, metric, "-o", str(out), capsys=capsys)
    lines = [line for line in out.read_text().splitlines() if line.endswith("\\\\") and "median" not in line]
    assert len(lines) == len({record.arm for record in store[1]})


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["los"], "unknown metric of selection/online: los"),
        (["METRIC", "--stage", "x"], "stage=x must be one of"),
        (["METRIC", "-o", "x.doc"], "must end in"),
    ],
)
def test_what_cannot_be_plotted_is_said_in_one_line(store, capsys, words, said):
    metric = store[1][0].names()[0]
    status, printed = plot(store, *[metric if word == "METRIC" else word for word in words], capsys=capsys)
    assert (status, printed.err.count("\n")) == (2, 1)
    assert said in printed.err
