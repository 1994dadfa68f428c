"""Every row of the benchmark at tiny sizes: both sides do the same work, and a row that fails hurts no other."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

from benchmarks import BENCHES, USUAL, run, table  # noqa: E402
from benchmarks.row import Job, Row, Settings, Work, contest  # noqa: E402
from stairwise.cli import main  # noqa: E402

TINY = Settings(repeats=2, compile=False, tiny=True)


def made(names, settings=TINY):
    return list(run.rows(names, settings))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["composition", "selection", "parity_onestep", "seeds"])
def test_both_sides_agree_before_they_are_timed(name):
    for row in made([name]):
        assert row.failure == ""
        assert row.error is not None
        assert row.error < 1e-4
        assert len(row.ours) == len(row.eager) == 2
        assert row.compiled == ()


@pytest.mark.slow
def test_a_users_gpt2_and_our_decoders_solve_the_same_trainings():
    pytest.importorskip("transformers")
    for row in made(["users"]):
        assert row.failure == ""
        assert "2 of 2 seeds solved" in row.facts["ours, all seeds"]
        assert " seeds solved" in row.facts["eager, all seeds"]
        assert row.ours[0] > 0
        assert row.eager[0] > 0


def test_seeds_that_were_not_begun_are_predicted_from_those_that_were_solved():
    from benchmarks.users import Side

    assert Side((9.0, 2.0, 4.0), (10, 10, 30), seeds=5).total == 9 + 2 + 4 + 2 * 3.0
    assert Side((9.0,), (10,), seeds=3).total == 27.0
    assert Side((9.0,), (10, 20), seeds=2, together=True).total == 9.0
    assert "3 of 5 seeds solved, predicted" in Side((9.0, 2.0, 4.0), (10, 10, 30), 5).facts("eager")["eager, all seeds"]


def test_sides_that_differ_are_not_timed():
    row = contest(TINY, Row("a", "b", error=0.1), Work(lambda: None), Work(lambda: None), tolerance=1e-4)
    assert row.failure.startswith("not timed: the two sides differ by 0.1")
    assert row.ours == ()
    assert contest(TINY, Row("a", "b", error=float("nan")), Work(lambda: None), tolerance=1.0).failure


def test_a_compiler_that_is_missing_leaves_its_reason():
    def compiled():
        raise RuntimeError("no C++ compiler\nlong trace")

    settings = replace(TINY, compile=True)
    row = contest(settings, Row("a", "b"), Work(lambda: None), Work(lambda: None), compiled)
    assert row.no_compile == "torch.compile: RuntimeError: no C++ compiler"
    assert len(row.eager) == 2
    assert row.ratio("compiled") is None


def test_a_row_that_fails_takes_no_other_down(monkeypatch):
    def broken(settings):
        raise RuntimeError("out of luck")

    jobs = [("a", Job("breaks", broken)), ("a", Job("works", lambda settings: Row("a", "works", ours=(1.0,))))]
    monkeypatch.setattr(run, "jobs", lambda names, settings: iter(jobs))
    first, second = made(["a"])
    assert first.failure == "RuntimeError: out of luck"
    assert second.failure == ""


def test_nothing_begins_after_the_limit():
    late = list(run.rows(["selection"], TINY, limit=-1.0))
    assert {row.failure for row in late} == {"not begun: the limit of -1 s was over"}


def test_ratios_are_taken_within_a_repeat():
    row = Row("a", "b", ours=(1.0, 4.0, 2.0), eager=(3.0, 12.0, 10.0))
    assert row.ratio("eager") == (3.0, 3.0, 5.0)
    assert json.loads(json.dumps(row.as_dict()))["times faster than eager"] == [3.0, 3.0, 5.0]


def test_a_table_names_failures_and_facts(capsys):
    machine = {"versions": {"jax": "0"}, "device": {"kind": "cpu"}, "cores": 1}
    rows = [
        Row("a", "runs", ours=(2.0,), eager=(4.0,), error=1e-6, facts={"peak": 3.0}),
        Row("b", "breaks", failure="x"),
    ]
    table.show(run.Findings(machine, TINY, rows))
    said = capsys.readouterr().out
    assert "2x [2, 2]" in said
    assert "a: runs: peak: 3" in said
    assert "b: breaks: failed: x" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nonsense"], f"bench=nonsense must be one of {', '.join(BENCHES)}"),
        (["--repeats", "0"], "repeats=0 must lie in 1..1000"),
        (["-o", "/nowhere/at/all.json"], "out=/nowhere/at/all.json must lie in a folder that exists"),
        (["-o", "rows.csv"], "out=rows.csv must end in .json"),
        (["--growth", "sweep"], "growth=sweep must be one of"),
        (["lego", "--growth", "lego"], "--growth takes one paper and no others: lego"),
    ],
)
def test_bad_input_is_one_line_that_names_it(words, said, capsys):
    assert main(["bench", *words]) == 2
    assert said in capsys.readouterr().err


def test_without_pytorch_one_line_names_the_extra(monkeypatch, capsys):
    monkeypatch.setattr(run.importlib.util, "find_spec", lambda name: None)
    assert main(["bench"]) == 2
    assert "pip install 'stairwise[bench]'" in capsys.readouterr().err


def test_outside_a_clone_one_line_says_where_it_works(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("stairwise.commands.bench.CLONE", tmp_path)
    assert main(["bench"]) == 2
    said = "stairwise: the installed package has no benchmarks: clone the repository and run `make bench` there\n"
    assert capsys.readouterr().err == said


def test_the_usual_benches_are_the_papers_and_the_sweep():
    assert set(USUAL) == {"composition", "lego", "parity_cot", "parity_onestep", "selection", "sweep"}


@pytest.mark.slow
def test_the_command_writes_its_rows_as_they_come(tmp_path):
    out = tmp_path / "rows.json"
    words = ["bench", "lego", "--tiny", "--repeats", "1", "--no-compile", "--json", "-o", str(out)]
    done = subprocess.run([sys.executable, "-m", "stairwise.cli", *words], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == json.loads(out.read_text())
    assert [row["error"] < 1e-4 and not row["failure"] for row in json.loads(done.stdout)["rows"]] == [True] * 3
    assert done.stderr.count("lego: greedy roll-out") == 2
