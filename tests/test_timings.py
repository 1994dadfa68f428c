"""Tables of timings on the pages are made from the files that the benchmark has written."""

import json
import sys
from pathlib import Path

import pytest

from stairwise.lab.contract.verdict import STATUSES

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture
def timings(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(DOCS), *sys.path])
    from docs_site import timings

    return timings


def test_a_table_has_a_line_per_row_and_the_numbers_of_its_file(timings):
    rows = json.loads((DOCS / "results/bench/users-cpu.json").read_text())["rows"]
    shown = [line for line in timings.table("users-cpu").splitlines() if line.startswith("| `")]
    assert len(shown) == len(rows)
    for line, row in zip(shown, rows, strict=True):
        assert row["work"] in line
        assert f"{row['times faster than eager'][1]:.3g}" in line


def test_a_row_that_failed_says_why(timings):
    row = {"bench": "users", "work": "w", "unit": "seed", "mirror": "", "failure": "out of luck"}
    assert "out of luck" in timings.line(row)


def test_a_gpu_adds_how_busy_it_was(timings, monkeypatch, tmp_path):
    facts = {"model TFLOP/s": 123.4, "share of matrix rate": 0.41, "device busy, ms": 0.5, "waiting share": 0.25}
    row = {"bench": "seeds", "work": "w", "unit": "step", "mirror": "", "failure": "", "facts": facts}
    row |= {"milliseconds": {"ours": [1.0], "eager": [3.0], "compiled": []}}
    row |= {"times faster than eager": [3.0, 3.0, 3.0], "times faster than compiled": None}
    machine = {"device": {"kind": "a GPU"}, "cores": 16, "versions": {}}
    monkeypatch.setattr(timings, "FOLDER", tmp_path)
    (tmp_path / "gpu.json").write_text(json.dumps({"machine": machine, "rows": [row]}))
    assert timings.table("gpu").endswith("| `seeds`: w | 123 | 0.5 | 41% | 25% |")


def test_every_file_of_timings_is_shown_as_it_is(timings):
    page = (DOCS / "results/bench.md").read_text()
    for path in (DOCS / "results/bench").glob("*.json"):
        tables = [part for part in timings.table(path.stem).split("\n\n") if part.startswith("|")]
        assert f"{{{{ bench: {path.stem} }}}}" in page or all(part in page for part in tables)


def test_the_design_names_every_status_of_a_verdict():
    said = ", ".join(f"`{status}`" for status in STATUSES)
    assert f"There are {len(STATUSES)} statuses ({said})".replace("9", "nine") in " ".join(
        (DOCS / "design.md").read_text().split()
    )
