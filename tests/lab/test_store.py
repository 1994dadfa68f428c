"""The store: what is read is what was written, and where a store may be."""

import dataclasses
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from stairwise.lab.store import files
from stairwise.lab.store.files import StoreError
from stairwise.lab.store.store import Store
from tests.lab.tiny import CLIMB, FILES, PAPER, RUN, Sizes, Tiny, outcome, run_record, scratch, trial


@pytest.fixture
def opened(tmp_path) -> Store:
    return Store.open(tmp_path / "store")


# --- what is stored is what is read -----------------------------------------------------------------------------------


def test_a_trial_reads_back_as_it_was_written(opened):
    asked, made = trial(3), outcome(3)
    folder = opened.write(asked, made, RUN)
    record = opened.read(asked)
    assert record.path == folder == opened.root / "trials" / "tiny" / "walk" / asked.digest
    assert sorted(os.listdir(folder)) == sorted(FILES)
    assert (record.digest, record.seed, record.arm, record.status) == (asked.digest, 3, "slow", "reached")
    assert record.config == asked.config
    assert record.run["message"] == "loss below 0.1"
    assert {name: record.run[name] for name in RUN} == RUN
    assert record.names() == ["loss", "accuracy"]
    assert record.arrays() == ["count", "mask", "weights"]
    for name, array in made.arrays.items():
        assert (record.array(name).dtype, record.array(name).shape) == (array.dtype, array.shape)
        assert record.array(name).tobytes() == array.tobytes()


def test_series_and_final_select_metric_and_stage_in_the_order_of_recording(opened):
    opened.write(trial(0), outcome(0), RUN)
    record = opened.read(trial(0))
    steps, values = record.series("loss", "warm")
    assert steps.tolist() == [0, 10, 20, 30, 40]
    assert values.tolist() == [1.0 / (step + 1) for step in range(0, 50, 10)]
    assert record.series("loss")[0].tolist() == [0, 10, 20, 30, 40, 3]
    assert record.final("accuracy") == 0.8
    assert np.isnan(record.final("loss"))


def test_a_metric_or_array_that_is_not_there_is_an_error_that_lists_those_that_are(opened):
    opened.write(trial(0), outcome(0), RUN)
    record = opened.read(trial(0))
    with pytest.raises(StoreError, match=r"did not measure margin \(it has loss, accuracy\)"):
        record.series("margin")
    with pytest.raises(StoreError, match="did not measure accuracy in stage main"):
        record.final("accuracy", "main")
    with pytest.raises(StoreError, match=r"no array bias \(it has count, mask, weights\)"):
        record.array("bias")


def test_the_table_is_long_form_with_the_trial_in_every_row(opened):
    opened.write(trial(5), outcome(5), RUN)
    table = opened.read(trial(5)).table()
    assert table.column_names == ["experiment", "digest", "seed", "arm", "stage", "step", "name", "value"]
    first = {"experiment": "tiny/walk", "digest": trial(5).digest, "seed": 5, "arm": "slow"}
    assert table.slice(0, 1).to_pylist() == [{**first, "stage": "warm", "step": 0, "name": "loss", "value": 1 / 6}]
    assert table.num_rows == len(outcome(5).value)


def test_a_config_is_typed_where_the_experiment_is_known_and_has_the_same_attributes_where_not(opened):
    opened.write(trial(0), outcome(0), RUN)
    [typed], [plain] = opened.trials(PAPER.experiment("walk")), opened.trials("tiny/walk")
    assert typed.config == Tiny()
    assert (plain.config.task.length, plain.config.task.hops, plain.config.rate) == (8, (1, 2), 0.1)
    assert plain.config_dict == {"task": {"length": 8, "hops": [1, 2]}, "rate": 0.1}


def test_an_experiment_sees_only_the_trials_of_its_own_version(opened):
    opened.write(trial(0), outcome(0), RUN)
    newer = dataclasses.replace(PAPER.experiment("walk"), version=2)
    assert opened.trials(newer) == []
    assert len(opened.trials(newer.name)) == 1


def test_the_arm_is_a_label_and_the_asking_trial_gives_it(opened):
    first = opened.write(trial(0, arm="slow"), outcome(0), RUN)
    assert opened.write(trial(0, arm="fast"), outcome(0), RUN) == first
    assert opened.read(trial(0, arm="fast")).arm == "fast"
    assert opened.read(trial(0).digest).arm == "slow"


def test_a_trial_that_starts_from_another_records_its_digest(opened):
    climb = trial(1, "climb")
    opened.write(climb, outcome(1), RUN)
    assert CLIMB.needs is not None
    assert opened.read(climb).needs == {"start": trial(1).digest}
    assert opened.damaged() == []


def test_trials_are_selected_by_paper_or_experiment(opened):
    for seed, experiment in [(0, "walk"), (1, "walk"), (0, "climb")]:
        opened.write(trial(seed, experiment), outcome(seed), RUN)
    counts = {name: len(opened.trials(name)) for name in (None, "tiny", "tiny/walk", "tiny/climb", "other")}
    assert counts == {None: 3, "tiny": 3, "tiny/walk": 2, "tiny/climb": 1, "other": 0}
    assert [record.digest for record in opened.glance()] == [record.digest for record in opened.trials()]


def test_the_same_outcome_gives_the_same_bytes_whatever_the_order_and_layout_of_its_arrays(tmp_path):
    made, other = outcome(0, floats=600), outcome(0, floats=600)
    other.arrays = {name: np.array(array, order="F") for name, array in reversed(made.arrays.items())}
    other.arrays["weights"] = np.repeat(made.arrays["weights"], 2, axis=1)[:, ::2]
    first = Store.open(tmp_path / "a").write(trial(0), made, RUN)
    second = Store.open(tmp_path / "b").write(trial(0), other, {**RUN, "timing": 9.0})
    same = {name: (first / name).read_bytes() == (second / name).read_bytes() for name in FILES}
    assert same == {"config.json": True, "metrics.parquet": True, "arrays.safetensors": True, "run.json": False}


def test_what_the_store_writes_itself_cannot_be_set_and_foreign_types_are_refused_by_name(opened):
    with pytest.raises(ValueError, match="run: status cannot be set"):
        opened.write(trial(0), outcome(0), {"status": "finished"})
    made = outcome(0)
    made.arrays["phases"] = np.zeros(2, dtype=np.complex64)
    with pytest.raises(ValueError, match="array phases: dtype=complex64 must be one of bool"):
        opened.write(trial(0), made, RUN)
    assert opened.trials() == []
    assert scratch(opened) == []


def test_a_trial_without_metrics_or_arrays_is_stored_too(opened):
    from stairwise.train.stage import Outcome

    opened.write(trial(0), Outcome("diverged"), RUN)
    record = opened.read(trial(0))
    assert (record.status, record.names(), record.arrays(), record.table().num_rows) == ("diverged", [], [], 0)


# --- opening ----------------------------------------------------------------------------------------------------------


def test_a_store_is_where_it_is_asked_for_then_where_the_environment_says_then_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("STAIRWISE_STORE", raising=False)
    assert Store.open().root == tmp_path / "stairwise-store"
    monkeypatch.setenv("STAIRWISE_STORE", str(tmp_path / "elsewhere"))
    assert Store.open().root == tmp_path / "elsewhere"
    assert Store.open("here").root == tmp_path / "here"


def test_a_store_that_does_not_exist_reads_as_empty_and_is_not_made(tmp_path):
    absent = Store.open(tmp_path / "absent", create=False)
    assert (absent.trials(), absent.damaged(), absent.runs(), absent.verdicts()) == ([], [], [], [])
    assert not absent.has(trial(0))
    assert absent.checkpoint("0123456789").load() is None
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("create", [True, False])
def test_a_store_under_a_regular_file_is_one_line_with_exit_status_2(tmp_path, create):
    (tmp_path / "file").write_text("mine")
    place = tmp_path / "file" if not create else tmp_path / "file" / "deep" / "store"
    with pytest.raises(StoreError) as caught:
        Store.open(place, create=create)
    assert caught.value.exit_status == 2
    assert str(caught.value).endswith("Not a directory")
    assert len(str(caught.value).splitlines()) == 1
    assert os.listdir(tmp_path) == ["file"]


def test_a_store_that_turns_out_unwritable_leaves_no_folder_behind(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "touch", refuse)
    with pytest.raises(StoreError, match="Permission denied"):
        Store.open(tmp_path / "deep" / "store")
    assert os.listdir(tmp_path) == []


def test_opening_sweeps_scratch_of_the_dead_and_the_old_and_nothing_else(opened):
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    mine = files.scratch_name()
    machine = mine.split("-")[1]
    names = {
        "dead": f"stairwise-{machine}-{child.pid}-00000000",
        "alive": mine,
        "elsewhere": f"stairwise-{'0' * 12}-{child.pid}-00000000",
        "old": f"stairwise-{'0' * 12}-1-11111111",
        "foreign": "thesis",
    }
    for name in names.values():
        (opened.root / "tmp" / name).mkdir()
        (opened.root / "tmp" / name / "run.json").write_text("half")
    for name in ("old", "foreign"):
        os.utime(opened.root / "tmp" / names[name], (0, time.time() - 2 * 3600))
    Store.open(opened.root, create=False)
    assert len(scratch(opened)) == 5
    Store.open(opened.root)
    assert sorted(scratch(opened)) == sorted([names["alive"], names["elsewhere"], names["foreign"]])


def test_importing_the_store_loads_neither_jax_nor_the_file_formats():
    code = "import sys, stairwise.lab.store.store, stairwise.lab.store.provenance\n"
    code += "print(sorted({'jax', 'pyarrow', 'safetensors'} & set(sys.modules)))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


# --- runs, verdicts, finding ------------------------------------------------------------------------------------------


def test_runs_come_back_in_the_order_they_were_written_under_ids_of_their_own(opened):
    ids = [opened.write_run(run_record(seed, note="n")) for seed in range(20)]
    assert len(set(ids)) == 20
    assert [run.id for run in opened.runs()] == ids == sorted(ids)
    first = opened.runs()[0]
    assert (first.experiment, first.preset, first.seconds) == ("tiny/walk", "quick", 2.5)
    assert (first.trials, first.record["note"]) == ([trial(0).digest], "n")


def test_a_run_can_be_completed_under_its_id(opened):
    id = opened.write_run(run_record(0, seconds=None))
    assert opened.write_run(run_record(0, seconds=4.0, id=id)) == id
    assert [run.seconds for run in opened.runs()] == [4.0]


def test_a_run_record_without_its_fields_is_refused(opened):
    with pytest.raises(ValueError, match=r"run record: preset, seconds missing"):
        opened.write_run({"experiment": "x", "command": "y", "trials": [], "started": 0})


def test_verdicts_keep_their_numbers_and_the_latest_stays(opened):
    data = {"status": "fails", "measured": float("nan"), "margin": np.float32(0.5), "details": [{"n": np.int64(3)}]}
    opened.write_verdict("tiny/thm1", "0123456789", {"status": "holds"})
    opened.write_verdict("tiny/thm1", "0123456789", data)
    read = opened.read_verdict("tiny/thm1", "0123456789")
    assert np.isnan(read["measured"])
    assert (read["status"], read["margin"], read["details"]) == ("fails", 0.5, [{"n": 3}])
    [listed] = opened.verdicts()
    assert (listed["claim"], listed["digest"], listed["status"]) == ("tiny/thm1", "0123456789", "fails")
    assert opened.read_verdict("tiny/thm1", "9876543210") is None


def test_a_unique_prefix_finds_a_trial_or_a_run(opened):
    for seed in range(40):
        opened.write(trial(seed, task=Sizes(length=3)), outcome(seed), RUN)
    id = opened.write_run(run_record(0))
    wanted = trial(7, task=Sizes(length=3)).digest
    assert opened.find(wanted[:10]).digest == wanted
    assert opened.find(id[:12]).id == id
    with pytest.raises(StoreError, match="no trial or run begins with 'xyz'"):
        opened.find("xyz")
    with pytest.raises(StoreError, match="'' is ambiguous, 41 trials and runs begin with it"):
        opened.find("")
    initials = Counter(record.digest[0] for record in opened.trials())
    [(initial, count)] = initials.most_common(1)  # of forty, some two begin alike
    same = sorted(record.digest for record in opened.trials() if record.digest.startswith(initial))
    with pytest.raises(StoreError, match=f"'{initial}' is ambiguous, {count} trials .*: {', '.join(same[:6])}"):
        opened.find(initial)
