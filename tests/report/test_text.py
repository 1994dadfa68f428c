"""What the command line prints: complete where it is piped, safe where the store is hostile, quick, without JAX."""

import dataclasses
import json
import re
import subprocess
import sys
import time

import pytest

from stairwise.commands import cite, diff, listing, run, runs, show, verify
from stairwise.commands import list as catalogue
from stairwise.lab.api import Result
from stairwise.lab.contract.manifest import describe, read
from stairwise.lab.contract.verdict import Verdict
from stairwise.lab.ledger.verify import LedgerRow
from stairwise.lab.store.store import Store
from stairwise.train.stage import Outcome
from tests.report import tiny

LONG = "a statement that is far longer than a terminal of eighty columns is wide, and that must be readable in a log"


@pytest.fixture
def filled(store) -> Store:
    tiny.fill(store)
    trials = [trial.digest for trial in tiny.PAPER.experiment("walk").trials("quick")]
    record = {"experiment": "tiny/walk", "preset": "quick", "command": "stairwise run tiny/walk --rate 0.1"}
    store.write_run(
        {**record, "trials": [*trials, "9" * 20], "started": 1.7e9, "seconds": 6.5, "changes": {"rate": "1"}}
    )
    return store


def row(claim: str = "thm1", verdict: Verdict | None = None, **more) -> LedgerRow:
    return LedgerRow(tiny.PAPER.claim(claim), verdict or Verdict.at_most(1e-13, 1e-12), **more)


def printed(capsys) -> list[str]:
    return capsys.readouterr().out.splitlines()


def words_of(line: str) -> list[str]:
    return line.split()


# --- list -------------------------------------------------------------------------------------------------------------


def test_the_list_of_a_paper_names_experiments_presets_figures_and_what_is_stored(filled, capsys):
    catalogue.paper_table(describe(tiny.PAPER), filled.root)
    lines = printed(capsys)
    walk = next(line for line in lines if line.startswith("tiny/walk"))
    assert "quick 2x2, gpu 2x3, paper 1x1" in walk
    assert walk.endswith("4  fig1 fig2 fig3  a walk")
    climb = next(line for line in lines if line.startswith("tiny/climb"))
    assert words_of(climb) == ["tiny/climb", "quick", "1x3", "0", "fig4", "a", "climb"]
    assert "3 claims by tier: 2 instant, 1 minutes" in lines
    assert "3 claims by kind: 1 exact, 1 bound, 1 empirical" in lines


def test_the_list_is_one_line_per_paper_and_finds_words_in_names_and_descriptions(capsys):
    catalogue.papers_table([describe(tiny.PAPER)])
    assert words_of(printed(capsys)[1])[:3] == ["tiny", "2", "3"]
    catalogue.found_table([describe(tiny.PAPER)], "WALK ends")
    lines = printed(capsys)
    assert [words_of(line)[:2] for line in lines[1:-1]] == [["tiny/fig1", "figure"], ["tiny/thm1", "claim"]]
    assert lines[-1] == "2 found for 'WALK ends'"
    catalogue.claims_table(describe(tiny.PAPER))
    assert [words_of(line)[0] for line in printed(capsys)[1:]] == ["tiny/thm1", "tiny/thm2", "tiny/fig1"]


def test_the_listing_is_json_with_every_field_of_every_claim_and_experiment(filled):
    data = json.loads(json.dumps(listing.listing([tiny.PAPER], filled), allow_nan=False))
    (paper,) = data["papers"]
    walk, climb = paper["experiments"]
    assert (walk["name"], walk["stored"], walk["seconds"], climb["stored"]) == ("tiny/walk", 4, 6.0, 0)
    quick = walk["presets"]["quick"]
    assert (quick["seeds"], quick["arms"], quick["steps"], quick["trials"]) == (2, ["slow", "fast"], 20, 4)
    assert walk["presets"]["paper"]["hours"] == 3.0
    assert [figure["id"] for figure in paper["figures"]] == ["fig1", "fig2", "fig3", "fig4"]
    theorem, _, empirical = paper["claims"]
    assert (theorem["aliases"], theorem["kind"], theorem["tier"]) == (["lem2"], "bound", "instant")
    rate, hops = theorem["fields"][1:3]
    assert rate == {
        "name": "rate", "type": "float", "default": 0.1, "help": "learning rate", "range": "above 0 and at most 1",
        "choices": [], "numeric": True,
    }  # fmt: skip
    assert (hops["type"], hops["default"]) == ("list of int", [1, 2])
    assert theorem["fields"][3]["choices"] == ["plain", "lazy"]
    assert empirical["experiment"] == "tiny/walk"
    assert [field["name"] for field in empirical["fields"]] == ["steps", "rate", "hops", "kind"]


def test_an_entry_to_cite_has_what_is_known_of_the_paper_and_escapes_what_latex_would_read():
    assert cite.bibtex(describe(tiny.PAPER)).splitlines() == [
        "@misc{author2024tiny,",
        "  title = {{On Walks \\& Climbs}},",
        "  author = {A. Author},",
        "  year = {2024},",
        "}",
    ]
    known = describe(tiny.PAPER) | {"authors": "A. Author, B. C. Other", "venue": "COLT", "arxiv": "2401.00001"}
    assert cite.bibtex(known).splitlines()[2:4] == [
        "  author = {A. Author and B. C. Other},",
        "  booktitle = {COLT}, year = {2024}, url = {https://arxiv.org/abs/2401.00001},",
    ]


def test_our_own_study_is_cited_as_the_library():
    assert cite.bibtex(read("crossings")) == cite.bibtex(None)


# --- verify -----------------------------------------------------------------------------------------------------------


def test_the_ledger_has_two_lines_per_claim_and_counts_statuses_at_the_end(capsys):
    verify.ledger_table([row(seconds=0.25), row("thm2", Verdict.at_least(1, 2)), row("fig1", Verdict("reported", 3))])
    assert printed(capsys) == [
        "holds  tiny/thm1  measured 1e-13 <= 1e-12  margin 10x  sharpest constant 0.1  0.25 s",
        "    Theorem 1: the walk ends",
        "fails  tiny/thm2  measured 1, required >= 2  margin 0.5x  0.00 s",
        "    Theorem 2: 1 < 2 & 2 > 1 (corrected: thm1)",
        "reported  tiny/fig1  measured 3  0.00 s",
        "    Figure 1: walks converge",
        "3 claims: fails 1, reported 1, holds 1",
    ]


def test_hypotheses_that_are_not_met_stand_before_the_measurement_and_why_it_fails_below(capsys):
    verdict = Verdict.at_most(1, 2, hypotheses=("eta <= 1", "T >= 2"), note="true here", quantity="loss")
    verify.ledger_table(
        [row(verdict=dataclasses.replace(verdict, status="outside")), row("thm2", Verdict("fails", note="no"))]
    )
    lines = printed(capsys)
    assert lines[0] == (
        "outside  tiny/thm1  not met: eta <= 1  not met: T >= 2  loss 1 <= 2  margin 2x  sharpest constant 0.5"
        "  true here  0.00 s"
    )
    assert lines[4] == "    no"


def test_details_link_what_is_printed_and_what_is_true_both_ways_and_say_what_a_proof_lacks(capsys):
    verify.ledger_table([row(), row("thm2", Verdict.at_least(1, 2))], details=True)
    lines = printed(capsys)
    assert {"corrects: tiny/thm2", "true, but not by the printed argument: a step is missing"} <= set(lines)
    assert "corrected: tiny/thm1" in lines


def test_a_claim_over_several_cases_says_how_many_are_what(capsys):
    verdict = Verdict.over([("a", 0, Verdict.at_most(1, 2)), ("b", 0, Verdict("outside"))])
    verify.ledger_table([row(verdict=verdict)], details=True)
    lines = printed(capsys)
    found = "holds  tiny/thm1  measured 1 <= 2  margin 2x  sharpest constant 0.5"
    assert lines[0] == f"{found}  2 cases: 1 outside, 1 holds  0.00 s"
    assert any(words_of(line)[:3] == ["b", "0", "outside"] for line in lines)


def test_a_reason_for_skipping_that_many_claims_share_is_said_once(capsys):
    skipped = Verdict("skipped", note="its tier is minutes")
    verify.ledger_table([row("thm1", skipped), row("thm2", skipped), row("fig1", Verdict("skipped", note="no trials"))])
    lines = printed(capsys)
    assert [line.strip() for line in lines if "its tier" in line] == ["2 skipped: its tier is minutes"]
    assert [line for line in lines if "no trials" in line] == ["skipped  tiny/fig1  no trials"]


def test_a_list_of_sizes_gives_a_table_of_margins_against_size(capsys):
    rows = [row(verdict=Verdict.at_most(1, size), changes={"steps": size}) for size in (8, 16)]
    verify.ledger_table([*rows, row("thm2")])
    lines = printed(capsys)
    start = next(k for k, line in enumerate(lines) if line.startswith("steps"))
    assert lines[start - 1] == "tiny/thm1  the walk ends"
    assert words_of(lines[start])[:5] == ["steps", "status", "measured", "required", "margin"]
    assert words_of(lines[start + 1])[:6] == ["8", "holds", "1", "<=", "8", "8x"]
    assert words_of(lines[start + 2])[:6] == ["16", "holds", "1", "<=", "16", "16x"]
    assert lines[-1] == "2 claims: holds 3"


def test_details_are_printed_when_asked_for(capsys):
    verdict = Verdict("holds", details=({"n": 3, "gap": 0.123456}, {"n": 4, "what": LONG}))
    verify.ledger_table([row(verdict=verdict)])
    assert "0.1235" not in capsys.readouterr().out
    verify.ledger_table([row(verdict=verdict)], details=True)
    lines = printed(capsys)
    assert any(words_of(line) == ["3", "0.1235"] for line in lines)
    assert any(LONG in line for line in lines)


def test_what_goes_to_a_pipe_is_neither_cut_nor_wrapped_nor_padded(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    verify.ledger_table([row(verdict=Verdict("vacuous", note=LONG)), row("thm2")])
    lines = printed(capsys)
    assert len(lines) == 5
    assert lines[0].endswith(f"{LONG}  0.00 s")
    assert all(line == line.rstrip() for line in lines)


@pytest.fixture(params=[60, 80, 180])
def columns(request, monkeypatch) -> int:
    """Standard output is a terminal of this width."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", str(request.param))
    monkeypatch.setenv("TERM", "xterm")
    return request.param


def seen(capsys) -> list[str]:
    return [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in printed(capsys)]


def wordy() -> LedgerRow:
    claim = dataclasses.replace(row().claim, says=LONG * 3)
    return dataclasses.replace(row(verdict=Verdict.at_most(1, 2, quantity=LONG)), claim=claim)


def test_a_terminal_of_any_width_shows_two_lines_per_claim_of_many(capsys, columns):
    claims = [dataclasses.replace(wordy().claim, id=f"thm{n}") for n in range(5)]
    verify.ledger_table([dataclasses.replace(wordy(), claim=claim) for claim in claims])
    lines = seen(capsys)
    assert len(lines) == 11
    assert all(len(line) <= columns for line in lines)
    assert lines[1].endswith("…")


def test_of_a_few_claims_a_terminal_of_any_width_shows_every_word(capsys, columns):
    verify.ledger_table([wordy()])
    lines = seen(capsys)
    assert all(len(line) <= columns for line in lines)
    shown = " ".join(" ".join(lines).split())
    assert f"{LONG} 1 <= 2 margin 2x" in shown
    assert LONG * 3 in shown
    assert "…" not in shown


# --- runs, show, diff -------------------------------------------------------------------------------------------------


def test_runs_are_listed_with_what_they_asked_for(filled, capsys):
    runs.runs_table(filled)
    header, line, stale = printed(capsys)
    assert stale == "4 of 4 trials were made by other code: stairwise run --fresh runs them again"
    assert words_of(header)[0] == "run"
    assert words_of(line)[1:4] == ["tiny/walk", "quick", "5"]
    assert line.endswith("2023-11-14 22:13  6.50 s  stairwise run tiny/walk --rate 0.1")
    (data,) = runs.runs_listing(filled, "tiny")
    assert (data["experiment"], data["seconds"], data["changes"]) == ("tiny/walk", 6.5, {"rate": "1"})


def test_runs_can_be_narrowed_by_name_and_an_empty_answer_says_so(filled, capsys):
    assert len(runs.runs_listing(filled, "tiny/walk")) == 1
    assert runs.runs_listing(filled, "tin") == []
    runs.runs_table(filled, "tiny/climb")
    assert printed(capsys) == [f"no runs of tiny/climb in the store {filled.root}"]
    runs.trials_table(filled, "tiny/climb")
    assert printed(capsys) == [f"no trials of tiny/climb in the store {filled.root}"]


def test_trials_are_listed_and_the_damaged_ones_named_apart(filled, capsys):
    first = tiny.PAPER.experiment("walk").trials("quick")[0]
    (filled.root / "trials/tiny/walk" / first.digest / "metrics.parquet").write_bytes(b"junk")
    runs.trials_table(filled, "tiny/walk")
    *lines, stale, damaged = printed(capsys)[1:]
    assert stale == "3 of 3 trials were made by other code: stairwise run --fresh runs them again"
    assert damaged.startswith(f"damaged, skipped: trials/tiny/walk/{first.digest}: metrics.parquet")
    assert len(lines) == 3
    assert first.digest not in "".join(lines)
    assert {tuple(words_of(line)[2:5]) for line in lines} == {("slow", "1", "finished")} | {
        ("fast", seed, "finished") for seed in "01"
    }
    assert all(line["seconds"] == 1.5 for line in runs.runs_listing(filled, trials=True))


def test_a_trial_is_shown_with_config_measurements_arrays_and_making(filled, capsys):
    trial = tiny.PAPER.experiment("walk").trials("quick")[-1]
    show.show(filled.find(trial.digest), filled)
    shown = {tuple(words_of(line)) for line in printed(capsys)}
    assert ("trial", trial.digest, "tiny/walk", "arm", "fast", "seed", "1") in shown
    assert {("rate", "1.0"), ("hops", "1,2"), ("loss", "0.0454545"), ("accuracy", "0.666667")} <= shown
    assert {("weights", "float64", "2", "x", "3"), ("versions.jax", "0.10"), ("took", "1.50", "s")} <= shown
    show.show(filled.find(trial.digest), filled, as_json=True)
    data = json.loads(capsys.readouterr().out)
    assert data["config"]["rate"] == 1.0
    assert data["arrays"]["weights"] == {"dtype": "float64", "shape": [2, 3]}


def test_a_run_is_shown_with_its_trials_and_their_medians(filled, capsys):
    (run,) = filled.runs()
    show.show(run, filled)
    shown = {tuple(words_of(line)) for line in printed(capsys)}
    assert ("9" * 20, "not", "stored") in shown
    assert ("--rate", "1") in shown
    assert ("slow", "loss", "0.04654", "0.04545", "0.04762", "2") in shown
    show.show(run, filled, as_json=True)
    data = json.loads(capsys.readouterr().out)
    assert (len(data["stored"]), data["missing"]) == (4, ["9" * 20])


def test_a_measurement_that_is_not_a_number_is_said_in_text_and_null_in_json(store, capsys):
    trial = tiny.PAPER.experiment("climb").trials("quick")[0]
    diverged = Outcome("diverged", message="NaN at step 7")
    diverged.add("main", 7, {"loss": float("nan"), "norm": float("inf")})
    store.write(trial, diverged, tiny.RUN)
    show.show(store.find(trial.digest), store)
    lines = [words_of(line) for line in printed(capsys)]
    assert ["diverged", "NaN", "at", "step", "7"] in lines
    assert ["loss", "nan"] in lines
    assert ["norm", "inf"] in lines
    show.show(store.find(trial.digest), store, as_json=True)
    final = json.loads(capsys.readouterr().out)["final"]
    assert {row["metric"]: row["median"] for row in final} == {"loss": None, "norm": None}
    run.print_result(Result(tiny.PAPER.experiment("climb"), [store.read(trial)]), 1.0, as_json=True)
    final = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)["final"]
    assert {row["metric"]: row["median"] for row in final} == {"loss": None, "norm": None}


def test_a_zero_has_no_sign(store, capsys):
    trial = tiny.PAPER.experiment("climb").trials("quick")[0]
    ended = Outcome()
    ended.add("main", 7, {"slope": -0.0})
    store.write(trial, ended, tiny.RUN)
    run.print_result(Result(tiny.PAPER.experiment("climb"), [store.read(trial)]), 1.0, as_json=False)
    verify.ledger_table([row(verdict=Verdict.at_most(-0.0, -0.0))])
    out = capsys.readouterr().out
    assert re.search(r"slope +0 +0 \.\. 0$", out, re.MULTILINE)
    assert "thm1  measured 0 <= 0  " in out
    assert str(Verdict.at_most(-0.0, -0.0)) == "holds  measured 0  required <= 0"


def test_two_trials_differ_in_exactly_what_differs(filled, capsys):
    slow, _, fast, _ = tiny.PAPER.experiment("walk").trials("quick")
    diff.diff(filled.find(slow.digest), filled.find(fast.digest), filled)
    lines = [words_of(line) for line in printed(capsys)]
    assert ["rate", "0.1", "1.0"] in lines
    assert ["loss", "0.04762", "0.04762", "+0"] in lines
    assert not [line for line in lines if line and line[0] in ("steps", "seed", "versions.jax")]


def test_two_runs_are_compared_arm_by_arm_and_by_what_made_them(filled, capsys):
    other = tiny.fill(filled, "gpu", run={**tiny.RUN, "device": {"kind": "abacus"}})
    record = {"experiment": "tiny/walk", "preset": "gpu", "command": "", "started": 1.8e9, "seconds": None}
    filled.write_run({**record, "trials": [trial.digest for trial in other]})
    a, b = filled.runs()
    diff.diff(a, b, filled, as_json=True)
    data = json.loads(capsys.readouterr().out)
    assert data["config"] == {"steps": {"a": 20, "b": 500}}
    assert data["seeds"] == [[0, 1], [0, 1, 2]]
    assert data["provenance"]["device.kind"] == {"a": "cpu", "b": "abacus"}
    assert data["provenance"]["device.platform"] == {"a": "cpu", "b": None}
    loss = next(row for row in data["final"] if (row["arm"], row["metric"]) == ("slow", "loss"))
    assert loss["b"] == 1 / 22
    assert abs(loss["a"] - (1 / 21 + 1 / 22) / 2) < 1e-15


def test_hostile_text_reaches_the_terminal_as_printable_text(store, capsys):
    tiny.fill(store, metric=tiny.HOSTILE, run={**tiny.RUN, "device": tiny.HOSTILE, "timing": tiny.HOSTILE})
    record = {"experiment": "tiny/walk", "preset": tiny.HOSTILE, "command": tiny.HOSTILE, "started": 1.7e9}
    trials = [trial.digest for trial in tiny.PAPER.experiment("walk").trials("quick")]
    store.write_run({**record, "trials": trials, "seconds": None, "changes": tiny.HOSTILE})
    (run,) = store.runs()
    runs.runs_table(store)
    runs.trials_table(store)
    show.show(run, store)
    show.show(store.find(trials[0]), store)
    diff.diff(run, store.find(trials[0]), store)
    verify.ledger_table(
        [row(verdict=Verdict("holds", note=tiny.HOSTILE, details=({"a": tiny.HOSTILE},)))], details=True
    )
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert shown.count("<script>alert('stairwise')</script>[/red]?[31m&\"'") >= 8


# --- cost -------------------------------------------------------------------------------------------------------------


def test_printing_imports_no_jax():
    heavy = "{'jax', 'matplotlib', 'scipy', 'pyarrow'} & set(sys.modules)"
    code = f"import sys; from stairwise.commands import runs, show, verify; print({heavy})"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


def test_an_ordinary_store_is_listed_quickly(store, capsys):
    experiment = tiny.PAPER.experiment("walk")
    for trial in experiment.trials("quick", range(50)):
        store.write(trial, tiny.outcome(trial), tiny.RUN)
    began = time.process_time()  # not the clock: the tests share their cores
    catalogue.paper_table(describe(tiny.PAPER), store.root)
    runs.trials_table(store)
    assert time.process_time() - began < 1.0  # measured: 0.1
    assert len(printed(capsys)) > 100
