"""The commands that read the store: nothing is accepted in silence, and JSON is JSON."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from stairwise.cli import main, message
from stairwise.lab import registry
from stairwise.lab.store.files import StoreError
from stairwise.lab.store.store import Store
from stairwise.record import published
from stairwise.train.stage import Outcome
from tests.lab.tiny import RUN, outcome, run_record, trial

TARGET = "selection/online"


def call(capsys, *arguments: str) -> tuple[int, str, str]:
    status = main(list(arguments))
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@pytest.fixture
def root(tmp_path, monkeypatch) -> str:
    """A store with a trial and a run of a paper that is not installed."""
    monkeypatch.chdir(tmp_path)
    store = Store.open(tmp_path / "store")
    store.write(trial(0), outcome(0), RUN)
    store.write_run(run_record(0, preset="mine"))
    return str(store.root)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["runs", "nopaper"], ["unknown paper or experiment: nopaper", "selection", "tiny"]),
        (["runs", "selection/nothing"], ["unknown paper or experiment: selection/nothing"]),
        (["runs", "../.."], ["unknown paper or experiment: ../.."]),
        (["runs", "--preset", "nopreset"], ["preset=nopreset must be one of", "gpu", "mine"]),
        (["runs", "tiny", "--preset", "gpu"], ["preset=gpu must be one of mine"]),
        (["runs", "--where", "nofield=1"], ["where: unknown field nofield", "fields:"]),
        (["runs", "tiny", "--where", "learning_rat=1"], ["unknown field learning_rat"]),
        (["runs", "--trials", "--preset", "gpu"], ["preset=gpu selects runs"]),
        (["runs", "--status", "failed", "--preset", "gpu"], ["preset=gpu selects runs"]),
        (["runs", "--last", "1", "--last", "2"], ["--last is given twice"]),
        (["runs", "--json", "--json"], ["--json is given twice"]),
        (["figure", "selection/fig2", "-o", "a.pdf", "--out=b.pdf"], ["--out is given twice"]),
        (["run", TARGET, "--steps", "5", "--steps=6"], ["--steps is given twice"]),
        (["run", TARGET, "--seeds", "5", "--seeds", "6"], ["--seeds is given twice"]),
        (["sweep", TARGET, "--grid", "batch=8", "--save-every", "nan"], ["save-every=nan must be at least 0"]),
        (["sweep", TARGET, "--grid", "batch=8", "--save-every", "-1", "--dry-run"], ["save-every=-1.0"]),
        (["report", "--out", os.devnull], [f"out={os.devnull} must be a folder"]),
        (["query", "select 1", "--json", "--csv"], ["json and csv exclude each other"]),
        (["query", "select 1; select 2"], ["query: must be one statement that selects"]),
        (["query", "select '290000-01-01'::timestamp as t"], ["column t", "cannot be shown", '"t"::varchar']),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_line(capsys, root, arguments, words):
    status, out, err = call(capsys, *arguments, "--store", root)
    assert (status, out, err.count("\n")) == (2, "", 1)
    for word in words:
        assert word in err


@pytest.mark.parametrize("command", [["runs"], ["query", "select 1"], ["run", TARGET], ["gc"], ["list"]])
def test_an_empty_name_is_no_store(capsys, root, command):
    status, out, err = call(capsys, *command, "--store", "")
    assert (status, out) == (2, "")
    assert err == "stairwise: store='' must be the name of a folder\n"
    assert os.listdir() == ["store"]


READERS = [
    ["runs"], ["runs", "--trials", "--json"], ["show", "0123456789"], ["show", "0123456789", "--config"],
    ["diff", "0123456789", "9876543210"], ["query", "select 1"], ["gc"], ["gc", "--yes"], ["doctor"],
    ["doctor", "--json"], ["list", "selection"], ["list", "--json"], ["plot", TARGET], ["figure", "selection/fig2"],
    ["report"], ["export", "0123456789", "-o", "model"], ["record", "add", TARGET],
]  # fmt: skip


@pytest.mark.parametrize("command", READERS, ids=" ".join)
def test_a_store_that_is_named_and_does_not_exist_is_one_line_with_exit_status_2(capsys, root, command):
    status, out, err = call(capsys, *command, "--store", "misspelt")
    assert (status, out) == (2, "")
    assert err == f"stairwise: there is no store {os.getcwd()}/misspelt (stairwise run makes one)\n"
    assert os.listdir() == ["store"]


def test_a_theorem_that_is_named_with_published_is_not_dropped_in_silence(capsys, root, monkeypatch):
    monkeypatch.setattr(published, "MEASUREMENTS", Path("no measurements"))  # none that would have to be unpacked
    monkeypatch.setenv("XDG_CACHE_HOME", os.path.abspath("cache"))
    status, out, err = call(capsys, "verify", "selection/thm3.5", "--published")
    assert (status, out) == (2, "")
    assert "selection/thm3.5: no claim of these is judged on trials" in err


def test_before_the_first_run_the_default_store_reads_as_empty_and_is_not_made(capsys, root, monkeypatch):
    monkeypatch.setenv("STAIRWISE_STORE", "to-be")
    for command in (["list", "selection"], ["runs"], ["runs", "--trials"], ["query", "select * from trials"], ["gc"]):
        assert call(capsys, *command)[0] == 0
    status, _, err = call(capsys, "figure", "selection/fig2")
    assert status == 2
    assert "stairwise figure selection/fig2 --preset quick --run" in err
    assert os.listdir() == ["store"]


def test_what_a_paper_declares_or_the_store_has_is_accepted(capsys, root):
    for arguments in (
        ["runs", "tiny", "--preset", "mine"],
        ["runs", "tiny/walk", "--where", "task.length=8", "seed=0"],
        ["runs", "selection", "--preset", "quick"],
        ["runs", TARGET, "--where", "learning_rate=0.5"],
        ["runs", "--where", "seed=0", "--where", "rate=0.1"],
    ):
        assert call(capsys, *arguments, "--store", root)[0] == 0


def test_both_of_two_columns_of_one_name_are_in_json_and_csv(capsys, root):
    words = ["query", "select seed, seed + 1 as seed from trials", "--store", root]
    assert json.loads(call(capsys, *words, "--json")[1]) == [{"seed": 0, "seed_1": 1}]
    assert call(capsys, *words, "--csv")[1] == "seed,seed_1\n0,1\n"


def strict(text: str):
    def refuse(word: str):
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


def test_json_of_a_diverged_run_is_json(capsys, tmp_path):
    store = Store.open(tmp_path / "store")
    trials = registry.experiment(TARGET).trials("quick", [0], {"steps": 7})
    for each in trials:
        made = Outcome("diverged", message="loss is NaN")
        made.add("train", 0, {"loss": 1.0})
        made.add("train", 7, {"loss": float("nan"), "accuracy": float("inf")})
        store.write(each, made, RUN)
    flags = ["--store", str(store.root), "--json"]
    ran = strict(call(capsys, "run", TARGET, "--seeds", "1", "--steps", "7", *flags)[1])
    assert [(row["metric"], row["median"], row["seeds"]) for row in ran["final"]] == [
        ("loss", None, 1),
        ("accuracy", None, 1),
    ] * len(trials)
    shown = strict(call(capsys, "show", trials[0].digest, *flags)[1])
    assert {row["metric"]: row["median"] for row in shown["final"]} == {"loss": None, "accuracy": None}
    assert strict(call(capsys, "query", "select distinct value from finals", *flags)[1])[0] == {"value": None}


def test_numpy_numbers_in_a_run_are_numbers_in_json(capsys, tmp_path):
    store = Store.open(tmp_path / "store")
    store.write_run(run_record(0, started=np.float64(1.5e9), seconds=np.int64(3)))
    (run,) = strict(call(capsys, "runs", "--json", "--store", str(store.root))[1])
    assert (run["started"], run["seconds"]) == (1.5e9, 3)


def test_a_store_whose_path_is_not_utf8_is_listed_and_queried(capsys, root):
    place = os.fsdecode(os.fsencode(root) + b"\xff")
    shutil.copytree(root, place)
    assert "tiny/walk" in call(capsys, "runs", "--store", place)[1]
    assert call(capsys, "query", "select seed from trials", "--csv", "--store", place)[:2] == (0, "seed\n0\n")
    assert strict(call(capsys, "list", "--json", "--store", place)[1])["store"]


def test_a_long_message_ends_with_its_reason():
    said = message(StoreError(f"cannot read {'x' * 5000}: File name too long"))
    assert len(said) < 1100
    assert said.endswith(": File name too long")
    assert said.startswith("cannot read xxx")


def test_a_newer_trial_is_refused_by_run_and_runs_in_one_line(capsys, tmp_path):
    from stairwise.lab.store import files

    store = Store.open(tmp_path / "store")
    each = registry.experiment(TARGET).trials("quick", [0], {"steps": 7})[-1]  # the others are not stored
    folder = store.write(each, outcome(0), RUN)
    sealed = files.unseal((folder / "run.json").read_bytes())
    (folder / "run.json").write_bytes(files.seal({**sealed, "format": 2}))
    for words in (["runs", "--trials"], ["run", TARGET, "--seeds", "1", "--steps", "7"]):
        status, out, err = call(capsys, *words, "--store", str(store.root))
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert "written by a newer version" in err
        assert each.digest in err
    assert sorted(os.listdir(store.root)) == ["tmp", "trials"]
